"""Lines of 80 columns that never break a word: paths and commands can be copied as they are printed."""

import sys
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


def for_stderr(text: str, mark: str = "sguard: ") -> list[str]:
    """A message in lines: one for each of its own where a program reads it, wrapped where a person does."""
    lines = text.splitlines() or [""]
    if sys.stderr is None or not sys.stderr.isatty():
        return [f"{mark}{line}" for line in lines]
    indent = " " * len(mark)
    return [part for line in lines for part in wrap(line, mark, indent) or [mark.rstrip()]]
