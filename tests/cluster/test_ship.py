"""Shipping with munge: credentials of a real munged, and hooks that a real Slurm starts."""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from minicluster import mounting
from slurm_guard.core import plan as plans
from slurm_guard.core.paths import Places
from slurm_guard.core.plan import Plan
from slurm_guard.engine import ship, spool
from slurm_guard.engine.destination import Destination
from tests.cluster.conftest import Guarded, guarded, soak
from tests.cluster.munge_collector import MungeCollector
from tests.cluster.munged import munged

NOBODY = 65534


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="sguard-") as name:
        Path(name).chmod(0o755)  # other users sign too
        with munged(Path(name)) as path:
            yield path


@pytest.fixture
def collector(socket: str) -> Iterator[MungeCollector]:
    found = MungeCollector(socket)
    yield found
    found.stop()
    assert found.problems == []


def bundle(cluster: str) -> bytes:
    found: dict[str, Any] = {"schema": "1.0", "built_at": time.time(), "cluster": cluster}
    found["hash"] = plans.digest(found)
    return plans.encode(found)


def shipped(root: Path, collector: MungeCollector, **settings: Any) -> ship.Shipped:
    """One record more, and a shipment."""
    places = Places(str(root))
    record = {"run_id": f"{random.getrandbits(128):032x}", "hook": "prolog"}
    spool.write(places, record, Plan({}, "n1").spool)
    to = Destination(collector.url, munge_socket=collector.socket, **settings)
    return ship.ship(places, plans.load(places.plan, "n1"), to)


def publish(collector: MungeCollector, raw: bytes) -> str:
    collector.plan, collector.plan_hash = raw, json.loads(raw)["hash"]
    return collector.plan_hash


def test_each_attempt_has_a_credential_of_its_own(tmp_path: Path, collector: MungeCollector) -> None:
    """The collector's munged would refuse the same one twice."""
    collector.script.extend(["lost", (409, {})])
    assert shipped(tmp_path, collector).acknowledged == 0
    assert shipped(tmp_path, collector).acknowledged == 2
    assert len(collector.nonces) == 3


@pytest.mark.parametrize(
    ("signer", "uids", "taken"), [(0, [], True), (NOBODY, [], False), (NOBODY, [NOBODY], True)]
)
def test_a_plan_counts_only_by_the_signature_of_who_may(
    tmp_path: Path, collector: MungeCollector, signer: int, uids: list[int], taken: bool
) -> None:
    wanted = publish(collector, bundle("one"))
    collector.signer = signer
    done = shipped(tmp_path, collector, uids=uids)
    assert (done.acknowledged, done.plan) == (1, wanted if taken else "")
    assert (f"signed by uid {NOBODY}" in done.plan_why) is not taken
    assert Path(Places(str(tmp_path)).plan).exists() is taken


@pytest.mark.parametrize("payload", [b"{}", b"[]", b"", b"\xff", b'{"v":1,"nonce":"0","digest":"0"}'])
def test_a_signature_under_something_else_is_none(
    tmp_path: Path, collector: MungeCollector, payload: bytes
) -> None:
    publish(collector, bundle("two"))
    collector.sign_with = payload or b" "
    done = shipped(tmp_path, collector)
    assert (done.acknowledged, done.plan) == (1, "")
    assert "signature" in done.plan_why


@pytest.mark.parametrize(
    ("signer", "uids", "taken"), [(0, [], True), (NOBODY, [], False), (NOBODY, [NOBODY], True)]
)
def test_records_leave_only_by_the_signature_of_who_may(
    tmp_path: Path, collector: MungeCollector, signer: int, uids: list[int], taken: bool
) -> None:
    collector.answerer = signer
    done = shipped(tmp_path, collector, uids=uids)
    assert (done.acknowledged, done.left) == ((1, 0) if taken else (0, 1))
    assert (f"signed by uid {NOBODY}" in done.why) is not taken


