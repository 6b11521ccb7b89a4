"""What the collector answers: JSON; a refusal is one sentence: what, what was expected, what to do."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

if TYPE_CHECKING:
    from starlette.requests import Request

#: Seconds that a node leaves the collector alone after a 503; more by chance, so that not all come at once.
AGAIN_S = 15


class RefusalError(Exception):
    """A request is not granted: `status` is the HTTP status, `retry_after` seconds or None."""

    def __init__(self, status: int, why: str, retry_after: float | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.retry_after = retry_after


def later(why: str, seconds: float = AGAIN_S) -> RefusalError:
    """The collector cannot do it now (503)."""
    return RefusalError(503, why, seconds)


def unsigned(why: str) -> RefusalError:
    """There is no signature, or not one of this request (401)."""
    return RefusalError(401, why)


def not_yours(why: str) -> RefusalError:
    """Signed well, by somebody who may not ask for this (403)."""
    return RefusalError(403, why)


def answer(content: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON answer."""
    body = json.dumps(content, separators=(",", ":")).encode()
    return Response(body, status, headers, media_type="application/json")


def refused(error: RefusalError) -> Response:
    """The answer to a request that is not granted."""
    headers = {}
    if error.retry_after is not None:
        spread = random.uniform(0, error.retry_after)  # noqa: S311 - spreads load
        headers["Retry-After"] = str(max(1, round(error.retry_after + spread)))
    if error.status == 401:
        headers["WWW-Authenticate"] = "Munge, Token"
    return answer({"error": printable(str(error))}, error.status, headers)


async def on_refusal(_request: Request, error: Exception) -> Response:
    """Starlette's handler for a refusal."""
    assert isinstance(error, RefusalError)
    return refused(error)


async def on_http_error(_request: Request, error: Exception) -> Response:
    """Starlette's handler for what it refuses by itself: no such path, no such method."""
    status = getattr(error, "status_code", 500)
    return refused(RefusalError(status, "no such request here; expected one of docs/collector.md"))


async def on_bug(_request: Request, _error: Exception) -> Response:
    """Starlette's handler for our own mistakes; the server logs where it was."""
    return refused(
        RefusalError(500, "the collector made a mistake; its log says more; send this again later")
    )


def printable(text: str, most: int = 500) -> str:
    """A text on one line without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:most]
