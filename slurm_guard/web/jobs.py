"""`GET /v1/jobs/{id}`: users get the report on their own jobs, root and configured admins on every job.

Who asks is what munge says. A job of somebody else and one that nobody knows get the same answer, after the
same work, so that nobody learns which ids exist. Answers are signed, as plans are.
"""

from __future__ import annotations

import asyncio
import json
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.responses import Response
from starlette.routing import Route

from slurm_guard.collector.answers import RefusalError, later, printable
from slurm_guard.collector.commit import Request as ToCommit
from slurm_guard.core.errors import NotFoundError, SlurmError, StoreError
from slurm_guard.report import job, job_lookup
from slurm_guard.slurm.command_gateway import CommandGateway
from slurm_guard.slurm.gateway import plain_job_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from slurm_guard.collector.gate import Caller
    from slurm_guard.collector.service import Collector

Found = TypeVar("Found")

#: Reports that are made at once, and how many more may wait.
_AT_ONCE, _MOST_WAITING = 2, 16
#: Slurm is asked twice at most, for three seconds each; the rest is the store.
_REPORT_S = 20.0


def routes(collector: Collector) -> list[Route]:
    """The routes for users."""
    return [Route("/v1/jobs/{job_id}", Jobs(collector).answer, methods=["GET"])]


class Jobs:
    """Makes reports, few at once and one for each user, so that nodes' records never wait for them."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._threads = ThreadPoolExecutor(_AT_ONCE, "jobs")
        #: Whose questions are being answered; None for those who may see every job.
        self._asking: list[int | None] = []

    async def answer(self, request: Request) -> Response:
        """The report on a job, or a signed 404."""
        async with self._collector.gate.admitted(request, of_a_node=False) as caller:
            job_id = _job_id(request.path_params["job_id"])
            await self._collector.intake.take(ToCommit(caller.nonce, round(time.time() * 1000)))
            sees_all = caller.uid == 0 or caller.uid in self._collector.settings.admins
            owner = None if sees_all else caller.uid
            cluster = None if sees_all else await self._collector.cluster() or None
            status, content = await self._in_turn(owner, partial(self._report, job_id, cluster, owner))
            return await self._signed(caller, status, content)

    async def _in_turn(self, owner: int | None, work: Callable[[], Found]) -> Found:
        """Run the work in a thread. Raises RefusalError: 429 for a user's second at once, 503 for no room."""
        if owner is not None and owner in self._asking:
            raise RefusalError(429, "your last question is still being answered; ask one at a time", 1)
        if len(self._asking) >= _MOST_WAITING:
            raise later("many users ask for reports now; ask again later")
        self._asking.append(owner)
        task = asyncio.get_running_loop().run_in_executor(self._threads, work)
        # Only when the work is over, even if nobody waits for it any more.
        task.add_done_callback(partial(self._answered, owner))
        try:
            return await asyncio.wait_for(asyncio.shield(task), _REPORT_S)
        except TimeoutError:
            raise later("the report took too long; ask again later") from None
        except StoreError as error:
            raise later(f"the store cannot be read now ({error}); ask again later") from None

    def _answered(self, owner: int | None, done: asyncio.Future[Any]) -> None:
        self._asking.remove(owner)
        if not done.cancelled():
            done.exception()  # of one that nobody waits for, asyncio would complain

    def _report(self, job_id: str, cluster: str | None, owner: int | None) -> tuple[int, dict[str, Any]]:
        """HTTP status and content; runs in a thread. `owner` None is for who may see every job."""
        settings, store = self._collector.settings, self._collector.store
        slurm = CommandGateway(settings.programs, settings.slurm_conf)
        try:
            found = job_lookup.ask(slurm, job_id, owner)
            number = job_lookup.number(store, job_id, found, cluster, owner)
            built = job.build(store, number, found.accounting, cluster, owner)
        except NotFoundError as error:
            why = str(error) if owner is None else f"job {job_id} is not yours, or not on record here"
            return 404, {"error": printable(why), "job_id": job_id}
        return 200, built if owner is None else without_others(built)

    async def _signed(self, caller: Caller, status: int, content: dict[str, Any]) -> Response:
        body = json.dumps(content, separators=(",", ":"), default=str).encode()
        signature = await self._collector.gate.signature(caller.nonce, body)
        headers = {**signature, "Cache-Control": "no-store"}
        return Response(body, status, headers, media_type="application/json")


def _job_id(text: str) -> str:
    try:
        return plain_job_id(text)
    except SlurmError as error:
        raise RefusalError(400, str(error)) from None


def without_others(built: dict[str, Any]) -> dict[str, Any]:
    """A report without the names of other users, whose jobs shared the node: that there were some stays."""
    for run in built["runs"]:
        for one in run["others"]:
            if one["user"] != built["user"]:
                one["user"] = None
    return built
