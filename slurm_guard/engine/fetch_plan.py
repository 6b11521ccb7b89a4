"""Fetch the plan from the collector and put it in place: only one that is signed, whole and readable here.

The last good plan stays until a better one lies complete beside it.
"""

from __future__ import annotations

import json
import os

from slurm_guard.core import plan as plans
from slurm_guard.core.errors import CollectorError
from slurm_guard.engine import courier, files, signing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from slurm_guard.core.paths import Places
    from slurm_guard.engine.destination import Destination

PATH = "/v1/plan"


def hash_on_disk(places: Places, node: str) -> str:
    """The hash of the plan that hooks would use now; empty where there is none that they could."""
    return plans.load(places.plan, node).hash


def fetch(places: Places, to: Destination, node: str, have: str, seconds: float) -> str:
    """Ask for the plan; the hash of the one that was put in place.

    It is empty if `have` is still the one, or if the collector has none.
    Raises CollectorError (no usable answer, a wrong signature, a plan that this version cannot read),
    MungeError, or OSError (the disk); the plan on disk is untouched then.
    """
    headers, once = signing.sign_request(to, "GET", PATH, node, b"")
    if have:
        headers["If-None-Match"] = f'"{have}"'
    reply = courier.request(
        to.url, "GET", PATH, headers, seconds=seconds, largest=plans.LARGEST, ca_file=to.ca_file
    )
    if reply.status == 304 or (reply.status == 404 and courier.is_protocol(reply)):
        return ""
    if reply.status != 200:
        raise CollectorError(f"the collector gave no plan: {courier.told(reply)}", reply.status)
    signing.check_answer(to, once, reply.body, reply.headers.get(signing.SIGNATURE, ""))
    return put(places, node, reply.body)


def put(places: Places, node: str, raw: bytes) -> str:
    """Put a plan's bytes in place if hooks can use them; its hash. Raises CollectorError or OSError."""
    candidate = f"{places.plan}.fetched"
    files.make_folder(os.path.dirname(places.plan))
    files.write_atomic(candidate, raw)
    try:
        found = plans.load(candidate, node)
        if found.state not in ("ok", "stale"):
            raise CollectorError(f"the collector's plan cannot be used: {found.problem}")
        if plans.digest(json.loads(raw)) != found.hash:
            raise CollectorError("the collector's plan does not match its hash; nothing was replaced")
        os.rename(candidate, places.plan)
    except BaseException:
        files.remove(candidate)
        raise
    files.sync_folder(os.path.dirname(places.plan))
    return found.hash
