"""Who may come in: every check of a request before its records, in the order of docs/collector.md."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeVar
from weakref import WeakValueDictionary

from starlette.requests import ClientDisconnect

from slurm_guard.collector import limits
from slurm_guard.collector.answers import RefusalError, later, not_yours, unsigned
from slurm_guard.collector.claims import Claim, Payload, body_length, claim_of, payload_of, too_large
from slurm_guard.engine.signing import SIGNATURE, answer_payload, digest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request

    from slurm_guard.collector.origins import Origins
    from slurm_guard.collector.proof import Proof, Signed

Found = TypeVar("Found")
#: How far the clocks of node and collector may be apart, and how long a request may be on its way.
FRESH_S = 300
_PROOF_S, _LINE_S = 10.0, 5.0
_DRAIN_S = 2.0
#: What somebody who means no harm does not do often.
_FAILURES = frozenset({400, 401, 403, 409, 411, 413, 415})


class Caller(NamedTuple):
    """Who was let in: NodeName (empty for a user's request), uid, address; the body, the nonce to be used.

    `nonce` is not used yet: whoever answers the request commits it (`Intake.take`).
    """

    node: str
    uid: int
    address: str
    nonce: bytes
    body: bytes


class Gate:
    """Lets requests in, one `admitted` block each. `was_used` tells a nonce that was taken before."""

    def __init__(
        self,
        proof: Proof,
        origins: Origins,
        uids: frozenset[int],
        was_used: Callable[[bytes], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._proof = proof
        self._origins = origins
        self._uids = uids | {0}
        self._was_used = was_used
        self._clock = clock
        self._room = limits.Room()
        self._per_node = limits.Rate(limits.PER_NODE)
        self._failures = limits.Rate(limits.FAILURES_PER_ADDRESS)
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._threads = ThreadPoolExecutor(8, "proof")

    def close(self) -> None:
        """Check nobody any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def in_thread(self, work: Callable[[], Found]) -> Found:
        """Run what may wait for munged in a thread, and give up on it after a while (RefusalError, 503)."""
        try:
            job = asyncio.get_running_loop().run_in_executor(self._threads, work)
            return await asyncio.wait_for(job, _PROOF_S)
        except TimeoutError:
            raise later("the collector's munged gave no answer; send this again later") from None

    async def signature(self, nonce: bytes, body: bytes) -> dict[str, str]:
        """The header by which a node knows that this body answers its request. Raises RefusalError (503)."""
        text = await self.in_thread(lambda: self._proof.sign(answer_payload(nonce.hex(), body)))
        return {SIGNATURE: text}

    @asynccontextmanager
    async def admitted(self, request: Request, *, of_a_node: bool = True) -> AsyncIterator[Caller]:
        """Let a request in, with room for its body until the block ends. Raises RefusalError.

        A node's request must be by root or a configured user, from an address of that node. With `of_a_node`
        False the node is empty and any user may ask: what `uid` may see is the caller's business.
        """
        address = request.client.host if request.client else ""
        try:
            length = body_length(request.headers, request.method)
            claim = claim_of(request.headers, request.method, of_a_node=of_a_node)
            signed = await self._signed(address, claim)
            payload = payload_of(signed.payload)
            self._check_who(claim, signed, payload, of_a_node=of_a_node)
            _check_what(request, payload)
            # A user may name a node, which must not be the worse for it.
            self._check_rate(claim.node if of_a_node else f"uid {signed.uid}")
            async with self._room.taken(length):
                body = await _body(request, length)
                self._check_fresh(payload, body)
                if of_a_node:
                    # munged may know its host by a loopback address, which says nothing.
                    told = () if signed.origin.startswith(("127.", "0.")) else (signed.origin,)
                    await self._origins.require(claim.node, (address, *filter(None, told)))
                yield Caller(claim.node, signed.uid, address, payload.nonce, body)
        except RefusalError as error:
            if error.status in _FAILURES:
                self._failures.take(address, time.monotonic())
            raise

    async def _signed(self, address: str, claim: Claim) -> Signed:
        """Whose signature that is.

        Of an address that is refused often, one at a time: honest senders there wait a little, others not.
        """
        if not self._failures.wait_s(address, time.monotonic()):
            return await self.in_thread(lambda: self._proof.check(claim))
        line = self._lines.setdefault(address, asyncio.Lock())
        try:
            async with asyncio.timeout(_LINE_S):
                await line.acquire()
        except TimeoutError:
            raise RefusalError(429, f"{address} is refused too often; look at the reasons", _LINE_S) from None
        try:
            return await self.in_thread(lambda: self._proof.check(claim))
        finally:
            line.release()

    def _check_who(self, claim: Claim, signed: Signed, payload: Payload, *, of_a_node: bool) -> None:
        if of_a_node and signed.uid not in self._uids:
            raise not_yours(f"signed by uid {signed.uid}; expected root, or one of `uids` in [collector]")
        if payload.node != claim.node:
            raise not_yours(
                f"signed as node {payload.node!r:.60}, sent as {claim.node!r:.60}; expected one name"
            )

    def _check_rate(self, key: str) -> None:
        wait = self._per_node.take(key, time.monotonic())
        if wait:
            raise RefusalError(
                429, f"more than {limits.PER_NODE} requests of {key} a minute; send more at once", wait
            )

    def _check_fresh(self, payload: Payload, body: bytes) -> None:
        if digest(body) != payload.digest:
            raise unsigned("the body is not the one that was signed; was it changed on its way?")
        age = self._clock() - payload.time
        if abs(age) > FRESH_S:
            raise unsigned(
                f"signed {age:.0f} s ago; expected at most {FRESH_S}: do the clocks of both hosts agree?"
            )
        if self._was_used(payload.nonce):
            raise RefusalError(409, "the nonce was used before; expected a fresh one for each attempt")


def _check_what(request: Request, payload: Payload) -> None:
    if request.url.query:
        raise RefusalError(400, "a query string; expected the path alone")
    if (payload.method, payload.path) != (request.method, request.scope["path"]):
        raise unsigned(f"signed for {payload.method[:10]} {payload.path[:60]}; expected this request's own")


async def _body(request: Request, length: int) -> bytes:
    """The body, within a time and as long as was promised."""
    parts, size = [], 0
    request.state.body_read = True  # whatever comes of it, nobody reads more
    try:
        async with asyncio.timeout(limits.BODY_S):
            async for part in request.stream():
                size += len(part)
                if size > length:
                    raise too_large(f"more than the promised {length} bytes")
                parts.append(part)
    except TimeoutError:
        raise RefusalError(408, f"no whole body within {limits.BODY_S:.0f} s; send fewer records") from None
    except ClientDisconnect:
        raise RefusalError(400, "the connection ended before the body did") from None
    return b"".join(parts)


async def drain(request: Request) -> None:
    """Read what is still coming of a small body: an answer before that could be lost in a reset."""
    if request.method != "POST" or getattr(request.state, "body_read", False):
        return
    told = request.headers.get("Content-Length", "")
    if not told.isdecimal() or len(told) > 12 or int(told) > limits.LARGEST_BODY:
        return
    try:
        async with asyncio.timeout(_DRAIN_S):
            while (message := await request.receive())["type"] == "http.request" and message.get("more_body"):
                pass
    except TimeoutError:
        return
