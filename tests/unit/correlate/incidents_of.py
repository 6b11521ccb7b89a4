"""What tests of incidents share: records in, a comparable picture of the incidents out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slurm_guard import correlate
from slurm_guard.store import Store, incidents, open_store
from slurm_guard.store.record import parse
from slurm_guard.store.writer import ingest
from tests.unit.store.factory import ms

NOW = ms(100_000)


def put(store: Store, *records: dict[str, Any]) -> correlate.Changes:
    """Ingest records and look at them."""
    ingest(store, [parse(json.dumps(one).encode()) for one in records])
    return correlate.run(store, NOW)


@contextmanager
def new_store() -> Iterator[Store]:
    with TemporaryDirectory() as folder, open_store(Path(folder) / "store.sqlite") as store:
        yield store


def picture(store: Store) -> list[tuple[Any, ...]]:
    """Everything that incidents say but their numbers, by time."""
    found = incidents.listed(store)
    return sorted(
        (
            one.first_seen,
            one.cause,
            one.fault,
            one.scope,
            one.tier,
            one.state,
            one.last_seen,
            one.resolved_at or 0,
            one.resolved_why or "",
            one.summary,
            tuple(
                sorted(
                    (m.node, m.fault, m.device, m.first_seen, m.last_seen, m.count, m.ended or 0, m.why or "")
                    for m in one.members
                )
            ),
        )
        for one in found
    )


def lines(store: Store) -> list[str]:
    """One line for each incident, by time: cause, minutes, state, nodes, devices, and why it is over."""
    return [
        " ".join(
            filter(
                None,
                (
                    f"[{one.cause}]",
                    f"{minutes(one.first_seen)}-{minutes(one.last_seen)}",
                    one.state if one.resolved_at is None else f"{one.state}@{minutes(one.resolved_at)}",
                    ",".join(one.nodes),
                    ",".join(one.devices),
                    f"({one.resolved_why})" if one.resolved_why else "",
                ),
            )
        )
        for one in sorted(incidents.listed(store), key=lambda each: (each.first_seen, each.cause))
    ]


def minutes(at: int) -> str:
    return f"{(at - ms(0)) / 60_000:g}"


def of(records: Iterable[dict[str, Any]]) -> list[str]:
    """The lines of incidents that some records make, ingested at once."""
    with new_store() as store:
        put(store, *records)
        return lines(store)
