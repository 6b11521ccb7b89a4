"""Actions on record become events: one for each thing that really happened."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_guard.report.actions import events, sentence
from slurm_guard.store.model import ActionRow
from tests.unit.store.factory import ms

FULL = "no room in the budget of the cluster: 2 of at most 2 are drained (gx7, gx8)"
HUNG = ("fs_mounts.hung", "/local")
LOST = ("gpu_count.lost", "gpu1")
QUOTED = '"SG:gpu_count.lost gpu1"'


def row(
    asked: str,
    minute: float,
    action: str,
    fault: tuple[str, str],
    outcome: str,
    why: str = "",
    by: str = "prolog",
    **more: Any,
) -> ActionRow:
    reason = f"SG:{fault[0]} {fault[1]}" if action != "tell" else None
    given: dict[str, Any] = {"answer": None, "job_id": None, "user": None, "written": None, **more}
    return ActionRow(
        1, "gx1", ms(minute), action, *fault, reason, outcome, why, given["answer"], 2, given["job_id"], by,
        given["user"], "enforce", 1, asked, given["written"],
    )  # fmt: skip


def told(rows: list[ActionRow], job_id: int | None = None) -> list[str]:
    return [sentence(one.as_dict()) for one in events(rows, job_id)]


REFUSED = [
    row("a", 0, "refuse", HUNG, "queued", "tier DRAIN; the job was given /local"),
    row("a", 0.01, "drain", HUNG, "done", "drained: SG:fs_mounts.hung /local"),
    row("a", 0.02, "refuse", HUNG, "done", "drained: SG:fs_mounts.hung /local", job_id=4),
    row("a", 0.03, "tell", HUNG, "done", job_id=4),
    row("b", 0.05, "drain", HUNG, "queued", "tier DRAIN", by="epilog"),
    row("b", 0.06, "drain", HUNG, "done", "drained: SG:fs_mounts.hung /local (asked 0 s ago)", by="epilog"),
    row("c", 5, "drain", HUNG, "queued", "tier DRAIN", by="healthcheck"),
    row("c", 5.1, "drain", HUNG, "done", "drained with our own reason, unchanged: 'x'; nothing to write",
        by="healthcheck"),
    row("d", 20, "resume", HUNG, "done", "resumed; it was drained with 'x'", by="healthcheck"),
    row("e", 21, "resume", HUNG, "done", "gx1 is IDLE: not drained, nothing to resume", by="healthcheck"),
]  # fmt: skip

CASES: dict[str, tuple[list[ActionRow], int | None, list[str]]] = {
    "a refusal, its drain, and what found the node drained": (
        REFUSED,
        4,
        [
            'prolog refused job 4 and drained gx1 "SG:fs_mounts.hung /local"',
            "prolog told the owner of job 4 in its admin comment",
            'healthcheck resumed gx1, drained as "SG:fs_mounts.hung /local"',
        ],
    ),
    "the same in another job's report": (
        REFUSED,
        9,
        [
            'prolog drained gx1 "SG:fs_mounts.hung /local"',
            'healthcheck resumed gx1, drained as "SG:fs_mounts.hung /local"',
        ],
    ),
    "a drain that was made before the time shown": (
        REFUSED[6:8],
        None,
        ['healthcheck found gx1 drained already "SG:fs_mounts.hung /local"'],
    ),
    "a drain that says itself that it found the node drained": (
        [row("c", 5.1, "drain", HUNG, "done", "drained: x", by="healthcheck", written=False)],
        None,
        ['healthcheck found gx1 drained already "SG:fs_mounts.hung /local"'],
    ),
    "one that says itself that it drained the node, whatever its words": (
        [row("c", 5.1, "drain", HUNG, "done", "nothing to do but drain", by="healthcheck", written=True)],
        None,
        ['healthcheck drained gx1 "SG:fs_mounts.hung /local"'],
    ),
    "an epilog's drain": (
        [
            row("a", 0, "drain", LOST, "queued", "tier DRAIN_REBOOT", by="epilog"),
            row("a", 0.1, "drain", LOST, "done", "drained: SG:gpu_count.lost gpu1", by="epilog"),
        ],
        4,
        ['epilog drained gx1 "SG:gpu_count.lost gpu1"'],
    ),
    "a refusal that the budget held": (
        [
            row("a", 0, "refuse", HUNG, "queued", "tier DRAIN"),
            row("a", 0.1, "drain", HUNG, "held", FULL),
            row("a", 0.1, "refuse", HUNG, "held", f"{FULL} (asked 6 s ago)", job_id=4),
        ],
        4,
        [f'prolog let job 4 start on gx1 in spite of "SG:fs_mounts.hung /local": {FULL}'],
    ),
    "a drain that is held again and again": (
        [
            one
            for n in range(12)
            for one in (
                row(f"{n}", 5 * n, "drain", LOST, "queued", "tier DRAIN_REBOOT", by="healthcheck"),
                row(f"{n}", 5 * n + 0.1, "drain", LOST, "held", FULL, by="healthcheck"),
            )
        ],
        None,
        [
            'healthcheck did not drain gx1 "SG:gpu_count.lost gpu1" (12 times until 08:55:06): ' + FULL,
        ],
    ),
    "mode observe": (
        [
            row(f"{n}", 5 * n, "drain", LOST, "observed", "tier DRAIN", by="healthcheck")
            for n in range(3)
        ],
        None,
        [
            f"healthcheck would have drained gx1 {QUOTED} (3 times until 08:10:00): mode observe; tier DRAIN",
        ],
    ),
    "a controller that does not answer, and the second try": (
        [
            row("a", 0, "drain", LOST, "queued", "tier DRAIN_REBOOT", by="epilog"),
            row("a", 0.1, "drain", LOST, "failed", "Slurm did not answer", by="epilog", answer="5 s"),
            row("a", 5, "drain", LOST, "done", "drained: SG:gpu_count.lost gpu1", by="healthcheck"),
        ],
        None,
        [
            'epilog could not drain gx1 "SG:gpu_count.lost gpu1": Slurm did not answer; 5 s',
            'epilog drained gx1 "SG:gpu_count.lost gpu1"',
        ],
    ),
    "drained, resumed by hand, drained again": (
        [
            row("a", 0, "drain", LOST, "done", "drained: x", by="epilog"),
            row("b", 5, "resume", LOST, "done", "resumed; it was drained with 'x'", by="cli", user="mira"),
            row("c", 9, "drain", LOST, "done", "drained: x", by="epilog"),
        ],
        None,
        [
            'epilog drained gx1 "SG:gpu_count.lost gpu1"',
            'mira resumed gx1, drained as "SG:gpu_count.lost gpu1"',
            'epilog drained gx1 "SG:gpu_count.lost gpu1"',
        ],
    ),
    "not carried out yet": (
        [row("a", 0, "drain", LOST, "queued", "tier DRAIN_REBOOT", by="healthcheck")],
        None,
        [f"healthcheck wanted to drain gx1 {QUOTED}: no answer on record yet; tier DRAIN_REBOOT"],
    ),
    "carried out by another run": (
        [row("z", -1, "drain", HUNG, "queued", "tier DRAIN", by="healthcheck"), *REFUSED[:3]],
        4,
        ['prolog refused job 4 and drained gx1 "SG:fs_mounts.hung /local"'],
    ),
    "told by a healthcheck's child for the prolog": (
        [*REFUSED[:3], row("a", 3, "tell", HUNG, "done", by="healthcheck", job_id=4)],
        4,
        [
            'prolog refused job 4 and drained gx1 "SG:fs_mounts.hung /local"',
            "prolog told the owner of job 4 in its admin comment",
        ],
    ),
    "a word of a later version": (
        [row("a", 0, "reset", LOST, "postponed", "the job runs", by="healthcheck")],
        None,
        ['healthcheck reset of gx1 postponed "SG:gpu_count.lost gpu1": the job runs'],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_one_line_for_each_thing_that_happened(name: str) -> None:
    rows, job_id, expected = CASES[name]
    assert told(rows, job_id) == expected
    assert told(rows[::-1], job_id) == expected


def test_the_hook_and_the_time_of_an_event() -> None:
    (one,) = events(REFUSED[:3])
    found = one.as_dict()
    assert (found["at"], found["by"], found["drained"]) == ("2027-03-09T08:00:01.200Z", "prolog", True)
    assert (found["outcome"], found["times"], found["job_id"]) == ("done", 1, 4)
