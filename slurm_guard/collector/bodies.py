"""From the lines of a body to records that belong to their sender."""

from __future__ import annotations

import re
from typing import NamedTuple

from slurm_guard.collector.answers import RefusalError
from slurm_guard.collector.limits import MOST_RECORDS
from slurm_guard.core.errors import RecordError
from slurm_guard.store.record import Record, parse

_RUN_ID = re.compile(rb'"run_id" ?: ?"([0-9a-fA-F]{32})"')


class Line(NamedTuple):
    """One line: its number from 1, the run id as the sender wrote it, and the record or why it is none."""

    number: int
    run_id: str | None
    record: Record | None
    why: str = ""


def lines_of(body: bytes, node: str, cluster: str) -> list[Line]:
    """Every line that is not empty, each judged by itself. Raises RefusalError (413) for too many."""
    if body.count(b"\n") > MOST_RECORDS:  # before anything is made of them
        raise _too_many(body.count(b"\n"))
    texts = [(number, text) for number, text in enumerate(body.split(b"\n"), start=1) if text.strip()]
    if len(texts) > MOST_RECORDS:
        raise _too_many(len(texts))
    return [_line(number, text, node, cluster) for number, text in texts]


def _too_many(count: int) -> RefusalError:
    return RefusalError(413, f"{count} lines in one request; expected at most {MOST_RECORDS} records")


def _line(number: int, text: bytes, node: str, cluster: str) -> Line:
    try:
        record = parse(text)
    except RecordError as error:
        named = _RUN_ID.search(text)
        return Line(number, named[1].decode() if named else None, None, str(error))
    run_id, of_node, of_cluster = (record.data.get(key) or "" for key in ("run_id", "node", "cluster"))
    if of_node != node:
        why = f"a record of node {of_node:.60}, sent by {node}: a node speaks only for itself"
    elif of_cluster not in ("", cluster) and cluster:
        why = f"a record of cluster {of_cluster:.60}; this collector serves {cluster}"
    else:
        return Line(number, run_id, record)
    return Line(number, run_id, None, why)
