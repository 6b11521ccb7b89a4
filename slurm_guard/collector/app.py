"""The collector's requests (docs/collector.md): what comes in, what is answered."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from slurm_guard.collector.answers import (
    RefusalError,
    answer,
    not_yours,
    on_bug,
    on_http_error,
    refused,
)
from slurm_guard.collector.bodies import Line, lines_of
from slurm_guard.collector.commit import Request as ToCommit
from slurm_guard.collector.gate import Caller, drain
from slurm_guard.collector.origins import address_of
from slurm_guard.engine import signing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request
    from starlette.routing import BaseRoute

    from slurm_guard.collector.commit import Taken
    from slurm_guard.collector.service import Collector

#: A body up to this size is taken apart in the loop itself: a thread would cost more.
_SMALL = 32 << 10


def build(collector: Collector, more: Sequence[BaseRoute] = ()) -> Starlette:
    """The application; `more` are routes of other parts, which let requests in through `collector.gate`."""
    routes = [
        Route("/v1/records", partial(records, collector), methods=["POST"]),
        Route("/v1/plan", partial(plan, collector), methods=["GET"]),
        Route("/v1/health", partial(health, collector), methods=["GET"]),
        *more,
    ]
    handlers: Any = {
        RefusalError: partial(on_refusal, collector),
        HTTPException: on_http_error,
        Exception: on_bug,
    }
    made = Starlette(routes=routes, exception_handlers=handlers)
    made.router.redirect_slashes = False
    return made


async def on_refusal(collector: Collector, request: Request, error: RefusalError) -> Response:
    """Say no, and why; the journal gets it too."""
    await drain(request)
    who = request.headers.get(signing.NODE, "")[:60]
    address = request.client.host if request.client else "?"
    collector.journal.say(f"{error.status} to {who or 'nobody'} at {address}: {error}")
    return refused(error)


async def records(collector: Collector, request: Request) -> Response:
    """Take records of a node; answered when they are in the store."""
    async with collector.gate.admitted(request) as caller:
        cluster = await collector.cluster()
        work = partial(lines_of, caller.body, caller.node, cluster)
        lines = work() if len(caller.body) <= _SMALL else await collector.gate.in_thread(work)
        good = [line for line in lines if line.record is not None]
        kept = tuple(line.record for line in good if line.record is not None)
        taken = await collector.intake.take(_to_commit(caller, cluster)._replace(records=kept))
    outcome = _outcome(lines, good, taken)
    if outcome["refused"]:
        count, why = len(outcome["refused"]), outcome["refused"][0]["why"]
        collector.journal.say(f"{count} of {len(lines)} records of {caller.node} refused: {why}")
    made = answer({**outcome, "plan": await collector.plan_hash()})
    # Without it a node keeps its records: over plain HTTP anybody on the way could say that they arrived.
    made.headers.update(await collector.gate.signature(caller.nonce, bytes(made.body)))
    return made


def _to_commit(caller: Caller, cluster: str) -> ToCommit:
    return ToCommit(caller.nonce, round(time.time() * 1000), caller.node, cluster, caller.address)


def _outcome(lines: list[Line], good: list[Line], taken: Taken) -> dict[str, Any]:
    refused_lines = [(line, line.why) for line in lines if line.record is None]
    refused_lines += [(good[position], why) for position, why in taken.refused]
    return {
        "acknowledged": [good[position].run_id for position in taken.acknowledged],
        "refused": [
            {"line": line.number, "run_id": line.run_id, "why": why}
            for line, why in sorted(refused_lines, key=lambda one: one[0].number)
        ],
        "takes_over": taken.takes_over,
    }


async def plan(collector: Collector, request: Request) -> Response:
    """The bundle for nodes, signed; 304 for one that has it."""
    async with collector.gate.admitted(request) as caller:
        bundle = await collector.plan.current()
        await collector.intake.take(_to_commit(caller, await collector.cluster()))
        if bundle is None:
            raise RefusalError(404, collector.plan.problem or "no plan here; run `sguard config apply`")
        tag = f'"{bundle.hash}"'
        if tag in [one.strip() for one in request.headers.get("If-None-Match", "").split(",")]:
            return Response(status_code=304, headers={"ETag": tag})
        signature = await collector.gate.signature(caller.nonce, bundle.body)
    headers = {"ETag": tag, **signature}
    return Response(bundle.body, headers=headers, media_type="application/json")


async def health(collector: Collector, request: Request) -> Response:
    """How the collector is, for a watch on the same host."""
    address = address_of(request.client.host) if request.client else None
    if address is None or not address.is_loopback:
        raise not_yours("expected a request from this host, over loopback")
    failing = collector.intake.failing
    plan_hash = await collector.plan_hash()
    found: dict[str, Any] = {"ok": not failing, "backlog": collector.intake.backlog, "plan": plan_hash}
    if failing:
        found["store"] = failing
    for name, part in (("orders", collector.orders), ("watching", collector.watching)):
        if part is not None and part.problem:
            found[f"{name}_problem"] = part.problem
    if collector.plan.problem:
        found["plan_problem"] = collector.plan.problem
    return answer(found, 503 if failing else 200)
