"""Files of a node's own: state that a crash or a full disk may have torn, spool names, node.json."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path

from fuzz.targets import Target, require, scratch
from slurm_guard.core.errors import SetupError
from slurm_guard.core.outcome import Facts
from slurm_guard.core.plan import Plan
from slurm_guard.engine import (
    allocations,
    answers,
    batch,
    chain,
    destination,
    faults,
    inventory,
    node_state,
    requests,
    sending,
    ship_state,
    sightings,
    spool,
)

BOOT = "5e0c1b5e-0000-4000-8000-00000000000b"
PLAN = Plan({}, "n1")


def open_faults(data: bytes) -> None:
    """faults.json: read, asked as a healthcheck asks, and written back."""
    here = scratch.places()
    scratch.put(here.faults, data)
    found = faults.load(here)
    found.waiting_events(BOOT)
    require(found.claim is None or isinstance(found.claim, dict), "a claim that is none")
    found.update([], {"gpu_xid"}, {}, BOOT, "2026-01-02T03:04:05.000Z", counts=True)
    found.note_refusal(1e9)
    found.take_back_refusal(1e9)
    back = found.returning
    back.note_run(is_clean=True, counts=True, now=1e9)
    back.is_clean_for(60.0, 1e9)
    back.relapses(["gpu_xid.79 gpu3"], 600.0, 1e9)
    back.note_return(["gpu_xid.79 gpu3"], 1e9)
    back.stay_if_it_flaps(2, 600.0, 1e9)
    json.dumps(found.as_dict())


def seen_faults(data: bytes) -> None:
    """sightings.json."""
    here = scratch.places()
    scratch.put(here.sightings, data)
    found = sightings.load(here)
    found.ages(1e9)
    found.note([], {"gpu_xid", "ib_link"}, BOOT, 1e9)
    found.forget({"gpu3"})
    json.dumps(found.as_dict())


def boot_state(data: bytes) -> None:
    """state.json, allocations and ship.json: of this boot."""
    here = scratch.places()
    scratch.put(here.state, data)
    found = node_state.load(here, BOOT)
    found.still_hanging()
    found.runs_seen()
    found.note_seen({"gpu_xid.79 gpu3"}, {"gpu_xid"}, 3)
    json.dumps(found.as_dict())
    require(node_state.save(here, found, []), "not saved")
    node_state.note_dropped(here, BOOT, 1)
    scratch.put(os.path.join(here.allocations, "7.json"), data)
    for one in (*allocations.all_open(here, BOOT), allocations.find(here, 7, BOOT)):
        require(one is None or one.get("boot_id") == BOOT, "an allocation of another boot")
    scratch.put(ship_state.path(here), data)
    state = ship_state.load(here)
    require(state.pause_s() >= 0 and state.gap_s(5.0) >= 0, "a pause below nothing")
    state.failed("x", 3.0)
    state.wants_plan("x")
    json.dumps({name: getattr(state, name) for name in ship_state.ShipState.__slots__})


def waiting(data: bytes) -> None:
    """Requests on disk, and what Slurm last answered."""
    here = scratch.places()
    scratch.put(os.path.join(here.requests, "drain.x.json"), data)
    for one in requests.waiting(here, BOOT, 1e9):
        require(one["boot_id"] == BOOT, "a request of another boot")
        require("/" not in requests.name_of(one), "a name that leaves its folder")
    scratch.put(here.answer, data)
    answers._recall(here, {"reason": "SG:x", "boot_id": BOOT}, 1e9)
    scratch.put(here.inventory, data)
    inventory.load(here)
    inventory.save(here, None, {})


def spool_files(data: bytes) -> None:
    """A file's name in the spool, and what lies in it."""
    here = scratch.places()
    name, _, content = data.partition(b"\n")
    name = name.replace(b"/", b"_").replace(b"\0", b"_")[:200]
    if name in (b"", b".", b".."):
        return
    folder = os.fsencode(here.spool)
    Path(here.spool).mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in os.listdir(folder):
        os.unlink(os.path.join(folder, old))
    Path(os.fsdecode(os.path.join(folder, name))).write_bytes(content)
    aside: list[tuple[str, str]] = []
    paths = spool.paths(here)
    taken = batch.take(paths, 10, lambda path, why: aside.append((path, why)))
    require(not paths, "a file that is neither taken nor set aside")
    require(taken.body.count(b"\n") == max(1, len(taken.lines)), "a record of several lines")
    taken.take_refused([{"run_id": one} for one in taken.ids])
    limits = {"files": 5, "bytes": 1 << 20, "age_s": 1e9}
    spool.trim(here, limits, 10)
    spool._make_room(here, 10)


