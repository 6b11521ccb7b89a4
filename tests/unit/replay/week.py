"""A week of 64 nodes, w01 to w64, drawn by hand: healthchecks every hour, and the stories told in `STORIES`.

Monday, 2027-03-08 00:00 UTC, is hour 0. The healthcheck of w07 in hour 5 is at 05:00:07.
"""

from __future__ import annotations

from typing import Any

from tests.unit.store.factory import DAY, action, action_record, finding, run
from tests.unit.store.factory import job as allocation

NODES = [f"w{number:02d}" for number in range(1, 65)]
WEEK_H = 168
_MONDAY_H = -32  # before the factory's 08:00 of Tuesday

Findings = list[dict[str, Any]]

LOST = {"tier": "DRAIN_REBOOT"}


def minutes(hour: float, node: str = "") -> float:
    """Hours of the week as the factory's minutes; with a node, at that node's second."""
    return (hour + _MONDAY_H) * 60 + (int(node[1:]) / 60 if node else 0)


def ms(hour: float, node: str = "") -> int:
    """Hours of the week as milliseconds since 1970."""
    return round(DAY.timestamp() * 1000 + minutes(hour, node) * 60_000)


def lost(gpu: int) -> dict[str, Any]:
    """A GPU that is gone: cannot be a fluke, and is gone from the list once it is back."""
    return finding("gpu_count.lost", device=f"gpu{gpu}", **LOST)


def xid(code: int, gpu: int) -> dict[str, Any]:
    """An Xid: happened once, and stays open until the next boot."""
    return finding(f"gpu_xid.{code}", device=f"gpu{gpu}", tier="DRAIN_REBOOT", event=True, since="-")


LINK = finding("ib_link.down", device="mlx5_0/1", scope="device")
SYMBOLS = finding("ib_errors.symbol", device="mlx5_1/1", scope="device")
STALE = finding("fs_mounts.stale", device="/scratch", scope="shared", blame="storage")
FULL = finding("fs_space.full", device="/tmp", tier="WARN")

#: node → (first hour, last hour, what every healthcheck in between sees)
SEEN: dict[str, list[tuple[int, int, dict[str, Any]]]] = {
    "w02": [(-12, 0, LINK)],
    "w03": [(5, 10, LINK)],
    "w07": [(8, 8, LINK)],
    "w11": [(26, 30, lost(3))],
    "w23": [(75, 80, FULL)],
    "w27": [(130, 132, lost(1))],
    "w28": [(130, 132, lost(5))],
    "w36": [(47, 56, SYMBOLS)],
    "w38": [(86, 87, lost(0)), (92, 93, lost(0))],
    "w40": [(100, 101, lost(2))],
    **{f"w{number}": [(108, 116, lost(0))] for number in range(41, 49)},
    **{f"w{number}": [(122, 125, STALE)] for number in range(51, 57)},
}
#: node → the hour from which on the machine runs in its second boot
REBOOTED = {"w15": 82}
#: Nodes with one healthcheck an hour; the others have one every six hours.
BUSY = {*SEEN, "w15", "w19", "w31", "w32", "w33"}
OBSERVED = [
    {"action": "drain", "fault": "gpu_count.lost", "device": "gpu3", "mode": "observe", "why": "tier DRAIN"}
]


def records() -> list[dict[str, Any]]:
    """The whole week, w02 from noon of the Sunday before; w64 left nothing."""
    found = [one for node in NODES[:-1] for one in _healthchecks(node)]
    return found + _jobs() + _done()


def _healthchecks(node: str) -> list[dict[str, Any]]:
    first, step = (-12 if node == "w02" else 0), (1 if node in BUSY else 6)
    return [_healthcheck(node, hour) for hour in range(first, WEEK_H, step)]


def _healthcheck(node: str, hour: int) -> dict[str, Any]:
    seen = [one for start, end, one in SEEN.get(node, []) if start <= hour <= end]
    made = run("healthcheck", node, minutes(hour, node), *seen)
    if hour >= REBOOTED.get(node, WEEK_H):
        made["machine"]["boot_id"] = f"second-{node}"
    if node == "w11" and seen:
        made["decisions"] = OBSERVED
    return made


