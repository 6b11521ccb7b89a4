"""A job's report from the collector, for users, who may not read the results themselves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from slurm_guard.config import client
from slurm_guard.core.errors import CollectorError, MungeError, NotFoundError, SetupError
from slurm_guard.engine import courier, signing
from slurm_guard.engine.destination import destination
from slurm_guard.slurm.said import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurm_guard.cli.host import Host
    from slurm_guard.engine.destination import Destination

Shown = TypeVar("Shown")

SECONDS = 30.0
#: A job of twenty thousand nodes has a long report.
LARGEST = 32 << 20
_MAJORS = ("0", "1", "2")


def way(host: Host) -> Destination | None:
    """The collector to ask; None where the results can be read here, or nobody else has them.

    Raises SetupError where this user can do neither, and says which way is missing.
    """
    of_node = destination(host.places, host.plan)
    if os.access(host.places.database, os.R_OK) and (of_node is None or _collects(host)):
        return None
    if of_node is not None and _may_sign(of_node):
        return of_node
    found = client.read(host.places)
    if found is None and of_node is None:
        _require_own(host)
        return None
    to, signed_with = found or (of_node, "token")
    assert to is not None
    if signed_with != "munge":
        raise SetupError(
            f"the collector at {to.url} knows everybody by a token, which is root's, and cannot tell users "
            "apart; ask your admin for the report, or for munge"
        )
    return to


def _may_sign(to: Destination) -> bool:
    """True unless it takes the token, which is closed to this user. Root is told what is wrong with it."""
    return not to.token_file or os.access(to.token_file, os.R_OK) or os.geteuid() == 0


def _collects(host: Host) -> bool:
    """True on the collector's host. Other nodes may have a store too: of what was looked at there once."""
    return (Path(host.places.var) / "collector.alive").exists()


def _require_own(host: Host) -> None:
    """Raise SetupError for a user who cannot even look whether there are results."""
    var = host.places.var
    if os.geteuid() == 0 or os.access(var, os.X_OK):
        return
    raise SetupError(
        f"results in {var} are root's, and no collector is named on this host that users could ask; ask your "
        f"admin for {client.path_of(host.places)}, which `sguard config apply` writes on the admin host"
    )


def ask(to: Destination, job_id: str) -> dict[str, Any]:
    """The report on a job. Raises NotFoundError (not yours, or unknown), MungeError or CollectorError."""
    path = f"/v1/jobs/{job_id}"
    try:
        headers, once = signing.sign_request(to, "GET", path, "", b"")
        reply = courier.request(
            to.url, "GET", path, headers, seconds=SECONDS, largest=LARGEST, ca_file=to.ca_file
        )
        signature = reply.headers.get(signing.SIGNATURE)
        if reply.status not in (200, 404) or signature is None:
            raise CollectorError(_refusal(reply), reply.status)
        signing.check_answer(to, once, reply.body, signature)
        return _opened(reply)
    except MungeError as error:
        why = f"munge, by which the collector knows who you are: {error}"
        raise MungeError(why, error.name, error.code) from None
    except CollectorError as error:
        raise CollectorError(f"the collector at {to.url}: {printable(str(error))}", error.status) from None


def _opened(reply: courier.Reply) -> dict[str, Any]:
    """The content of an answer that is the collector's."""
    try:
        content = json.loads(reply.body)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise CollectorError("its answer is no JSON object; expected a report", reply.status)
    if reply.status == 404:
        raise NotFoundError(str(content.get("error") or "it knows no such job"))
    schema = str(content.get("schema"))
    if content.get("kind") != "job" or schema.partition(".")[0] not in _MAJORS:
        raise CollectorError(
            f"its answer is {content.get('kind')!s:.20} {schema:.10}; expected a job report 1.x: is it newer?"
        )
    return content


def _refusal(reply: courier.Reply) -> str:
    """What an answer means that nobody signed."""
    told = courier.told(reply)
    if reply.status == 200 or not courier.is_protocol(reply):
        return f"something else answers there ({told}); is the address right? Ask your admin"
    if reply.status == 404:
        return "it gives no reports to users; it is older than this sguard: ask your admin"
    return f"refused: {told}"


def shown(look: Callable[[dict[str, Any]], Shown], built: dict[str, Any]) -> Shown:
    """What a look at a report gives. Raises CollectorError if it lacks what this version looks at."""
    try:
        return look(built)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        what = f"{type(error).__name__}: {error}"
        raise CollectorError(
            f"the collector's report cannot be shown ({what:.100}): it is of another version of slurm_guard"
        ) from None