def node_json(data: bytes) -> None:
    """node.json."""
    base = scratch.places()
    scratch.put(base.node_file, data)
    try:
        found = scratch.places()
        for path in (found.var, found.run, found.plan, found.spool):
            require(path.startswith(found.root), "a place outside of the root")
        to = destination.destination(found, PLAN)
        require(to is None or 0 <= to.jitter_s <= 300, "a wait without end")
        chained = chain.wanted(found, PLAN)
        require(chained.get("seconds", 1) <= chain.LONGEST_S, "a chain without end")
        require(isinstance(sending.node_name(found), str), "no name")
    finally:
        os.unlink(base.node_file)


def client_json(data: bytes) -> None:
    """client.json, which users read."""
    from slurm_guard.config import client

    here = scratch.places()
    scratch.put(client.path_of(here), data)
    with suppress(SetupError):
        client.read(here)


FAULTS = {
    "version": faults.VERSION,
    "open": {
        "gpu_xid.79 gpu3": {
            "check": "gpu_xid",
            "fault": "gpu_xid.79",
            "device": "gpu3",
            "event": True,
            "boot_id": BOOT,
            "runs": 1,
            "tier": "DRAIN",
        }
    },
    "clean_runs": 1,
    "drained": {"reason": "SG:gpu_xid.79 gpu3", "at": 1e9},
    "asked": None,
    "refusals": [1e9],
    "returning": {"clean_since": 1e9, "returns": [{"at": 1e9, "faults": ["gpu_xid.79 gpu3"]}]},
}
STATE = {
    "version": 1,
    "boot_id": BOOT,
    "counters": {"a": 1},
    "seen": {"gpu_xid.79 gpu3": [1, 0]},
    "hung_before": ["nvml"],
    "left_behind": [{"probe": "nvml", "key": "", "pid": 1, "start_time": 5}],
    "kmsg_last": 7,
    "dropped": 0,
}
SEEN = {
    "version": 1,
    "faults": {"gpu_xid.79 gpu3": {"since": 1e9, "last": 1e9, "began": [1e9], "events": ["x"]}},
}
REQUEST = Facts(
    kind="drain",
    boot_id=BOOT,
    run_id="a" * 32,
    created=1e9,
    fault="gpu_xid.79",
    device="gpu3",
    scope="device",
    reason="SG:gpu_xid.79 gpu3",
)
NODE = {
    "node": "n1",
    "places": {"var": "/data/sg"},
    "collector": {"url": "http://head", "uids": [1], "jitter_s": 2},
    "chain": {"healthcheck": ["/usr/sbin/nhc"], "seconds": 5},
}
CLIENT = {"schema": "1.0", "collector": {"url": "http://head", "uids": [1], "signing": "munge"}}


def _seed(content: object) -> tuple[bytes, ...]:
    whole = json.dumps(content).encode()
    return whole, whole[: len(whole) // 2], b"[]"


TARGETS = (
    Target("open_faults", "faults.json", open_faults, _seed(FAULTS)),
    Target("seen_faults", "sightings.json", seen_faults, _seed(SEEN)),
    Target("boot_state", "state.json, allocations, ship.json", boot_state, _seed(STATE)),
    Target("waiting", "requests, Slurm's last answer, inventory.json", waiting, _seed(REQUEST)),
    Target(
        "spool_files",
        "names and content of the spool",
        spool_files,
        (b"r-1-" + b"a" * 32 + b'.json\n{"run_id":"' + b"a" * 32 + b'"}', b"h-.json\n{", b"x.tmp\n"),
    ),
    Target("node_json", "node.json", node_json, _seed(NODE)),
    Target("client_json", "client.json", client_json, _seed(CLIENT)),
)
