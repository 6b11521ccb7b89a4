"""The plan that nodes get: whole, signed, and the last good one."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.collector import plan_file
from slurm_guard.collector.plan_file import PlanFile, read
from slurm_guard.collector.service import Collector
from slurm_guard.engine import signing
from slurm_guard.engine.destination import Destination
from tests.unit.collector.kit import Ask, body_of, client, record, running, settings_in, write_plan


@pytest.fixture(autouse=True)
def always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait a second for a new plan."""
    monkeypatch.setattr(plan_file, "LOOK_S", 0.0)


def get(collector: Collector, **headers: str | None) -> tuple[Ask, object]:
    ask = Ask("GET", "/v1/plan", headers=dict(headers), payload={"nonce": os.urandom(16).hex()})
    return ask, ask.send(client(collector))


def test_a_node_takes_what_the_collector_signs(tmp_path: Path, collector: Collector) -> None:
    bundle = write_plan(tmp_path / "plan.json")
    ask, reply = get(collector)
    assert reply.status_code == 200  # type: ignore[attr-defined]
    body, headers = reply.content, reply.headers  # type: ignore[attr-defined]
    assert body == (tmp_path / "plan.json").read_bytes()
    assert headers["ETag"] == f'"{bundle["hash"]}"'
    node = Destination("", token_file=str(tmp_path / "token"))
    signing.check_answer(node, str(ask.payload["nonce"]), body, headers[signing.SIGNATURE])


def test_who_has_it_gets_nothing_and_everybody_hears_of_it(tmp_path: Path, collector: Collector) -> None:
    bundle = write_plan(tmp_path / "plan.json")
    assert Ask(body=body_of(record())).send(client(collector)).json()["plan"] == bundle["hash"]
    for tag, status in (
        (f'"{bundle["hash"]}"', 304),
        (f'"x", "{bundle["hash"]}"', 304),
        ('"old"', 200),
        ("", 200),
    ):
        _, reply = get(collector, **{"If-None-Match": tag})
        assert (reply.status_code, bool(reply.content)) == (status, status == 200)  # type: ignore[attr-defined]


def test_no_plan_is_said(collector: Collector) -> None:
    _, reply = get(collector)
    assert reply.status_code == 404  # type: ignore[attr-defined]
    assert "sguard config apply" in reply.json()["error"]  # type: ignore[attr-defined]


def test_a_request_for_the_plan_is_used_once(tmp_path: Path, collector: Collector) -> None:
    write_plan(tmp_path / "plan.json")
    ask = Ask("GET", "/v1/plan", payload={"nonce": "ab" * 16})
    assert [ask.send(client(collector)).status_code for _ in range(2)] == [200, 409]


def test_the_clusters_name_may_come_from_the_plan(tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.json", cluster="delta")
    with running(settings_in(tmp_path, cluster="")) as collector:
        reply = (
            Ask(body=body_of(record(cluster="delta"), record(cluster="lab"))).send(client(collector)).json()
        )
    assert (len(reply["acknowledged"]), len(reply["refused"])) == (1, 1)


BROKEN = {
    "torn": lambda raw: raw[:-9],
    "empty": lambda _raw: b"",
    "changed": lambda raw: raw.replace(b"lab", b"laB"),
    "no object": lambda _raw: b"[]",
    "nested": lambda _raw: b"[" * 100_000,
    "no text": lambda _raw: b"\xff\xfe",
    "no hash": lambda _raw: b'{"hash":5}',
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_bad_plan_leaves_the_last_good_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / "plan.json"
    bundle = write_plan(path)
    file = PlanFile(path)
    assert file.look() is not None
    path.write_bytes(BROKEN[name](path.read_bytes()))
    found = file.look()
    assert found is not None
    assert found.hash == bundle["hash"]
    assert "last good one" in file.problem
    newer = write_plan(path, grace_s=5)
    found = file.look()
    assert found is not None
    assert (found.hash, file.problem) == (newer["hash"], "")


@pytest.mark.parametrize("schema", ["2.0", "", "x", "-1.0"])
def test_a_plan_of_another_version_is_not_served(tmp_path: Path, schema: str) -> None:
    write_plan(tmp_path / "plan.json", schema=schema)
    with pytest.raises(ValueError, match="plan version"):
        read(tmp_path / "plan.json")


@given(
    st.binary(max_size=200)
    | st.dictionaries(st.text(max_size=5), st.text(max_size=5)).map(lambda one: json.dumps(one).encode())
)
def test_any_file_is_a_plan_or_a_sentence(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any-plan.json"
    path.write_bytes(content)
    found, problem = None, ""
    try:
        found = read(path)
    except ValueError as error:
        problem = str(error)
    assert found is None
    assert problem


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plan.json")
    file = PlanFile(tmp_path / "plan.json")
    assert file.look() is None
    assert file.problem


def test_the_payload_header_is_urlsafe() -> None:
    """Both alphabets' odd letters come through."""
    ask = Ask(node="n1", payload={"later": "\u07ff?>~" * 9})
    text = ask.signed()[signing.PAYLOAD]
    assert json.loads(base64.urlsafe_b64decode(text))["node"] == "n1"
