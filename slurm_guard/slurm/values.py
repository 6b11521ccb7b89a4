"""Single values as Slurm prints them: numbers, times, users, exit codes, and what stands for nothing."""

from __future__ import annotations

import re

from slurm_guard.core.errors import SlurmError

#: What Slurm prints where there is nothing.
_NOTHING = frozenset({"", "(null)", "N/A", "n/a", "None", "NONE", "Unknown", "UNKNOWN", "Invalid", "none"})
#: NO_VAL and INFINITE in 32 and 64 bits; the 16-bit pair is a plain number in wider fields.
_SENTINELS = frozenset({4294967294, 4294967295, 18446744073709551614, 18446744073709551615})
_SHORT_SENTINELS = frozenset({65534, 65535})
_ALIVE = frozenset({"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING"})
_USER = re.compile(r"(.*)\((\d+)\)", re.DOTALL)
_EXIT = re.compile(r"(\d{1,10}):(\d{1,10})")
_LONGEST_NUMBER = 20


def text(told: str) -> str:
    """A text without the padding of its column; `""` for what stands for nothing."""
    bare = told.strip()
    return "" if bare in _NOTHING else bare


def number(told: str, short: bool = False) -> int | None:
    """A number, or None for anything else, Slurm's "no value" numbers included.

    `short`: the field has 16 bits, so 65534 and 65535 mean "no value" as well.
    """
    bare = told.strip()
    if len(bare) > _LONGEST_NUMBER or not (bare.isascii() and bare.isdigit()):
        return None
    return real(int(bare), short)


def real(value: int, short: bool = False) -> int | None:
    """The number itself, or None if it is one of Slurm's numbers for "no value"."""
    if value in _SENTINELS or (short and value in _SHORT_SENTINELS):
        return None
    return value


def job_number(told: str) -> int:
    """A job id.

    Raises:
        SlurmError: it is none.
    """
    value = number(told)
    if not value:  # there is no job 0
        raise SlurmError(f"Slurm's answer has {told[:40]!r} where a job id was expected")
    return value


def user(told: str) -> tuple[str, int | None]:
    """`root(0)`, `root`, `4242` or `Unknown` as name and number; either may be missing."""
    bare = told.strip()
    match = _USER.fullmatch(bare)
    if match:
        return ("" if match.group(1).isdigit() else match.group(1)), number(match.group(2))
    if bare.isdigit():
        return "", number(bare)
    return text(bare), None


def exit_status(told: str) -> tuple[int | None, int | None]:
    """Exit code and signal from `3:0`, or from the raw wait status that squeue prints (768)."""
    match = _EXIT.fullmatch(told.strip())
    if match:
        return int(match.group(1)), int(match.group(2))
    status = number(told)
    return (None, None) if status is None else wait_status(status)


def wait_status(status: int) -> tuple[int, int]:
    """Exit code and signal of a raw wait status."""
    return (status >> 8) & 0xFF, status & 0x7F


def ended(job_state: str) -> bool:
    """False while a job waits or runs: its exit code is then told as 0 and means nothing."""
    return bool(job_state) and job_state.partition("+")[0] not in _ALIVE


def seconds(told: str) -> int | None:
    """Seconds since 1970 of a time that Slurm printed in UTC, or None for `Unknown`, `N/A` and the like."""
    from datetime import datetime, timezone

    try:
        return int(datetime.fromisoformat(told.strip()).replace(tzinfo=timezone.utc).timestamp())
    except (ValueError, OverflowError):
        return None


def one_line(told: str, most: int = 300) -> str:
    """The beginning of a message as one line, for an error of ours."""
    return " ".join(told.split())[:most]
