"""What the bench feeds to ingest are records that ingest takes."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from bench import records
from bench.store import START
from slurm_guard.ingest import ingest_folder
from slurm_guard.store import open_store, schema


def test_an_hour_is_nine_healthchecks_to_one_hook_of_a_job(tmp_path: Path) -> None:
    made = list(records.hour(random.Random(1), 18, START))
    assert Counter(one["hook"] for one in made) == {"healthcheck": 216, "prolog": 12, "epilog": 12}
    files, size = records.write_spool(tmp_path / "spool", iter(made))
    assert files == 240
    assert size == sum(path.stat().st_size for path in (tmp_path / "spool").iterdir())
    with open_store(tmp_path / "store.sqlite") as store:
        report = ingest_folder(store, tmp_path / "spool")
        with store.read() as connection:
            closed = [row.closed for row in connection.execute(schema.allocations.select())]
    assert (report.ingested, report.set_aside) == (240, [])
    assert len(closed) == 12
    assert None not in closed
