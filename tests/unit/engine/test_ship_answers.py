"""Whatever a collector answers, byte for byte: a record goes only where it was acknowledged or refused."""

from __future__ import annotations

import json
import tempfile
from email.message import Message
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.paths import Places
from slurm_guard.core.plan import Plan
from slurm_guard.engine import courier, fetch_plan, ship, signing, spool
from slurm_guard.engine.destination import Destination

IDS = [letter * 32 for letter in "abc"]
WORDS = st.one_of(
    st.sampled_from([*IDS, "acknowledged", ""]),
    st.text(max_size=5),
    st.integers(-1, 5),
    st.none(),
    st.booleans(),
)
VALUES = st.recursive(
    WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
REFUSALS = st.fixed_dictionaries({}, optional={"run_id": WORDS, "line": WORDS, "why": VALUES})
ANSWERS = st.fixed_dictionaries(
    {},
    optional={
        "acknowledged": st.lists(WORDS, max_size=4) | VALUES,
        "refused": st.lists(REFUSALS | VALUES, max_size=3) | VALUES,
        "takes_over": st.lists(WORDS, max_size=3) | VALUES,
        "plan": st.just("") | VALUES,
    },
)
BODIES = st.one_of(
    ANSWERS.map(lambda one: json.dumps(one).encode()),
    VALUES.map(lambda one: json.dumps(one).encode()),
    st.binary(max_size=40),
)
STATUSES = st.sampled_from([200, 200, 200, 200, 400, 409, 413, 429, 503])


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """No request leaves this process: `answers` says what comes back."""
    monkeypatch.setattr(courier, "request", lambda *_, **__: answers())
    monkeypatch.setattr(signing, "sign_request", lambda *_: ({}, "0" * 32))
    monkeypatch.setattr(signing, "check_answer", lambda *_: None)  # this is about what the collector signs
    monkeypatch.setattr(fetch_plan, "fetch", lambda *_: "")


def answers() -> courier.Reply:
    headers = Message()
    for name, value in ANSWER["headers"].items():
        headers[name] = value
    return courier.Reply(ANSWER["status"], headers, ANSWER["body"])


ANSWER: dict[str, Any] = {}


@given(STATUSES, BODIES, st.dictionaries(st.just("Retry-After"), st.text("0123456789.-e ", max_size=8)))
def test_a_record_stays_unless_it_was_acknowledged_or_refused(
    status: int, body: bytes, headers: dict[str, str]
) -> None:
    ANSWER.update(status=status, body=body, headers=headers)
    with tempfile.TemporaryDirectory() as root:
        places, plan = Places(root), Plan({}, "n1")
        for run_id in IDS:
            spool.write(places, {"run_id": run_id, "hook": "prolog"}, plan.spool)
        done = ship.ship(places, plan, Destination("http://head"))
        aside = {path.stem[-32:] for path in (Path(places.var) / "set-aside").glob("*.json")}
        left = {Path(path).stem[-32:] for path in spool.paths(places)}
        told = read(body) if status == 200 else {}
        gone = set(IDS) - left - aside
        assert gone <= strings(told.get("acknowledged"))
        assert done.left == len(left)
        assert len(done.refused) == len(aside)
        assert bool(done.why) or not left or bool(gone) or bool(aside)
        if status != 200:
            assert left == set(IDS)


def read(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def strings(value: Any) -> set[str]:
    return {one for one in value if isinstance(one, str)} if isinstance(value, list) else set()


@given(st.binary(max_size=60) | st.sampled_from([b"[" * 9000, b'{"v":1}', b"\xff"]), st.text(max_size=20))
def test_no_bytes_are_taken_for_a_plan(raw: bytes, node: str) -> None:
    with tempfile.TemporaryDirectory() as root:
        places = Places(root)
        with pytest.raises(Exception, match="collector's plan"):
            fetch_plan.put(places, node, raw)
        assert list(Path(places.var).iterdir()) == []
