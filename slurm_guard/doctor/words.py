"""What Slurm's programs say, as one sentence for a person."""

from __future__ import annotations

import re

LONGEST = 100
_COMPLAINT = re.compile(r"\b(error|fatal): (.*?)(?=\s(?:\w+: )?(?:error|fatal): |$)")
#: A C function's name, which Slurm puts before many of its messages.
_FUNCTION = re.compile(r"^\w*_\w*: ")
_STATUS = re.compile(r"\s*\(exit status \d+\)")


def one_sentence(error: Exception) -> str:
    """The telling part of Slurm's answer, without prefixes: what was fatal, else the first complaint.

    A client that fails says the same thing several times, each time from one floor higher.
    """
    text = " ".join(_STATUS.sub("", str(error)).split())
    program, _, said = text.partition(": ")
    if not said or " " in program:
        return _cut(text)
    complaints = _COMPLAINT.findall(said)
    fatal = [words for kind, words in complaints if kind == "fatal"]
    telling = (fatal or [words for _, words in complaints] or [said])[0]
    return _cut(f"{program}: {_FUNCTION.sub('', telling)}")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1].rstrip()}…"
