"""The drain reason: build it, read it, and tell whether a node's reason is ours and unchanged.

Grammar: `SG:<fault> <device>`, or `SGJ:` where the user's job caused it. One line, short, stable, without
ids or times, because `sinfo -R` shows 20 columns and Slurm groups nodes by the text.
"""

from __future__ import annotations

import re

MARK, JOB_MARK = "SG:", "SGJ:"
LONGEST = 100

_OURS = re.compile(r"(SGJ?):([a-z][a-z0-9_]*(?:\.[A-Za-z0-9_]+)*)(?: ([^\s].*?))?")
#: What Slurm itself appends to a reason while a reboot is on its way; not an edit by a person.
_SLURMS_TAIL = re.compile(r"(?:\s*:\s*reboot (?:issued|complete|timed out|requested))+\s*$", re.IGNORECASE)
_UNSAFE = re.compile(r"[^\x20-\x7e]+")


class Reason:
    """A reason of ours, read back: the fault, the device (may be empty), and whether the job caused it."""

    __slots__ = ("device", "fault", "job_caused")

    def __init__(self, fault: str, device: str = "", job_caused: bool = False) -> None:
        self.fault = fault
        self.device = device
        self.job_caused = job_caused

    def __str__(self) -> str:
        return build(self.fault, self.device, self.job_caused)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reason) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


def clean(text: str, longest: int = LONGEST) -> str:
    """A text that Slurm and every tool that parses it can bear.

    Control characters, non-ASCII and newlines become one space; quotes, backslashes, backquotes, `$`, `|`
    and `=` are dropped (scontrol loses a trailing quote, `key=value` parsers break); cut at `longest`.
    """
    text = _UNSAFE.sub(" ", text)
    text = re.sub(r"[\"'`\\$|=;&<>]", "", text)
    return re.sub(r" +", " ", text).strip()[:longest].strip()


def build(fault: str, device: str = "", job_caused: bool = False) -> str:
    """The reason for a fault on a device, e.g. `SG:gpu_xid.79 gpu3`."""
    head = (JOB_MARK if job_caused else MARK) + (re.sub(r"[^A-Za-z0-9_.]", "", fault) or "unknown")
    return clean(f"{head} {clean(device)}")


def strip_slurms_additions(text: str) -> str:
    """The reason without what Slurm itself stores behind it: `: reboot issued` and the like.

    `[user@time]` is not among them: Slurm prints it and does not store it, so where it is part of a reason,
    a person pasted it.
    """
    return _SLURMS_TAIL.sub("", text).strip()


def parse(text: str | None) -> Reason | None:
    """A reason in our grammar, or None: someone else's, empty, or edited beyond recognition."""
    if not text:
        return None
    match = _OURS.fullmatch(strip_slurms_additions(text))
    if match is None:
        return None
    mark, fault, device = match.groups()
    return Reason(fault, device or "", mark == "SGJ")


def is_ours_unchanged(text: str | None, written: str | None = None) -> bool:
    """True if the node's reason is one that we wrote and that nobody edited.

    `written` is the reason on record for this node; without one, the text must at least be exactly what we
    would build from it, so that an appended ticket number makes it somebody else's.
    """
    reason = parse(text)
    if reason is None or not text:
        return False
    bare = strip_slurms_additions(text)
    if written is not None:
        return bare == written
    return bare == str(reason) and " " not in reason.device
