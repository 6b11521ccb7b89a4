"""A day of 64 nodes, and the incidents that a person reads from it. Times are minutes since midnight.

Every node has a healthcheck every ten minutes, node nNN at minute NN modulo 10. Records come in portions,
each in no order, some of them twice, some half a day late.
"""

from __future__ import annotations

import random
import threading
from typing import Any, NamedTuple

import pytest

from slurm_guard import correlate
from slurm_guard.store import open_store
from tests.unit.correlate.incidents_of import NOW, lines, new_store, picture, put
from tests.unit.store.factory import action, action_record, finding, run

DAY = 24 * 60
ALL = range(1, 65)


class Trouble(NamedTuple):
    """A fault that these nodes' healthchecks see from one minute to before another."""

    nodes: range
    start: int
    end: int
    findings: list[dict[str, Any]]


TROUBLES = [
    Trouble(range(7, 8), 60, 150, [finding("ib_link.down", device="mlx5_0/1", tier="DRAIN")]),
    Trouble(range(7, 8), 540, 570, [finding("ib_link.down", device="mlx5_0/1", tier="DRAIN")]),
    Trouble(range(12, 13), 190, 200, [finding("gpu_xid.79", device="gpu3", event=True, tier="DRAIN_REBOOT")]),
    Trouble(ALL, 240, 270, [finding("fs_mounts.hung", "timeout", device="/scratch", scope="shared")]),
    Trouble(range(20, 32), 360, 420, [finding("gpu_ecc.dbe", device="gpu0", tier="DRAIN")]),
    Trouble(
        range(33, 34), 480, 490,
        [finding("gpu_xid.48", device=f"gpu{number}", event=True, tier="DRAIN_RMA") for number in range(8)],
    ),
    Trouble(range(40, 41), 600, 660, [finding("memory_size.low", tier="DRAIN")]),
    Trouble(range(50, 52), 720, 750, [finding("fs_mounts.missing", device="/local", tier="DRAIN")]),
    Trouble(range(55, 56), 800, 900, [finding("gpu_temperature.high", "warn", device="gpu1", tier="WARN")]),
]  # fmt: skip
#: Node: from this minute on it is booted, and another machine where the serial says so.
BOOTS = {12: (300, "SNn12"), 40: (660, "SNn40-new")}
#: Nodes whose plan is stale, from and until.
STALE = (range(60, 65), 840, 960)
#: What the budget held back: node, minute.
HELD = [(22, 362.5), (23, 363.5), (22, 372.5)]

EVERYBODY = ",".join(sorted(f"n{number}" for number in ALL))
A_DOZEN = "n20,n21,n22,n23,n24,n25,n26,n27,n28,n29,n30,n31"
#: By hand.
EXPECTED = [
    "[n7 ib_link.down mlx] 67-147 resolved@177 n7 mlx5_0/1 (3 clean runs)",
    "[n12 gpu_xid.79 gpu] 192-192 resolved@322 n12 gpu3 (3 clean runs after a reboot)",
    f"[fs_mounts /scratch] 240-269 resolved@299 {EVERYBODY} /scratch (3 clean runs)",
    f"[many nodes gpu_ecc.dbe] 360-419 resolved@449 {A_DOZEN} gpu0 (3 clean runs)",
    "[budget nodes] 362.5-372.5 resolved@402 n22,n23 nodes (3 clean runs)",
    "[n33 gpu_xid.48 gpu] 483-483 open n33 gpu0,gpu1,gpu2,gpu3,gpu4,gpu5,gpu6,gpu7",
    "[n7 ib_link.down mlx] 547-567 resolved@597 n7 mlx5_0/1 (3 clean runs)",
    "[n40 memory_size.low] 600-650 resolved@660 n40 (same name on a new machine)",
    "[n50 fs_mounts.missing /local] 720-740 resolved@770 n50 /local (3 clean runs)",
    "[n51 fs_mounts.missing /local] 721-741 resolved@771 n51 /local (3 clean runs)",
    "[plan plan] 840-954 resolved@984 n60,n61,n62,n63,n64 plan (3 clean runs)",
]


def record(node: int, minute: float) -> dict[str, Any]:
    seen = [
        one
        for trouble in TROUBLES
        if node in trouble.nodes and trouble.start <= minute < trouble.end
        for one in trouble.findings
    ]
    since, serial = BOOTS.get(node, (DAY, ""))
    is_new = minute >= since
    machine = {
        "boot_id": f"boot-{node}-{int(is_new)}",
        "machine_id": f"id-{node}",
        "serial": serial if is_new else f"SNn{node}",
    }
    nodes, start, end = STALE
    is_stale = node in nodes and start <= minute < end
    plan = {"hash": "9" * 32, "state": "stale" if is_stale else "ok", "problem": ""}
    return run("healthcheck", f"n{node}", minute, *seen, machine=machine, plan=plan)


def a_day() -> list[dict[str, Any]]:
    made = [record(node, minute + node % 10) for minute in range(0, DAY, 10) for node in ALL]
    for node, minute in HELD:
        held = action("drain", minute, "gpu_ecc.dbe", "gpu0", "held", limit="nodes", why="no room")
        made.append(action_record(f"n{node}", minute, held))
    return made


@pytest.mark.parametrize("seed", [1, 2])
def test_a_day_has_the_incidents_that_a_person_reads_from_it(seed: int) -> None:
    draw = random.Random(seed)
    made = a_day()
    late = draw.sample(made, 300)
    portions = [made[start : start + 700] for start in range(0, len(made), 700)]
    with new_store() as store:
        for some in portions:
            kept = [one for one in some if one not in late] + draw.sample(some, 10)
            put(store, *draw.sample(kept, len(kept)))
        put(store, *late)
        assert lines(store) == EXPECTED


def test_two_collectors_at_once_make_the_same_incidents() -> None:
    made = [one for one in a_day() if one["node"] in {"n7", "n12", "n20", "n21", "n22", "n23", "n33", "n40"}]
    with new_store() as store:
        put(store, *made)
        expected = picture(store)
    random.Random(7).shuffle(made)
    with new_store() as store:
        failed: list[BaseException] = []

        def work(own: list[dict[str, Any]]) -> None:
            try:
                with open_store(store.path) as opened:
                    for start in range(0, len(own), 90):
                        put(opened, *own[start : start + 90])
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(made[number::2],)) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        correlate.run(store, NOW)
        assert picture(store) == expected
