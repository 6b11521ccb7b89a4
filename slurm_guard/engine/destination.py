"""Where records go: the plan's `collector`; what `node.json` says wins (there may be no plan yet)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from slurm_guard.core.paths import Places
    from slurm_guard.core.plan import Plan

#: Nodes that ran a hook at the same moment do not all send at the same moment.
JITTER_S = 5.0
_LONGEST_JITTER_S = 300.0


class Destination:
    """A collector as a node knows it.

    `uids` are the users, besides root, whose signature on a plan counts; an empty `munge_socket` is munge's
    own default; with a `token_file` requests are signed with the token instead of munge; `jitter_s` seconds
    are waited at most before a shipment; `acting`: the collector carries out healthchecks' drains.
    """

    __slots__ = ("acting", "ca_file", "jitter_s", "munge_socket", "token_file", "uids", "url")

    def __init__(self, url: str, **settings: Any) -> None:
        self.url = url
        self.uids: list[int] = settings.get("uids") or []
        self.ca_file: str = settings.get("ca_file") or ""
        self.token_file: str = settings.get("token_file") or ""
        self.munge_socket: str = settings.get("munge_socket") or ""
        self.jitter_s: float = settings.get("jitter_s", JITTER_S)
        self.acting: bool = settings.get("acting", False)


def destination(places: Places, plan: Plan) -> Destination | None:
    """The collector of this node, None where there is none. Never raises: a wrong type counts as not set."""
    by_hand = places.node.get("collector")
    settings = {**plan.collector, **(by_hand if isinstance(by_hand, dict) else {})}
    url = _text(settings.get("url"))
    if not url:
        return None
    uids, acting = settings.get("uids"), settings.get("acting")
    return Destination(
        url,
        uids=[uid for uid in uids if type(uid) is int] if isinstance(uids, list) else [],
        ca_file=_below(places, settings.get("ca_file")),
        token_file=_below(places, settings.get("token_file")),
        munge_socket=_text(settings.get("munge_socket")),
        jitter_s=_seconds(settings.get("jitter_s")),
        acting=acting is True,
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _below(places: Places, value: Any) -> str:
    return places.below(value) if isinstance(value, str) and value else ""


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        return JITTER_S
    return min(float(value), _LONGEST_JITTER_S)
