"""The spool holds its bounds, gives up what matters least, and no odd thing keeps a record from the disk."""

from __future__ import annotations

import errno
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.core.paths import Places
from slurm_guard.engine import batch, files, spool

LIMITS = {"files": 4.0, "bytes": 1e6, "age_s": 1e6}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(str(tmp_path))


def a_record(number: int, hook: str = "healthcheck", status: str = "pass") -> dict[str, Any]:
    return {"run_id": f"{number:032x}", "hook": hook, "status": status}


def kept(places: Places) -> list[int]:
    return [int(os.path.basename(path)[:-5].rpartition("-")[2], 16) for path in spool.paths(places)]


def test_ordinary_healthchecks_are_given_up_before_what_tells_of_jobs_and_faults(places: Places) -> None:
    spool.write(places, a_record(1, "prolog"), LIMITS)
    spool.write(places, a_record(2, status="fail"), LIMITS)
    dropped = [spool.write(places, a_record(number), LIMITS) for number in (3, 4, 5, 6)]
    assert dropped == [0, 0, 1, 1]
    assert kept(places) == [1, 2, 5, 6]


def test_what_is_no_record_and_cannot_be_removed_is_in_no_records_way(places: Places) -> None:
    files.make_folder(places.spool)
    for number in range(6):
        Path(places.spool, f"h-{number:016d}-odd.json").mkdir()
    assert spool.write(places, a_record(1), LIMITS) == 0
    assert len([path for path in spool.paths(places) if os.path.isfile(path)]) == 1


def test_only_a_full_disk_costs_older_records(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    spool.write(places, a_record(1), LIMITS)

    def fails(number: int) -> None:
        def write(path: str, data: bytes) -> None:
            raise OSError(number, os.strerror(number), path)

        monkeypatch.setattr(files, "write_atomic", write)
        with pytest.raises(OSError, match=os.strerror(number)):
            spool.write(places, a_record(2), LIMITS)

    fails(errno.EIO)
    fails(errno.EROFS)
    assert kept(places) == [1]
    fails(errno.ENOSPC)
    assert kept(places) == []


@pytest.mark.parametrize("value", [Decimal("1.5"), {1, 2}, b"x", object(), {("a", "b"): 1}])
def test_a_value_that_json_does_not_know_costs_no_record(value: object) -> None:
    found = json.loads(spool.encode({"run_id": "r", "results": [{"value": value}]}))
    assert (found["run_id"], len(found["results"])) == ("r", 1)


def test_a_name_in_a_foreign_encoding_costs_no_shipment(places: Places) -> None:
    files.make_folder(places.spool)
    name = b"r-1-" + b"\xe9" * 32 + b".json"
    Path(os.fsdecode(os.path.join(os.fsencode(places.spool), name))).write_bytes(
        b'{"run_id":"' + b"a" * 32 + b'"}'
    )
    taken = batch.take(spool.paths(places), 10, lambda *_: None)
    assert taken.ids == ["a" * 32]
