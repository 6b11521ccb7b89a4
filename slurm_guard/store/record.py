"""Read a run record: whatever the bytes are, the answer is a `Record` or a `RecordError`.

The shape is documented in docs/record.md. Majors 0 to 2 are read and unknown keys are kept; anything that
would not fit the tables (torn, foreign, wrong types, numbers or times out of range, NULs) is refused.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, NoReturn

from slurm_guard.core.errors import RecordError
from slurm_guard.store.shape import check, milliseconds, refuse

__all__ = ["LARGEST", "Record", "milliseconds", "parse", "parse_or_error"]

#: A record is a few kilobytes; a larger file is not one.
LARGEST = 4 << 20


class Record:
    """A record that was read and found whole: `data` is the JSON object, the rest is made from it.

    `digest` tells two different records under one `run_id` apart; `started` is in milliseconds.
    """

    __slots__ = ("data", "digest", "kind", "run_id", "size", "started")

    def __init__(self, data: dict[str, Any], content: bytes) -> None:
        self.data = data
        self.kind: str = data["kind"]
        self.run_id = bytes.fromhex(data["run_id"])
        self.started = milliseconds(data["started"], "started")
        self.digest = zlib.crc32(content)
        self.size = len(content)


def parse(content: bytes) -> Record:
    """Read one record. Raises RecordError with what is wrong and what was expected."""
    if len(content) > LARGEST:
        refuse(f"{len(content)} bytes, at most {LARGEST} are a record")
    try:
        text = content.decode()
        data = _DECODER.decode(text)
        if "\\u" in text:
            _check_text(data)
        check(data)
        return Record(data, content)
    except RecordError:
        raise
    except RecursionError:
        raise RecordError("nested too deeply to be a record") from None
    except (ValueError, OverflowError, TypeError, AttributeError) as error:
        raise RecordError(f"torn or not JSON: {error}"[:300]) from None


def parse_or_error(content: bytes) -> Record | RecordError:
    """The same for many records in a row: a bad one is an answer like any other."""
    try:
        return parse(content)
    except RecordError as error:
        return error


def _no_constant(name: str) -> NoReturn:
    refuse(f"holds {name}, which is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)


def _check_text(value: Any) -> None:
    """Refuse what a database cannot keep: NUL characters and lone surrogates."""
    if isinstance(value, str):
        if "\0" in value:
            refuse("holds a NUL character")
        value.encode()
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key)
            _check_text(item)
    elif isinstance(value, list):
        for item in value:
            _check_text(item)
