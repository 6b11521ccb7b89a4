"""Every check of a request, each with its own answer, in the order of docs/collector.md."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurm_guard.collector import limits
from slurm_guard.collector.service import Collector
from slurm_guard.engine import signing
from tests.unit.collector.kit import THERE, Ask, body_of, client, record

BODY = body_of(record())


def too_long(ask: Ask) -> None:
    ask.headers["Content-Length"] = str(limits.LARGEST_BODY + 1)


def no_length(ask: Ask) -> None:
    ask.headers["Content-Length"], ask.headers["Transfer-Encoding"] = None, "chunked"


def encoded(ask: Ask) -> None:
    ask.headers["Content-Encoding"] = "gzip"


def other_type(ask: Ask) -> None:
    ask.headers["Content-Type"] = "application/json"


def odd_node(ask: Ask) -> None:
    ask.headers[signing.NODE] = "n[1-3]"


def unsigned(ask: Ask) -> None:
    ask.headers["Authorization"] = None


def other_scheme(ask: Ask) -> None:
    ask.headers["Authorization"] = "Bearer abc"


def munge_here(ask: Ask) -> None:
    ask.headers["Authorization"] = "Munge MUNGE:AAAA:"


def no_payload(ask: Ask) -> None:
    ask.headers[signing.PAYLOAD] = None


def bad_payload(ask: Ask) -> None:
    ask.headers[signing.PAYLOAD] = "!!"


def other_token(ask: Ask) -> None:
    ask.token = b"another token of at least thirty-two"


def no_request(ask: Ask) -> None:
    ask.payload["digest"] = 7


def next_version(ask: Ask) -> None:
    ask.payload["v"] = 2


def other_node(ask: Ask) -> None:
    ask.payload["node"] = "n2"


def query(ask: Ask) -> None:
    ask.path += "?x=1"
    ask.payload["path"] = "/v1/records"


def other_path(ask: Ask) -> None:
    ask.payload["path"] = "/v1/plan"


def other_method(ask: Ask) -> None:
    ask.payload["method"] = "GET"


def other_body(ask: Ask) -> None:
    ask.digest = "0" * 64


def old(ask: Ask) -> None:
    ask.payload["time"] = int(time.time()) - 301


def future(ask: Ask) -> None:
    ask.payload["time"] = int(time.time()) + 305


def used(ask: Ask) -> None:
    ask.payload["nonce"] = "0" * 32


def elsewhere(ask: Ask) -> None:
    ask.node = "n2"


def unknown(ask: Ask) -> None:
    ask.node = "x1"


def too_many(ask: Ask) -> None:
    ask.body = b"x\n" * (limits.MOST_RECORDS + 1)


#: What is wrong, the status, and what the sentence says. In the order of the checks.
REFUSALS: list[tuple[Callable[[Ask], None], int, str]] = [
    (too_long, 413, "expected at most 4194304 bytes"),
    (no_length, 411, "no Content-Length"),
    (encoded, 415, "without any encoding"),
    (other_type, 415, "application/x-ndjson"),
    (odd_node, 400, "expected one NodeName"),
    (unsigned, 401, "not signed"),
    (other_scheme, 401, "Authorization cannot be read"),
    (no_payload, 401, "base64url"),
    (bad_payload, 401, "base64url"),
    (munge_here, 401, "signed with its token only"),
    (other_token, 401, "signed with another token"),
    (no_request, 401, "what was signed is no request"),
    (next_version, 401, "protocol version 2"),
    (other_node, 403, "signed as node 'n2', sent as 'n1'"),
    (query, 400, "the path alone"),
    (other_path, 401, "signed for POST /v1/plan"),
    (other_method, 401, "signed for GET"),
    (other_body, 401, "not the one that was signed"),
    (old, 401, "do the clocks of both hosts agree"),
    (future, 401, "do the clocks of both hosts agree"),
    (used, 409, "nonce was used before"),
    (elsewhere, 403, "10.20.0.1 is not n2's"),
    (too_many, 413, "at most 1000 records"),
]
#: These are told apart by the same word of a request, so only one of them can be wrong at a time.
ALIKE = [
    {too_long, no_length},
    {unsigned, other_scheme, munge_here, no_payload, bad_payload, other_token},
    {
        no_payload,
        no_request,
        next_version,
        other_node,
        other_path,
        other_method,
        other_body,
        old,
        future,
        used,
    },
    {old, future},
    {other_path, query},
    {other_node, elsewhere, odd_node},
    {other_body, too_many},
]
PAIRS = [
    (first, second)
    for index, first in enumerate(REFUSALS)
    for second in REFUSALS[index + 1 :]
    if not any({first[0], second[0]} <= group for group in ALIKE)
]


@pytest.fixture
def asked(collector: Collector) -> Any:
    """Sends requests of n1's address to a collector that has seen one nonce; none is refused for its rate."""
    to = client(collector)
    assert Ask(payload={"nonce": "0" * 32}).send(to).status_code == 200
    return lambda ask: ask.send(to)


