"""What changed on a node while a job ran."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_guard.report.changes import changes
from slurm_guard.store.model import Allocation, FindingRow, NodeShare, RunRow

HOT = ("gpu_temperature.hw_slowdown", "gpu0", "warn", False)
XID = ("gpu_xid.13", "gpu1", "fail", True)


def run(hook: str, *seen: tuple[str, str, str, bool], **more: Any) -> RunRow:
    found = [
        FindingRow(1, "gx1", 0, fault.partition(".")[0], fault, status, device, event=event)
        for fault, device, status, event in seen
    ]
    return RunRow(1, "00", "aurora", "gx1", hook, 0, "pass", findings=found, **more)


def share(prolog: RunRow | None, epilog: RunRow | None, *between: RunRow) -> NodeShare:
    return NodeShare(Allocation(1, "aurora", "gx1", 5, 0), prolog, epilog, events=list(between))


GROWN = {"ib_symbol_error mlx5_0/1": 5000.0, "gpu_ecc_uncorrected gpu0": 1.0, "gpu_pcie_replay gpu3": 0.0}
BUSY = {"ib_port_xmit_wait mlx5_0/1": 9e6}


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (share(run("prolog"), run("epilog")), []),
        (share(run("prolog"), None), None),
        (share(None, None, run("healthcheck", ("gpu_ecc", "gpu0", "unknown", False))), None),
        (
            share(run("prolog"), run("epilog", growths={**GROWN, **BUSY})),
            [("ECC", "gpu_ecc_uncorrected gpu0"), ("IB counters", "ib_symbol_error mlx5_0/1")],
        ),
        (
            share(
                run("prolog", values={"gpu_remapped_rows gpu1": 0, "gpu_temperature gpu1": 30}),
                run("epilog", values={"gpu_remapped_rows gpu1": 2, "gpu_temperature gpu1": 70}),
            ),
            [("remaps", "gpu_remapped_rows gpu1")],
        ),
        (
            share(run("prolog"), run("epilog", XID), run("healthcheck", HOT, XID), run("healthcheck", HOT)),
            [("Xid", "gpu_xid.13 gpu1"), ("throttling", "gpu_temperature.hw_slowdown gpu0")],
        ),
        (share(run("prolog", HOT), run("epilog"), run("healthcheck", HOT)), []),
        (share(run("prolog"), None, run("healthcheck", XID)), [("Xid", "gpu_xid.13 gpu1")]),
    ],
)
def test_what_changed(one: NodeShare, expected: list[tuple[str, str]] | None) -> None:
    found = changes(one)
    told = None if found is None else [(c.group, f"{c.metric} {c.device}") for c in found]
    assert told == expected
