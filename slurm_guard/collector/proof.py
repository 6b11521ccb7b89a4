"""Whose signature is under a request, and the collector's own under a plan: munge, or a shared token."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, NamedTuple, Protocol

from slurm_guard.collector.answers import RefusalError, later, unsigned
from slurm_guard.core.errors import CollectorError, MungeError
from slurm_guard.engine import signing
from slurm_guard.slurm import munge

if TYPE_CHECKING:
    from slurm_guard.collector.claims import Claim


class Signed(NamedTuple):
    """What was signed, by whom, on which host: `origin` is munge's IPv4 address or empty."""

    payload: bytes
    uid: int
    origin: str


class Proof(Protocol):
    """One way to sign; both sides of it. Both methods may wait for munged, so they run in a thread."""

    def check(self, claim: Claim) -> Signed:
        """Whose signature that is. Raises RefusalError: 401 none of ours, 409 a replay, 503 no munged."""
        ...

    def sign(self, payload: bytes) -> str:
        """The collector's signature, as a header has it. Raises RefusalError (503)."""
        ...


class MungeProof:
    """Munge says which uid made it on which host."""

    def __init__(self, socket: str = "") -> None:
        self._socket = socket

    def check(self, claim: Claim) -> Signed:
        """See Proof."""
        if claim.scheme != signing.MUNGE:
            raise unsigned(f"signed with {claim.scheme}; this collector takes munge credentials only")
        try:
            found = munge.decode(claim.proof, self._socket)
        except MungeError as error:
            raise _refusal(error) from None
        return Signed(found.payload, found.uid, found.address)

    def sign(self, payload: bytes) -> str:
        """See Proof."""
        try:
            return f"{signing.MUNGE} {munge.encode(payload, self._socket)}"
        except MungeError as error:
            raise later(f"the collector cannot sign: {error}") from None


def _refusal(error: MungeError) -> RefusalError:
    if error.name in ("socket", "timeout"):
        return later(f"the collector cannot verify anybody now: {error}")
    if error.name == "replayed":
        return RefusalError(409, f"{error}; expected a fresh credential for each attempt")
    return unsigned(str(error))


class TokenProof:
    """Whoever has the token file is root on its host: the file is root's alone."""

    def __init__(self, path: str) -> None:
        self._path = path

    def check(self, claim: Claim) -> Signed:
        """See Proof."""
        if claim.scheme != signing.TOKEN:
            raise unsigned(
                f"signed with {claim.scheme}; this collector takes requests signed with its token only"
            )
        expected = signing.token_signature(self._token(), claim.payload)
        if not hmac.compare_digest(expected.encode(), claim.proof.encode()):
            raise unsigned("signed with another token; is the token file the same on both hosts?")
        return Signed(claim.payload, 0, "")

    def sign(self, payload: bytes) -> str:
        """See Proof."""
        return f"{signing.TOKEN} {signing.token_signature(self._token(), payload)}"

    def _token(self) -> bytes:
        try:
            return signing.read_token(self._path)
        except CollectorError as error:
            raise later(f"the collector's {error}") from None
