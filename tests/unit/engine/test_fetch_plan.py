"""Plans from the collector: taken only when signed, whole and readable; the last good one stays otherwise."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.core import plan as plans
from slurm_guard.engine import ship_state
from tests.unit.engine.site import NODE, Site


def bundle(**settings: Any) -> bytes:
    """A plan's bytes as they lie on disk."""
    found = {
        "schema": "1.0",
        "built_at": time.time(),
        "cluster": "mine",
        "nodes": {NODE: 0},
        "profiles": [{}],
        **settings,
    }
    found["hash"] = plans.digest(found)
    return plans.encode(found)


def publish(site: Site, raw: bytes) -> str:
    """Let the collector have this plan; its hash."""
    site.collector.plan = raw
    site.collector.plan_hash = json.loads(raw)["hash"] if raw.startswith(b"{") else "f" * 32
    return site.collector.plan_hash


def in_place(site: Site) -> bytes:
    path = Path(site.places.plan)
    return path.read_bytes() if path.exists() else b""


def test_a_new_plan_is_put_in_place_and_the_same_is_not_fetched_again(site: Site) -> None:
    raw = bundle()
    wanted = publish(site, raw)
    site.record()
    done = site.ship()
    assert (done.plan, done.plan_why, done.why) == (wanted, "", "")
    assert in_place(site) == raw
    status = os.stat(site.places.plan)
    assert (status.st_mode & 0o777, status.st_uid) == (0o600, os.geteuid())
    assert site.plan.state == "ok"
    site.record()
    assert site.ship().plan == ""
    assert site.collector.requests == ["POST /v1/records", "GET /v1/plan", "POST /v1/records"]


def test_without_records_the_plan_is_asked_for(site: Site) -> None:
    """As on a node that has never run a hook, and knows the collector from node.json."""
    wanted = publish(site, bundle())
    assert site.ship().plan == wanted
    assert site.ship().plan == ""
    assert site.collector.requests == ["GET /v1/plan", "GET /v1/plan"]


def torn(raw: bytes) -> bytes:
    return raw[:-20] + b"}"


def changed(raw: bytes) -> bytes:
    """Sealed anew around another content: only the hash tells."""
    found = json.loads(raw)
    found["cluster"] = "theirs"
    return plans.encode(found)


BAD: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("cut off", lambda raw: raw[: len(raw) // 2]),
    ("torn", torn),
    ("a letter changed", lambda raw: raw.replace(b'"mine"', b'"fine"')),
    ("another content under the hash", changed),
    ("no plan", lambda _: b"hello"),
    ("a list", lambda _: b"[]"),
    ("empty", lambda _: b""),
    ("deep", lambda _: b"[" * 100_000),
    ("of a future version", lambda _: bundle(schema="3.0")),
    ("of the wrong shape", lambda _: bundle(budget=[1, 2])),
]


@pytest.mark.parametrize(("case", "spoil"), BAD, ids=[case for case, _ in BAD])
def test_the_last_good_plan_stays(site: Site, case: str, spoil: Callable[[bytes], bytes]) -> None:
    good = bundle()
    publish(site, good)
    site.record()
    site.ship()
    site.collector.plan_hash, site.collector.plan = "e" * 32, spoil(bundle(cluster="mine", owners=["root"]))
    site.record()
    done = site.ship()
    assert (done.plan, done.acknowledged, done.left, done.why) == ("", 1, 0, "")
    assert done.plan_why
    assert in_place(site) == good
    assert sorted(path.name for path in Path(site.places.var).iterdir() if "plan" in path.name) == [
        "plan.json"
    ]


def test_a_plan_that_was_not_taken_is_not_fetched_with_every_run(site: Site) -> None:
    publish(site, b"hello")
    for _ in range(3):
        site.record()
        site.ship()
    assert site.collector.requests.count("GET /v1/plan") == 1
    state = ship_state.load(site.places)
    state.plan_next = 0.0
    ship_state.save(site.places, state)
    site.record()
    site.ship()
    assert site.collector.requests.count("GET /v1/plan") == 2
    wanted = publish(site, bundle())
    site.record()
    assert site.ship().plan == wanted


def test_a_plan_with_another_signature_is_not_taken(site: Site) -> None:
    publish(site, bundle())
    site.collector.plan_token = b"somebody else's token, long enough"
    site.record()
    done = site.ship()
    assert (done.plan, done.acknowledged) == ("", 1)
    assert "not signed with our token" in done.plan_why
    assert in_place(site) == b""


@pytest.mark.parametrize(
    "word", ["hang", "garbage", "cut", "huge", (503, {}), (403, {}), (304, {}), (200, {}), "list"]
)
def test_trouble_with_the_plan_costs_no_record(
    site: Site, word: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_guard.engine.ship.REQUEST_S", 1.0 if word == "hang" else 20.0)
    publish(site, bundle())
    site.record()
    site.collector.script.extend([lambda answer: answer, word])
    done = site.ship()
    assert (done.plan, done.acknowledged, done.left, done.why) == ("", 1, 0, "")
    assert bool(done.plan_why) is (word != (304, {}))
    assert in_place(site) == b""


def test_a_disk_without_room_keeps_the_plan(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(site, bundle())
    site.record()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slurm_guard.engine.fetch_plan.files.write_atomic", full)
    done = site.ship()
    assert (done.acknowledged, done.plan) == (1, "")
    assert "No space left" in done.plan_why


def test_an_old_plan_is_better_than_none(site: Site) -> None:
    """Stale is told by every run; the node still needs to know its programs and its owners."""
    wanted = publish(site, bundle(built_at=time.time() - 90 * 86400))
    site.record()
    assert site.ship().plan == wanted
    assert site.plan.state == "stale"
