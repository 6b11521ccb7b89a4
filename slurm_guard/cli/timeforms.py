"""Slurm's forms of a time, as `sacct -S` takes them: `now-7days`, `2026-11-30T10:00`, `midnight`, `11/30`.

Times without a zone are local, as in Slurm.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time, timedelta

_DAY_WORDS = {"midnight": time(0), "noon": time(12), "fika": time(15), "teatime": time(16)}
_UNITS = {"second": 1, "minute": 60, "hour": 3600, "day": 86400, "week": 7 * 86400}

_NOW = re.compile(r"now(?:([+-])(\d{1,9})([a-z]*))?")
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\s*(am|pm)?")
_ISO_DATE = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})")
_US_DATE = re.compile(r"(\d{1,2})([/.])(\d{1,2})(?:\2(\d{2}|\d{4}))?")
_PACKED_DATE = re.compile(r"(\d{2})(\d{2})(\d{2})?")
_BOTH = re.compile(r"(.+?)(?:t|\s+|-)(\d{1,2}:\d{2}(?::\d{2})?\s*(?:am|pm)?)")
_UNIX = re.compile(r"uts(\d{1,11})")

FORMS = "now-7days, today, midnight, 10:30, 2026-11-30, 2026-11-30T10:00:00, 11/30/26 or 2026-11-30T10:00Z"


def parse(text: str, now: datetime) -> datetime:
    """The time that a text means, in UTC.

    `now` is the present and, by its zone, what "local" means; without a zone it is the system's local time,
    with the summer time of each day. A clock time alone is today's. Raises ValueError with the forms that
    are understood.
    """
    word = text.strip().lower() if text.isascii() else ""
    try:
        found = (
            _zoned(word) or _relative(word, now.astimezone(UTC)) or _named(word, now) or _absolute(word, now)
        )
        if found is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text[:80]!r} is not a time: {error}; expected {FORMS}") from None
    raise ValueError(f"{text[:80]!r} is not a time; expected {FORMS}")


def _zoned(word: str) -> datetime | None:
    """A record's own form, `2026-11-30T10:00:00.123Z` or with an offset, and Slurm's `uts1700000000`."""
    unix = _UNIX.fullmatch(word)
    if unix:
        return datetime.fromtimestamp(int(unix[1]), UTC)
    if "t" not in word or not re.search(r"(?:z|[+-]\d\d:?\d\d)$", word):
        return None
    found = datetime.fromisoformat(word.upper())
    return found if found.tzinfo else None


def _relative(word: str, now: datetime) -> datetime | None:
    match = _NOW.fullmatch(word)
    if match is None:
        return None
    sign, count, unit = match.groups()
    if not sign:
        return now
    seconds = int(count) * _unit(unit)
    return now + timedelta(seconds=seconds if sign == "+" else -seconds)


def _unit(text: str) -> int:
    """Seconds of a unit; Slurm takes any abbreviation, and seconds where none is given."""
    if not text:
        return 1
    for name, seconds in _UNITS.items():
        if f"{name}s".startswith(text):
            return seconds
    raise ValueError(f"{text!r} is not a unit")


def _named(word: str, now: datetime) -> datetime | None:
    today = now.date()
    if word == "today":
        return _local(today, time(0), now)
    if word == "tomorrow":
        return _local(today + timedelta(days=1), time(0), now)
    if word in _DAY_WORDS:
        return _local(today, _DAY_WORDS[word], now)
    return None


def _absolute(word: str, now: datetime) -> datetime | None:
    """A date, a clock time, or both, with `T`, `-` or a blank between them."""
    both = _BOTH.fullmatch(word)
    day_text, clock_text = (both[1], both[2]) if both else (word, "")
    if not both and _CLOCK.fullmatch(word):
        return _local(now.date(), _clock(word), now)
    day = _date(day_text, now)
    if day is None:
        return None
    return _local(day, _clock(clock_text) if clock_text else time(0), now)


def _clock(text: str) -> time:
    match = _CLOCK.fullmatch(text)
    assert match is not None
    hour, half = int(match[1]), match[4]
    if half:
        if not 1 <= hour <= 12:
            raise ValueError(f"hour {hour} with {half}")
        hour = hour % 12 + (12 if half == "pm" else 0)
    return time(hour, int(match[2]), int(match[3] or 0))


def _date(text: str, now: datetime) -> date | None:
    match = _ISO_DATE.fullmatch(text)
    if match:
        return date(int(match[1]), int(match[2]), int(match[3]))
    match = _US_DATE.fullmatch(text)
    if match:
        return date(_year(match[4], now), int(match[1]), int(match[3]))
    match = _PACKED_DATE.fullmatch(text)
    if match:
        return date(_year(match[3], now), int(match[1]), int(match[2]))
    return None


def _year(text: str | None, now: datetime) -> int:
    if text is None:
        return now.year
    return int(text) if len(text) == 4 else 2000 + int(text)


def _local(day: date, clock: time, now: datetime) -> datetime:
    """A wall-clock time in the zone of `now`; without one, `astimezone` takes it for the system's."""
    return datetime.combine(day, clock, tzinfo=now.tzinfo)


def option(text: str | None, letter: str) -> datetime | None:
    """The time of an option of the command line; a usage error names the option."""
    if text is None:
        return None
    try:
        return parse(text, datetime.now())  # noqa: DTZ005 - wanted: local time with its summer time
    except ValueError as error:
        import click

        raise click.BadParameter(str(error), param_hint=letter) from None


def milliseconds(text: str | None, letter: str) -> int | None:
    """The time of an option as the store counts it: milliseconds since 1970."""
    found = option(text, letter)
    return None if found is None else round(found.timestamp() * 1000)