@pytest.mark.parametrize("payload", [b"{}", b"[]", b"\xff", b'{"v":1,"nonce":"0","digest":"0"}'])
def test_an_answer_with_a_signature_under_something_else_is_none(
    tmp_path: Path, collector: MungeCollector, payload: bytes
) -> None:
    collector.answer_with = payload
    done = shipped(tmp_path, collector)
    assert (done.acknowledged, done.left) == (0, 1)
    assert "signature" in done.why


def test_no_munged_is_told_and_loses_nothing(tmp_path: Path, collector: MungeCollector) -> None:
    there, collector.socket = collector.socket, "/nonexistent/munge.sock"
    done = shipped(tmp_path, collector)
    assert "is munged running" in done.why
    assert done.left == 1
    collector.socket = there
    assert shipped(tmp_path, collector).acknowledged == 2


def fill(folder: Path) -> None:
    """Until not a byte more fits."""
    with (folder / "ballast").open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass
    with pytest.raises(OSError, match="No space left"):
        (folder / "more").write_bytes(b"x")


def test_a_full_disk_holds_nothing_up(tmp_path: Path, collector: MungeCollector) -> None:
    """A real one: every record arrives or is set aside all the same."""
    places = Places(str(tmp_path))
    var = Path(places.var)
    var.mkdir(parents=True)
    mounting.mount("tmpfs", var, "tmpfs", options="size=64k")
    try:
        for number in range(4):
            record = {"run_id": f"{number:032x}", "hook": "prolog"}
            spool.write(places, record, Plan({}, "n1").spool)
        fill(var)
        collector.refuse[f"{2:032x}"] = "not this one"
        publish(collector, bundle("full"))
        to = Destination(collector.url, munge_socket=collector.socket)
        done = ship.ship(places, plans.load(places.plan, "n1"), to)
        assert (done.acknowledged, done.left, done.why) == (3, 0, "")
        assert [run_id for run_id, _ in done.refused] == [f"{2:032x}"]
        assert len(list((var / "set-aside").glob("*.json"))) == 1
    finally:
        mounting.unmount(var)


def send_to(cluster: Guarded, url: str, **settings: Any) -> None:
    """Name the collector on every node, as the plan may not yet."""
    settings = {
        "url": url,
        "munge_socket": str(cluster.cluster.layout.munge_socket),
        "jitter_s": 0.2,
        **settings,
    }
    for name in cluster.names:
        path = cluster.root(name) / "etc/slurm-guard/node.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"collector": settings}))


def test_jobs_leave_their_records_at_the_collector_over_its_absence() -> None:
    """Short jobs on a real Slurm, the collector away for a part of them: every record arrives, once."""
    with guarded(nodes=2) as cluster:
        found = MungeCollector(str(cluster.cluster.layout.munge_socket))
        try:
            send_to(cluster, found.url)
            jobs = [cluster.submit(script="true") for _ in range(soak(12, 200))]
            found.script.extend(["lost", "dropped", (503, {"Retry-After": "1"})])
            cluster.wait(lambda: not cluster.unfinished(jobs), 120 + len(jobs))
            cluster.wait(lambda: len(found.store) >= 1, 30)
            found.script.clear()
            for name in cluster.names:
                # The pause after the failures is over; then one more run sends what is left.
                (cluster.root(name) / "run/slurm-guard/ship.json").unlink(missing_ok=True)
                cluster.healthcheck(name)
                cluster.wait(lambda name=name: not cluster.records(name), 60)
        finally:
            found.stop()
        assert found.problems == []
        records = [json.loads(line) for line in found.store.values()]
        seen = {(one["allocation"]["job_id"], one["hook"]) for one in records if one.get("allocation")}
        assert seen == {(job, hook) for job in jobs for hook in ("prolog", "epilog")}
        assert {one["node"] for one in records} == set(cluster.names)
        assert all(state == "idle" for state in cluster.cluster.states().values())
        assert len(found.requests) < len(records), "several records went together"
