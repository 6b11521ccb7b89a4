"""Lines of 80 columns that never break a word: paths and commands can be copied as they are printed."""

import textwrap

WIDTH = 80


def wrap(text: str, first: str = "", rest: str = "", width: int = WIDTH) -> list[str]:
    """A text in lines of at most `width`, unless one word alone is longer; the others begin with `rest`."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )
