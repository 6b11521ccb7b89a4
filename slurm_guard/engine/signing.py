"""What node and collector sign for each other: with munge, or with a shared token where there is no munge.

Wire protocol v1, see docs/collector.md. Both sides make and check the same few lines of JSON, here.
"""

from __future__ import annotations

import json
import os
import stat
import time

from slurm_guard.core.errors import CollectorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_guard.engine.destination import Destination

VERSION = 1
SHORTEST_TOKEN = 32
LONGEST_TOKEN = 4096
NODE, PAYLOAD, SIGNATURE = "X-Slurm-Guard-Node", "X-Slurm-Guard-Payload", "X-Slurm-Guard-Signature"
MUNGE, TOKEN = "Munge", "Token"


def digest(body: bytes) -> str:
    """SHA-256 of a body, in hex."""
    import hashlib

    return hashlib.sha256(body).hexdigest()


def nonce() -> str:
    """Thirty-two hex digits that were never used before."""
    return os.urandom(16).hex()


def request_payload(method: str, path: str, node: str, body: bytes, once: str, at: float) -> bytes:
    """What a node signs: who asks for what with which body, once, at what time (unix seconds)."""
    content = {"method": method, "path": path, "node": node, "digest": digest(body), "nonce": once}
    return _canonical({"v": VERSION, "time": int(at), **content})


def answer_payload(once: str, body: bytes) -> bytes:
    """What a collector signs: this body is the answer to the request with that nonce."""
    return _canonical({"v": VERSION, "nonce": once, "digest": digest(body)})


def _canonical(content: dict[str, object]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def read_token(path: str) -> bytes:
    """The shared token: what the file holds, without the line's end. Raises CollectorError."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            token = file.read(LONGEST_TOKEN + 1).rstrip(b"\r\n") if stat.S_ISREG(status.st_mode) else b""
    except OSError as error:
        raise CollectorError(f"the token file {path} cannot be read: {error.strerror}") from None
    if status.st_uid not in (0, os.geteuid()) or status.st_mode & 0o077:
        raise CollectorError(
            f"the token file {path} may be read or written by others; expected root's, mode 0600"
        )
    if not SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN:
        raise CollectorError(
            f"the token file {path} holds {len(token)} bytes; expected {SHORTEST_TOKEN} to {LONGEST_TOKEN}"
        )
    return token


def token_signature(token: bytes, payload: bytes) -> str:
    """HMAC-SHA256 of a payload, in hex."""
    import hmac

    return hmac.new(token, payload, "sha256").hexdigest()


def sign_request(
    to: Destination, method: str, path: str, node: str, body: bytes
) -> tuple[dict[str, str], str]:
    """The headers that sign one attempt of a request, and its nonce. Raises MungeError or CollectorError."""
    once = nonce()
    payload = request_payload(method, path, node, body, once, time.time())
    headers = {NODE: node}
    if to.token_file:
        from base64 import urlsafe_b64encode

        signature = token_signature(read_token(to.token_file), payload)
        headers["Authorization"] = f"{TOKEN} {signature}"
        headers[PAYLOAD] = urlsafe_b64encode(payload).decode()
    else:
        from slurm_guard.slurm import munge

        headers["Authorization"] = f"{MUNGE} {munge.encode(payload, to.munge_socket)}"
    return headers, once


def check_answer(to: Destination, once: str, body: bytes, signature: str) -> None:
    """Raise CollectorError or MungeError unless a collector signed this answer to this request."""
    expected = answer_payload(once, body)
    if not signature:
        raise CollectorError(
            "the answer is not signed; is this the collector, and is it as new as this node?"
        )
    scheme, _, text = signature.partition(" ")
    if to.token_file:
        import hmac

        wanted = token_signature(read_token(to.token_file), expected)
        if scheme != TOKEN or not hmac.compare_digest(wanted.encode(), text.encode("utf-8", "replace")):
            raise CollectorError(
                "the answer is not signed with our token; is the token file the collector's?"
            )
        return
    if scheme != MUNGE:
        raise CollectorError("the answer is not signed with munge; is this the collector?")
    from slurm_guard.slurm import munge

    said = munge.decode(text, to.munge_socket)
    if said.uid != 0 and said.uid not in to.uids:
        raise CollectorError(
            f"the answer is signed by uid {said.uid}, expected 0 or one of collector.uids {to.uids}"
        )
    if _object(said.payload) != _object(expected):
        raise CollectorError("the answer's signature belongs to another request or another content")


def _object(payload: bytes) -> object:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        raise CollectorError("the answer's signature holds no JSON; is this the collector?") from None
