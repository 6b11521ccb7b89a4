"""Send this node's records to the collector: a record leaves the spool only when it was acknowledged.

Kill -9 at any instant loses nothing: what was sent and not yet removed is sent again, and the collector knows
it by its run id.
"""

from __future__ import annotations

import json
import time

from slurm_guard.core.errors import CollectorError, MungeError
from slurm_guard.engine import batch as batches
from slurm_guard.engine import (
    clock,
    courier,
    fetch_plan,
    files,
    requests,
    set_aside,
    ship_state,
    signing,
    spool,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.paths import Places
    from slurm_guard.core.plan import Plan
    from slurm_guard.engine.batch import Batch
    from slurm_guard.engine.destination import Destination

PATH = "/v1/records"
#: One request; a whole shipment.
REQUEST_S, SHIPMENT_S = 20.0, 60.0
#: What may stand between this node and a sent record.
TROUBLE = (CollectorError, MungeError, OSError)


class Shipped:
    """What a shipment came to.

    `sent` records went out (some perhaps twice), `acknowledged` of them are in the store, `refused` lists
    (run id, why) of those set aside, `left` are still in the spool, `taken` are runs whose drains the
    collector carries out; `plan` is the hash of a new plan that was put in place, `plan_why` says why one was
    not; `why` says what kept the shipment from being whole, empty if it was.
    """

    __slots__ = ("acknowledged", "left", "plan", "plan_why", "refused", "retry_after", "sent", "taken", "why")

    def __init__(self) -> None:
        self.sent = self.acknowledged = self.left = 0
        self.refused: list[tuple[str, str]] = []
        self.taken: list[str] = []
        self.plan = self.plan_why = self.why = ""
        self.retry_after: float | None = None


def ship(places: Places, plan: Plan, to: Destination, seconds: float = SHIPMENT_S) -> Shipped:
    """Send what waits in the spool, within about `seconds`, and fetch the plan if the collector has another.

    Never raises for what network, collector, munge or disk do. The caller holds the lock `ship`.
    """
    this = Shipment(places, plan, to, seconds)
    state = ship_state.load(places)
    state.last, state.node = time.monotonic(), plan.node
    try:
        this.send_all()
        this.fetch_plan(state)
        this.done.why = this.too_large
    except TROUBLE as error:
        this.done.why = str(error) or type(error).__name__
        this.done.retry_after = getattr(error, "retry_after", None)
    if this.done.why:
        state.failed(this.done.why, this.done.retry_after)
    else:
        state.succeeded()
    ship_state.save(places, state)
    this.done.left = len(spool.paths(places))
    return this.done


class Shipment:
    """One shipment under way."""

    def __init__(self, places: Places, plan: Plan, to: Destination, seconds: float) -> None:
        self.places, self.plan, self.to = places, plan, to
        self.ends = time.monotonic() + seconds
        self.done = Shipped()
        self.announced: str | None = None
        self._most_lines = batches.MOST_LINES
        self.too_large = ""

    def send_all(self) -> None:
        """Send batch after batch, oldest first."""
        waiting = spool.paths(self.places)
        while waiting:
            batch = batches.take(waiting, self._most_lines, self._aside)
            if not batch.lines:
                continue
            answer = self._post(batch)
            if answer is None:
                self._smaller(batch, waiting)
            else:
                self._heed(batch, answer)

    def fetch_plan(self, state: ship_state.ShipState) -> None:
        """Fetch the plan if the collector named another than ours, or was not asked anything yet."""
        if self.announced in ("", self.plan.hash):
            return
        have = fetch_plan.hash_on_disk(self.places, self.plan.node)  # a shipment before may have changed it
        if self.announced == have or not state.wants_plan(self.announced or "?"):
            return
        try:
            found = fetch_plan.fetch(self.places, self.to, self.plan.node, have, self._left())
            self.done.plan = found if found != have else ""
        except TROUBLE as error:
            if self.announced is None:
                raise  # nothing was sent: this was the only word with the collector
            self.done.plan_why = str(error)
            state.plan_refused(self.announced)

    def _left(self) -> float:
        """Seconds for the next request."""
        left = self.ends - time.monotonic()
        if left <= 0:
            raise CollectorError("the time for one shipment was used up; the rest goes with the next")
        return min(REQUEST_S, left)

    def _post(self, batch: Batch) -> dict[str, Any] | None:
        """The collector's answer to a batch; None if it is too large for it. Raises for anything else."""
        reply, once = self._attempt(batch)
        if reply.status == 409:  # it has seen this nonce: some other attempt's word arrived, so say it anew
            reply, once = self._attempt(batch)
        if reply.status == 413:
            return None
        if reply.status != 200:
            asked = _seconds(reply.headers.get("Retry-After"))
            raise CollectorError(f"the collector took no record: {courier.told(reply)}", reply.status, asked)
        # Nothing leaves the spool on the word of somebody on the way.
        signing.check_answer(self.to, once, reply.body, reply.headers.get(signing.SIGNATURE, ""))
        answer = _object(reply.body)
        if answer is None or not isinstance(answer.get("acknowledged"), list):
            raise CollectorError(
                "the collector's answer is not one of protocol v1; is collector.url right?", 200
            )
        return answer

    def _attempt(self, batch: Batch) -> tuple[courier.Reply, str]:
        """One try: what came back, and the nonce that its signature must name."""
        body, seconds = batch.body, self._left()
        headers, once = signing.sign_request(self.to, "POST", PATH, self.plan.node, body)
        headers["Content-Type"] = "application/x-ndjson"
        self.done.sent += len(batch.lines)
        reply = courier.request(
            self.to.url, "POST", PATH, headers, body, seconds=seconds, ca_file=self.to.ca_file
        )
        return reply, once

    def _smaller(self, batch: Batch, waiting: list[str]) -> None:
        """Too large: in halves from now on.

        A single record stays, and the others go: nobody signs a 413, and what is beyond the protocol's own
        bound was not sent at all.
        """
        count = len(batch.lines)
        if count == 1:
            self.too_large = (
                f"HTTP 413 to a record of {batch.size} bytes, which protocol v1 allows; it stays here: "
                "is this the collector, with nothing in between?"
            )
            return
        self._most_lines = count // 2
        waiting[:0] = batch.paths.values()

    def _heed(self, batch: Batch, answer: dict[str, Any]) -> None:
        """Do as the collector says. Requests that it takes over go before the record that asked for them."""
        self.announced = _text(answer.get("plan"))
        taken = {one for one in _list(answer.get("takes_over")) if isinstance(one, str)}
        if taken:
            self.done.taken += hand_over(self.places, taken)
        settled = 0
        for run_id in _list(answer.get("acknowledged")):
            path = batch.paths.pop(run_id, None) if isinstance(run_id, str) else None
            if path is not None:
                files.remove(path)
                settled += 1
        self.done.acknowledged += settled
        for path, why in batch.take_refused(_list(answer.get("refused"))):
            self._aside(path, why)
            settled += 1
        if not settled:
            raise CollectorError(f"the collector acknowledged none of {len(batch.lines)} records")

    def _aside(self, path: str, why: str) -> None:
        set_aside.put(self.places, path, why, self.plan.spool)
        self.done.refused.append((path.rpartition("-")[2][:-5], why))


def hand_over(places: Places, run_ids: set[str]) -> list[str]:
    """Drop the drain requests of these runs, which the collector carries out; the runs they were of."""
    found = []
    for request in requests.waiting(places, clock.boot_id(places)):
        if request["kind"] == "drain" and request.get("run_id") in run_ids:
            requests.drop(places, request)
            found.append(str(request["run_id"]))
    return found


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _seconds(text: str | None) -> float | None:
    """Retry-After in seconds; a date, which may stand there too, is not one of this protocol."""
    return float(text) if text and len(text) < 7 and text.isascii() and text.isdigit() else None
