"""Headers and payload of a request, as anybody may have sent them: taken apart, not yet believed."""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from slurm_guard.collector.answers import RefusalError, unsigned
from slurm_guard.collector.limits import LARGEST_BODY
from slurm_guard.core.errors import SlurmError
from slurm_guard.engine.signing import MUNGE, NODE, PAYLOAD, TOKEN, VERSION
from slurm_guard.slurm.gateway import plain_node_name

if TYPE_CHECKING:
    from starlette.datastructures import Headers

NDJSON = "application/x-ndjson"
_LARGEST_PAYLOAD = 4096
_HEX64, _HEX32 = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{32}")
_LONGEST_CREDENTIAL = 32 << 10
_ONCE = (NODE, "Authorization", PAYLOAD, "Content-Length", "Content-Type", "If-None-Match")


class Claim(NamedTuple):
    """Who a request says it is from; `proof` is a credential, or an HMAC over `payload`."""

    node: str
    scheme: str
    proof: str
    payload: bytes


class Payload(NamedTuple):
    """What was signed: `nonce` has 16 bytes, `time` is in seconds since 1970."""

    method: str
    path: str
    node: str
    digest: str
    nonce: bytes
    time: int


def body_length(headers: Headers, method: str) -> int:
    """The length that a request promises. Raises RefusalError: none for a POST, or too large."""
    told = headers.getlist("Content-Length")
    if not told or len(set(told)) > 1:
        if method == "GET" and not told and "Transfer-Encoding" not in headers:
            return 0
        raise RefusalError(411, "no Content-Length; expected one, and no transfer encoding")
    if not (told[0].isascii() and told[0].isdigit()) or len(told[0]) > 12:
        raise RefusalError(400, f"Content-Length is {told[0][:20]!r}; expected a number of bytes")
    if int(told[0]) > LARGEST_BODY:
        raise too_large(f"{told[0]} bytes")
    return int(told[0])


def too_large(found: str) -> RefusalError:
    """413."""
    return RefusalError(
        413, f"{found} in one request; expected at most {LARGEST_BODY} bytes: send fewer records"
    )


def claim_of(headers: Headers, method: str, *, of_a_node: bool = True) -> Claim:
    """The claim of a request. Raises RefusalError: a header is odd (400, 415), or no signature (401)."""
    for name in _ONCE:
        if len(headers.getlist(name)) > 1:
            raise RefusalError(400, f"{name} is there more than once; expected one")
    if "Content-Encoding" in headers or "Transfer-Encoding" in headers:
        raise RefusalError(415, "the body is encoded; expected it as it is, without any encoding")
    if method == "POST" and headers.get("Content-Type", "").strip().lower() != NDJSON:
        raise RefusalError(415, f"Content-Type is no {NDJSON}; expected one JSON record a line")
    node = _node(headers.get(NODE, ""), of_a_node=of_a_node)
    scheme, _, proof = headers.get("Authorization", "").partition(" ")
    if not scheme:
        raise unsigned(
            f"not signed; expected `Authorization: {MUNGE} CREDENTIAL` (or {TOKEN}, docs/collector.md)"
        )
    if scheme == MUNGE and 0 < len(proof) <= _LONGEST_CREDENTIAL and proof.isascii():
        return Claim(node, scheme, proof, b"")
    if scheme == TOKEN and _HEX64.fullmatch(proof):
        return Claim(node, scheme, proof, _decoded(headers.get(PAYLOAD, "")))
    raise unsigned(
        f"Authorization cannot be read; expected `{MUNGE} CREDENTIAL` or `{TOKEN} ` and 64 hex digits"
    )


def _node(text: str, *, of_a_node: bool) -> str:
    if not text and not of_a_node:
        return ""
    try:
        return plain_node_name(text)
    except SlurmError:
        raise RefusalError(400, f"{NODE} is {text[:40]!r}; expected one NodeName as in slurm.conf") from None


def _decoded(text: str) -> bytes:
    try:
        if not text or len(text) > 2 * _LARGEST_PAYLOAD:
            raise ValueError
        return base64.b64decode(text.encode("ascii"), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise unsigned(f"{PAYLOAD} cannot be read; expected the signed text in base64url") from None


def payload_of(text: bytes) -> Payload:
    """What was signed, checked for its shape. Raises RefusalError (401)."""
    found = _object(text)
    texts = [found.get(key) for key in ("method", "path", "node", "digest", "nonce")]
    version, at = found.get("v"), found.get("time")
    if version != VERSION or type(version) is not int:
        raise unsigned(
            f"signed for protocol version {str(version)[:20]}; expected {VERSION}: is the other side newer?"
        )
    method, path, node, digest, nonce = (one if isinstance(one, str) else "" for one in texts)
    if (
        not all(isinstance(one, str) for one in texts)
        or not _HEX64.fullmatch(digest)
        or not _HEX32.fullmatch(nonce)
    ):
        raise unsigned("what was signed is no request; expected method, path, node, digest and nonce")
    if type(at) is not int or not 0 <= at < 1 << 40:
        raise unsigned("what was signed has no time; expected seconds since 1970")
    return Payload(method, path, node, digest, bytes.fromhex(nonce), at)


def _object(text: bytes) -> dict[str, Any]:
    try:
        if len(text) > _LARGEST_PAYLOAD:
            raise ValueError
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise unsigned(f"what was signed is no JSON object of at most {_LARGEST_PAYLOAD} bytes")
    return found
