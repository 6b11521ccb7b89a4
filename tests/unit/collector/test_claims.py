"""Headers and payloads that anybody may have sent."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from slurm_guard.collector.answers import RefusalError
from slurm_guard.collector.claims import Claim, Payload, body_length, claim_of, payload_of
from slurm_guard.engine import signing
from tests.unit.collector.kit import Ask, outcome

GOOD = {
    "v": 1,
    "method": "GET",
    "path": "/p",
    "node": "n1",
    "digest": "a" * 64,
    "nonce": "0f" * 16,
    "time": 1,
}
#: Key, value, and what is said of it.
ODD: list[tuple[str, object, str]] = [
    ("v", 0, "version 0"),
    ("v", True, "version True"),
    ("v", "1", "version 1"),
    ("v", None, "version None"),
    ("method", None, "is no request"),
    ("path", 5, "is no request"),
    ("node", None, "is no request"),
    ("digest", "A" * 64, "is no request"),
    ("digest", "a" * 63, "is no request"),
    ("digest", "a" * 64 + "\n", "is no request"),
    ("nonce", "0f" * 15, "is no request"),
    ("nonce", ["0f" * 16], "is no request"),
    ("time", 1.5, "has no time"),
    ("time", True, "has no time"),
    ("time", -1, "has no time"),
    ("time", 1 << 80, "has no time"),
    ("time", "now", "has no time"),
]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def encoded(content: object) -> bytes:
    return json.dumps(content).encode()


def test_a_good_payload_is_read() -> None:
    assert payload_of(encoded(GOOD)) == Payload("GET", "/p", "n1", "a" * 64, b"\x0f" * 16, 1)
    assert payload_of(encoded({**GOOD, "later": [1]})).node == "n1"


@pytest.mark.parametrize(("key", "value", "words"), ODD)
def test_an_odd_payload_says_what_is_odd(key: str, value: object, words: str) -> None:
    with pytest.raises(RefusalError, match=words) as caught:
        payload_of(encoded({**GOOD, key: value}))
    assert caught.value.status == 401


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 2000, b'{"v":1' + b" " * 5000 + b"}"]
)
def test_what_is_no_object_is_no_payload(text: bytes) -> None:
    with pytest.raises(RefusalError, match="no JSON object") as caught:
        payload_of(text)
    assert caught.value.status == 401


@given(st.binary(max_size=300) | ANY_JSON.map(encoded))
def test_any_bytes_are_a_payload_or_a_refusal(text: bytes) -> None:
    found, refused = outcome(lambda: payload_of(text))
    assert isinstance(found, Payload) if refused is None else refused.status == 401


@given(st.dictionaries(st.sampled_from(sorted(GOOD)), ANY_JSON, max_size=4))
def test_a_payload_with_any_values_is_one_of_the_right_types_or_refused(changes: dict[str, object]) -> None:
    found, refused = outcome(lambda: payload_of(encoded({**GOOD, **changes})))
    if refused is not None:
        assert refused.status == 401
        return
    assert [type(one) for one in found] == [str, str, str, str, bytes, int]
    assert len(found.nonce) == 16


NAMES = st.sampled_from(
    [signing.NODE, "Authorization", signing.PAYLOAD, "Content-Length", "Content-Type", "Content-Encoding",
     "Transfer-Encoding", "If-None-Match"]
)  # fmt: skip
VALUES = st.text(st.characters(max_codepoint=255), max_size=60) | st.sampled_from(
    ["Munge MUNGE:AA:", f"Token {'a' * 64}", "Token ", "Munge ", "MUNGE x", "12", "-1", "1e3", "n1", "e30="]
)


@given(st.lists(st.tuples(NAMES, VALUES), max_size=8), st.sampled_from(["GET", "POST"]), st.booleans())
def test_any_headers_are_a_claim_or_a_refusal(
    pairs: list[tuple[str, str]], method: str, of_a_node: bool
) -> None:
    raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs]
    length, too_long = outcome(lambda: body_length(Headers(raw=raw), method))
    assert 0 <= length <= 4 << 20 if too_long is None else too_long.status in (400, 411, 413)
    claim, refused = outcome(lambda: claim_of(Headers(raw=raw), method, of_a_node=of_a_node))
    if refused is not None:
        assert refused.status in (400, 401, 415)
        return
    assert isinstance(claim, Claim)
    assert claim.scheme in ("Munge", "Token")
    assert claim.node or not of_a_node


@given(st.text(max_size=30))
def test_a_node_is_one_name(name: str) -> None:
    raw = [(b"x-slurm-guard-node", name.encode()), (b"authorization", b"Munge x")]
    claim, refused = outcome(lambda: claim_of(Headers(raw=raw), "GET"))
    if refused is not None:
        assert refused.status == 400
        return
    assert claim.node.isascii()
    assert not set(claim.node) & set("[],* \t\n")


def test_what_a_node_signs_is_what_the_collector_reads() -> None:
    """Both sides' code: the shipper's payload, the collector's reading of it."""
    once = signing.nonce()
    found = payload_of(signing.request_payload("POST", "/v1/records", "n1", b"body", once, 1.9))
    digest = signing.digest(b"body")
    assert found == Payload("POST", "/v1/records", "n1", digest, bytes.fromhex(once), 1)
    headers = Headers({**Ask(body=b"body").signed()})
    assert claim_of(headers, "POST").scheme == signing.TOKEN