def _hook(
    hook: str, node: str, hour: float, job_id: int, *seen: dict[str, Any], **more: Any
) -> dict[str, Any]:
    given = allocation(job_id, node, minutes(hour) - (60 if hook == "epilog" else 0), **more)
    return run(hook, node, minutes(hour), *seen, allocation=given)


def _jobs() -> list[dict[str, Any]]:
    poison = {"uid": 4200, "user": "otto"}
    return [
        _hook("epilog", "w15", 58.5, 500, xid(79, 2)),
        _hook("epilog", "w19", 52.5, 501, xid(79, 6)),
        _hook("prolog", "w19", 56 + 1 / 6, 502),
        _hook("prolog", "w27", 129 + 1 / 3, 700, lost(1), gpus="01"),
        _hook("prolog", "w28", 129.5, 702, lost(5), gpus="01"),
        _hook("prolog", "w27", 130 + 1 / 6, 701),
        _hook("epilog", "w27", 130.75, 701, xid(79, 7)),
        _hook("epilog", "w31", 147.25, 900, lost(4), **poison),
        _hook("epilog", "w32", 148.25, 900, lost(4), **poison),
        _hook("epilog", "w33", 149.25, 900, lost(4), **poison),
    ]


def _done() -> list[dict[str, Any]]:
    """What the guard, and the admin with `sguard`, did that week."""

    def did(node: str, hour: float, kind: str, fault: str, device: str, **more: Any) -> dict[str, Any]:
        one = action(kind, minutes(hour), fault, device, written=True)
        return action_record(node, minutes(hour), {**one, **more.pop("action", {})}, **more)

    person = {"by": "cli", "user": "ada"}
    return [
        did("w02", -6, "drain", "ib_link.down", "mlx5_0/1"),
        did("w02", 12, "resume", "ib_link.down", "mlx5_0/1"),
        did("w03", 6.01, "drain", "ib_link.down", "mlx5_0/1"),
        did("w03", 13.01, "resume", "ib_link.down", "mlx5_0/1"),
        did("w15", 58.51, "drain", "gpu_xid.79", "gpu2"),
        did("w15", 84.5, "resume", "gpu_xid.79", "gpu2"),
        did("w19", 52.51, "drain", "gpu_xid.79", "gpu6"),
        did("w23", 75.01, "drain", "fs_space.full", "/tmp"),
        did("w23", 81, "resume", "fs_space.full", "/tmp"),
        did("w40", 98, "drain", "", "", action={"reason": "fan of the chassis"}, **person),
        did("w40", 102, "resume", "", "", **person),
        did("w41", 108.02, "drain", "gpu_count.lost", "gpu0"),
        did("w41", 119.02, "resume", "gpu_count.lost", "gpu0"),
    ]


def bundle(**more: Any) -> dict[str, Any]:
    """A plan of these nodes in which all is enforced; `more` are keys of the bundle, `rules` and `modes` of
    its profile.
    """
    profile = {"class": "4xA100", "rules": [QUIET], "modes": [["*", "*", "enforce"]]}
    profile.update({name: more.pop(name) for name in ("rules", "modes", "checks") if name in more})
    budget = {"nodes": 5, "percent": 10.0, "per_hour": 3, "shared_nodes": 1}
    returns = {"clean_runs": 3, "clean_s": 300.0, "watch_s": 3 * 3600.0, "flaps": 3, "flap_window_s": 86400.0}
    content = {
        "schema": "1.0",
        "hash": "5e" * 16,
        "cluster": "aurora",
        "budget": {**budget, "nodes_per_job": 2, "nodes_per_user": 0},
        "return": returns,
        "profiles": [profile],
        "default_profile": profile,
        "nodes": dict.fromkeys(NODES, 0),
    }
    return {**content, **more}


QUIET = {"fault": "ib_errors", "quiet": ["22:00-06:00"], "source": "rule night"}
