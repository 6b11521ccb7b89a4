"""`GET /v1/jobs/N`: who sees what. Who asks is said by a stand-in for munge; the rest is the real thing."""

from __future__ import annotations

import hashlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from slurm_guard.collector import app
from slurm_guard.collector.claims import Claim
from slurm_guard.collector.proof import Signed
from slurm_guard.collector.service import Collector
from slurm_guard.core.errors import StoreError
from slurm_guard.engine import signing
from slurm_guard.slurm.gateway import JobInfo, JobRun
from slurm_guard.store import writer
from slurm_guard.store.record import parse
from slurm_guard.web import jobs
from tests.unit.cli.slurm_stub import StubGateway, finding, run_record
from tests.unit.collector.kit import running, settings_in

ANN, BOB, EVE, BOSS, ROOT = 1001, 1002, 1003, 1004, 0


class Named:
    """A proof that believes the uid before the payload, and signs for all to see."""

    def check(self, claim: Claim) -> Signed:
        uid, _, payload = claim.proof.partition(":")
        return Signed(bytes.fromhex(payload), int(uid), "10.0.0.1")

    def sign(self, payload: bytes) -> str:
        return f"signed {payload.decode()}"


def allocated(job_id: int, uid: int | None, user: str, ago_s: float, **fields: Any) -> list[dict[str, Any]]:
    """Prolog and epilog of a job on n2, ten seconds apart."""
    own = {
        "job_id": job_id,
        "restart": 0,
        "uid": uid,
        "user": user,
        "partition": "main",
        "nodes": "n2",
        **fields,
    }
    lost = finding("gpu_count.lost", "gpu3", event=True)
    return [
        run_record("n2", hook="prolog", ago_s=ago_s, allocation=own),
        run_record("n2", lost, hook="epilog", ago_s=ago_s - 10, allocation={**own, "exit_code": "1:0"}),
    ]


RECORDS = [
    *allocated(7, ANN, "ann", 5000),
    *allocated(8, BOB, "bob", 4995),  # beside ann's
    *allocated(9, BOB, "bob", 900_000),
    *allocated(9, ANN, "ann", 3000),  # the same id, recycled
    *allocated(12, ANN, "ann", 2000, array_job_id=10, array_task_id=3),
    *allocated(13, None, "", 1000),
]


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> StubGateway:
    made = StubGateway()
    monkeypatch.setattr(jobs, "CommandGateway", lambda *_: made)
    return made


@pytest.fixture
def collector(tmp_path: Path, slurm: StubGateway) -> Iterator[Collector]:
    settings = settings_in(tmp_path, admins=frozenset({BOSS}))
    with running(settings) as started:
        started.gate._proof = Named()
        records = [*RECORDS, {**RECORDS[0], "run_id": "ab" * 16, "cluster": "annex"}]
        writer.ingest(started.store, [parse(json.dumps(one).encode()) for one in records])
        yield started


@pytest.fixture
def client(collector: Collector) -> TestClient:
    made = TestClient(app.build(collector, jobs.routes(collector)), raise_server_exceptions=False)
    made.headers.clear()
    return made


def headers(uid: int, path: str, **more: Any) -> dict[str, str]:
    said = {"v": 1, "method": "GET", "path": path, "node": "", "nonce": os.urandom(16).hex()}
    said |= {"digest": hashlib.sha256(b"").hexdigest(), "time": int(time.time()), **more}
    proof = f"{uid}:{json.dumps(said).encode().hex()}"
    return {signing.NODE: str(said["node"]), "Authorization": f"Munge {proof}"}


def ask(client: TestClient, uid: int, job: str, **more: Any) -> Any:
    path = f"/v1/jobs/{job}"
    return client.get(path, headers=headers(uid, path, **more))


@pytest.mark.parametrize("uid", [ANN, BOSS, ROOT])
def test_the_owner_admins_and_root_see_a_job(client: TestClient, uid: int) -> None:
    reply = ask(client, uid, "7")
    assert reply.status_code == 200
    built = reply.json()
    assert (built["schema"], built["kind"], built["job_id"], built["user"]) == ("1.0", "job", 7, "ann")
    assert built["runs"][0]["verdict"]["fault"] == "gpu_count.lost"
    once = json.loads(reply.headers[signing.SIGNATURE].removeprefix("signed "))
    assert once["digest"] == hashlib.sha256(reply.content).hexdigest()


def test_nobody_learns_which_jobs_of_others_there_are(client: TestClient) -> None:
    """The same status, words and signature for a job of another user, an unknown one and one of no user."""
    told = set()
    for uid, job in [
        (EVE, "7"),
        (BOB, "7"),
        (EVE, "99"),
        (ANN, "8"),
        (ANN, "13"),
        (EVE, "10_3"),
        (EVE, "12+1"),
    ]:
        reply = ask(client, uid, job)
        assert signing.SIGNATURE in reply.headers
        told.add((reply.status_code, reply.json()["error"].replace(job, "N"), tuple(sorted(reply.json()))))
    assert told == {(404, "job N is not yours, or not on record here", ("error", "job_id"))}


def test_an_admin_is_told_what_is_not_there(client: TestClient) -> None:
    reply = ask(client, BOSS, "99")
    assert reply.status_code == 404
    assert "not on record here" in reply.json()["error"]
    assert "not yours" not in reply.json()["error"]


def test_a_recycled_id_shows_each_user_the_own_run(client: TestClient) -> None:
    assert [run["verdict"]["fault"] for run in ask(client, ROOT, "9").json()["runs"]] == [
        "gpu_count.lost"
    ] * 2
    for uid, user in ((ANN, "ann"), (BOB, "bob")):
        built = ask(client, uid, "9").json()
        assert (len(built["runs"]), built["user"], built["uid"]) == (1, user, uid)