def ask_with(*mistakes: Callable[[Ask], None]) -> Ask:
    ask = Ask(body=BODY)
    for mistake in mistakes:
        mistake(ask)
    return ask


@pytest.mark.parametrize(("mistake", "status", "words"), REFUSALS)
def test_each_is_refused_in_words(
    asked: Any, collector: Collector, mistake: Callable[[Ask], None], status: int, words: str
) -> None:
    reply = asked(ask_with(mistake))
    assert reply.status_code == status, reply.text
    assert words in reply.json()["error"]
    assert ("WWW-Authenticate" in reply.headers) == (status == 401)
    assert runs_in(collector) == 0


def test_what_is_checked_first_is_told_first(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for (first, status, words), (second, _status, _words) in PAIRS:
        reply = asked(ask_with(second, first))
        assert (reply.status_code, words in reply.json()["error"]) == (status, True), (
            f"{first.__name__} before {second.__name__}: {reply.text}"
        )


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many refusals as the tables need."""
    monkeypatch.setattr(limits, "FAILURES_PER_ADDRESS", 100_000)
    monkeypatch.setattr(limits, "PER_NODE", 100_000)


def runs_in(collector: Collector) -> int:
    with collector.store.read() as connection:
        found: int = connection.exec_driver_sql("SELECT count(*) FROM runs").scalar_one()
        return found


def test_an_honest_request_is_taken(asked: Any, collector: Collector) -> None:
    reply = asked(Ask(body=BODY))
    assert reply.status_code == 200
    assert reply.json()["refused"] == []
    assert runs_in(collector) == 1


def test_a_node_is_who_its_address_says(collector: Collector) -> None:
    from_there = client(collector, THERE)
    assert Ask(node="n2", body=body_of(record("n2"))).send(from_there).status_code == 200
    assert Ask(node="n1", body=BODY).send(from_there).status_code == 403


def test_a_header_twice_is_refused(collector: Collector) -> None:
    ask = Ask(body=BODY)
    for name in (signing.NODE, "Authorization", signing.PAYLOAD, "Content-Type"):
        headers = [*ask.signed().items(), (name, "n1")]
        reply = client(collector).post(ask.path, headers=headers, content=ask.body)
        assert (reply.status_code, "more than once" in reply.text) == (400, True), name


def test_no_forwarded_address_is_believed(collector: Collector) -> None:
    ask = Ask(node="n2", headers={"X-Forwarded-For": THERE, "Forwarded": f"for={THERE}"}, body=BODY)
    assert ask.send(client(collector)).status_code == 403


NAMES = st.sampled_from(
    [
        signing.NODE,
        "Authorization",
        signing.PAYLOAD,
        "Content-Type",
        "Content-Encoding",
        "If-None-Match",
        "Host",
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(["GET", "POST", "PUT", "HEAD", "OPTIONS"]),
    st.sampled_from(["/v1/records", "/v1/plan", "/v1/health", "/v1/%2e%2e", "/v1/records?a=%00"]),
    st.dictionaries(
        NAMES, st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60), max_size=4
    ),
    st.binary(max_size=200),
    st.booleans(),
)
def test_no_request_brings_out_a_mistake_of_ours(
    collector: Collector, method: str, path: str, headers: dict[str, str], body: bytes, signed: bool
) -> None:
    ask = Ask(method, path, body=body)
    whole = {**(ask.signed() if signed else {}), **headers}
    reply = client(collector).request(method, path, headers=whole, content=body)
    assert reply.status_code < 500
    assert method == "HEAD" or reply.status_code in (200, 304) or reply.json()["error"]


@pytest.mark.parametrize("path", ["/", "/v1/plan/", "/v1/nothing", "/v1/records"])
def test_other_paths_are_none(collector: Collector, path: str) -> None:
    reply = client(collector).get(path, follow_redirects=False)
    assert reply.status_code in (404, 405)
    assert "docs/collector.md" in reply.json()["error"]