def test_array_tasks_are_found_by_their_own_name(client: TestClient) -> None:
    assert ask(client, ANN, "10_3").json()["job_id"] == 12


def test_names_of_others_on_the_node_stay_with_admins(client: TestClient) -> None:
    named = {one["job_id"]: one["user"] for one in ask(client, BOSS, "7").json()["runs"][0]["others"]}
    assert named[8] == "bob"
    seen = {one["job_id"]: one["user"] for one in ask(client, ANN, "7").json()["runs"][0]["others"]}
    assert seen.keys() == named.keys()
    assert seen[8] is None
    assert b"bob" not in ask(client, ANN, "7").content


def test_another_cluster_s_user_of_that_number_is_somebody_else(
    client: TestClient, collector: Collector
) -> None:
    record = {**RECORDS[0], "run_id": "cd" * 16, "cluster": "annex"}
    record["allocation"] = {**record["allocation"], "job_id": 70}
    writer.ingest(collector.store, [parse(json.dumps(record).encode())])
    assert ask(client, ANN, "70").status_code == 404
    assert ask(client, ROOT, "70").json()["cluster"] == "annex"


def accounted(uid: int | None, user: str) -> JobRun:
    now = round(time.time())
    times = {"submit_time": now - 310, "start_time": now - 300, "end_time": now - 60}
    return JobRun(
        job_id=55, uid=uid, user=user, state="FAILED", exit_code=1, exit_signal=0, nodes="n2", **times
    )


@pytest.mark.parametrize(("uid", "status"), [(ANN, 200), (EVE, 404), (BOSS, 200)])
def test_what_slurm_alone_knows_is_the_owner_s_too(
    client: TestClient, slurm: StubGateway, uid: int, status: int
) -> None:
    slurm.runs["55"] = [accounted(ANN, "ann")]
    reply = ask(client, uid, "55")
    assert reply.status_code == status
    assert (reply.json().get("slurm_state") == "FAILED") == (status == 200)


def test_slurm_s_word_on_a_run_of_another_user_is_not_told(client: TestClient, slurm: StubGateway) -> None:
    slurm.runs["7"] = [accounted(EVE, "eve"), accounted(None, "?")]
    slurm.jobs["7"] = JobInfo(job_id=7, uid=EVE, user="eve", name="secret", state="RUNNING")
    reply = ask(client, ANN, "7")
    assert reply.json()["user"] == "ann"
    assert b"secret" not in reply.content
    assert b'"eve"' not in reply.content


@pytest.mark.parametrize(
    ("job", "status"),
    [("7x", 400), ("-1", 400), ("12345678901", 400), ("7%0a", 401), ("7/8", 404), ("", 404)],
)
def test_what_is_no_job_id_is_refused(client: TestClient, job: str, status: int) -> None:
    assert ask(client, ANN, job).status_code == status


def test_a_request_counts_once_and_only_where_it_was_signed_for(client: TestClient) -> None:
    made = headers(ANN, "/v1/jobs/7")
    assert client.get("/v1/jobs/7", headers=made).status_code == 200
    assert client.get("/v1/jobs/7", headers=made).status_code == 409
    assert client.get("/v1/jobs/9", headers=headers(ANN, "/v1/jobs/7")).status_code == 401
    assert client.get("/v1/jobs/7?x=1", headers=headers(ANN, "/v1/jobs/7")).status_code == 400
    assert client.get("/v1/jobs/7").status_code in (400, 401)
    assert client.post("/v1/jobs/7", headers=headers(ANN, "/v1/jobs/7")).status_code == 405


def test_a_user_gets_neither_plan_nor_record_in(client: TestClient) -> None:
    path = "/v1/plan"
    assert client.get(path, headers=headers(ANN, path, node="m1")).status_code == 403


def test_a_user_cannot_use_up_what_a_node_may_ask(client: TestClient, collector: Collector) -> None:
    for _ in range(80):
        last = ask(client, EVE, "7", node="m1")
    assert last.status_code == 429
    assert collector.gate._per_node.wait_s("m1", time.monotonic()) == 0


class Slow(StubGateway):
    """A Slurm that answers when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = threading.Event(), threading.Event()

    def accounting(self, job_id: int | str, deadline: float = 3.0) -> list[JobRun]:
        self.asked.set()
        assert self.go_on.wait(30)
        return []


@pytest.mark.parametrize(("uid", "second"), [(ANN, 429), (ROOT, 200)])
def test_a_user_asks_one_thing_at_a_time_and_admins_more(
    client: TestClient, uid: int, second: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root is many programs on many hosts."""
    slow = Slow()
    monkeypatch.setattr(jobs, "CommandGateway", lambda *_: slow)
    with client:  # one event loop for both
        first: list[Any] = []
        asking = threading.Thread(target=lambda: first.append(ask(client, uid, "7")))
        asking.start()
        assert slow.asked.wait(30)
        other = threading.Timer(0.2 if second == 200 else 30, slow.go_on.set)
        other.start()
        assert ask(client, uid, "9").status_code == second
        slow.go_on.set()
        other.cancel()
        asking.join(30)
        assert first[0].status_code == 200
        assert ask(client, uid, "9").status_code == 200


def test_only_so_many_questions_wait(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_MOST_WAITING", 0)
    reply = ask(client, ANN, "7")
    assert (reply.status_code, "many users ask" in reply.json()["error"]) == (503, True)


def test_a_store_that_fails_says_come_again(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise StoreError("the disk gave an I/O error")

    monkeypatch.setattr(jobs.job, "build", broken)
    reply = ask(client, ANN, "7")
    assert (reply.status_code, "Retry-After" in reply.headers) == (503, True)
