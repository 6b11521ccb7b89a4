"""Which addresses belong to a node: the admin's own table, else Slurm's NodeAddr and NodeHostName, resolved.

A node speaks only for itself, so an address that is not known to be its own is refused. What Slurm and the
resolver say is kept for a while, asked for again when it does not fit, and never more often than `RETRY_S`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from slurm_guard.collector.answers import later, not_yours
from slurm_guard.core.errors import SlurmError
from slurm_guard.slurm.hostlist import expand

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    Address = ipaddress.IPv4Address | ipaddress.IPv6Address
    Network = ipaddress.IPv4Network | ipaddress.IPv6Network

REFRESH_S = 600.0
RETRY_S = 30.0
LOOKUP_S = 10.0


class _Known(NamedTuple):
    """Addresses of a node, since when (monotonic)."""

    addresses: frozenset[Address]
    at: float


class Origins:
    """Answers whether addresses are a node's own; Slurm and the resolver are asked in own threads."""

    def __init__(
        self,
        ask_slurm: Callable[[], Mapping[str, Iterable[str]]],
        table: Mapping[str, Iterable[str]] | None = None,
        resolve: Callable[[str], set[Address]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask_slurm = ask_slurm
        self._resolve = resolve or resolved
        self._clock = clock
        self._fixed = _expanded(table or {})
        self._slurm: dict[str, tuple[str, ...]] = {}
        self._asked_at = self._told_at = float("-inf")
        self._known: dict[str, _Known] = {}
        self._lookups: dict[str, asyncio.Future[None]] = {}
        self._turn = threading.Lock()
        self._threads = ThreadPoolExecutor(4, "origins")
        self._problem = ""

    async def require(self, node: str, texts: Iterable[str]) -> None:
        """Raise RefusalError unless all these addresses are the node's: 403, or 503 where nobody can say."""
        addresses = [plain for text in texts if (plain := address_of(text)) is not None]
        if node in self._fixed:
            if not addresses or not all(_within(one, self._fixed[node]) for one in addresses):
                raise not_yours(_wrong(node, addresses, "[collector.addresses]"))
            return
        patience = REFRESH_S if self._fits(node, addresses) else RETRY_S
        known = self._known.get(node)
        if known is None or self._clock() - known.at >= patience:
            await self._look_up(node, patience)
        if not self._fits(node, addresses):
            raise self._refusal(node, addresses)

    def close(self) -> None:
        """Ask nobody any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _fits(self, node: str, addresses: list[Address]) -> bool:
        known = self._known.get(node)
        if known is None or not addresses:
            return False
        here = any(one.is_loopback for one in known.addresses)
        return all(one in known.addresses or (here and is_own(one)) for one in addresses)

    async def _look_up(self, node: str, patience: float) -> None:
        """One lookup per node at a time; others that want the same wait for it."""
        lookup = self._lookups.get(node)
        if lookup is None:
            loop = asyncio.get_running_loop()
            lookup = loop.run_in_executor(self._threads, self._learn, node, patience)
            self._lookups[node] = lookup
            lookup.add_done_callback(lambda _done: self._lookups.pop(node, None))
        try:
            await asyncio.wait_for(asyncio.shield(lookup), LOOKUP_S)
        except TimeoutError:
            self._problem = f"no answer about {node}'s address within {LOOKUP_S:.0f} s"

    def _learn(self, node: str, patience: float) -> None:
        """In a thread: Slurm's word, unless it is younger than `patience`, then the resolver's."""
        with self._turn:
            now = self._clock()
            if now - self._asked_at >= RETRY_S and now - self._told_at >= patience:
                self._read_slurm(now)
        names = self._slurm.get(node)
        if names is None:
            return
        found: set[Address] = set().union(*map(self._resolve, dict.fromkeys(names)))
        known = self._known.get(node)
        if found:
            self._known[node] = _Known(frozenset(found), now)
            return
        self._problem = f"{' and '.join(dict.fromkeys(names))} of node {node} cannot be resolved"
        if known is not None:  # what was known goes on for a while, without a lookup for each request
            self._known[node] = known._replace(at=now - REFRESH_S + RETRY_S)

    def _read_slurm(self, now: float) -> None:
        self._asked_at = now
        try:
            told = {node: tuple(names) for node, names in self._ask_slurm().items()}
        except SlurmError as error:
            self._problem = str(error)
            return
        self._slurm, self._told_at, self._problem = told, now, ""
        self._known = {node: known for node, known in self._known.items() if node in told}

    def _refusal(self, node: str, addresses: list[Address]) -> Exception:
        if node in self._known:
            return not_yours(_wrong(node, addresses, "NodeAddr and NodeHostName in Slurm"))
        if self._slurm and node not in self._slurm:
            return not_yours(
                f"Slurm knows no node {node}; expected a NodeName, or an entry in [collector.addresses]"
            )
        why = self._problem or "Slurm was not asked yet"
        return later(f"where node {node} is cannot be told now ({why}); send this again later", RETRY_S)


def _wrong(node: str, addresses: list[Address], where: str) -> str:
    shown = " and ".join(dict.fromkeys(map(str, addresses))) or "no address"
    return (
        f"{shown} is not {node}'s by {where}; expected its own: correct it there, or in [collector.addresses]"
    )


def _expanded(table: Mapping[str, Iterable[str]]) -> dict[str, tuple[Network, ...]]:
    return {
        node: tuple(map(ipaddress.ip_network, networks))
        for hostlist, networks in table.items()
        for node in expand(hostlist)
    }


def _within(address: Address, networks: Iterable[Network]) -> bool:
    return any(address in network for network in networks)


def address_of(text: str) -> Address | None:
    """An address without zone, and an IPv4 one that IPv6 wraps as itself; None for what is none."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def resolved(name: str) -> set[Address]:
    """All addresses of a name, or of an address itself; empty where nobody knows any."""
    numeric = address_of(name)
    if numeric is not None:
        return {numeric}
    try:
        told = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return set()
    return {found for one in told if (found := address_of(str(one[4][0]))) is not None}


def is_own(address: Address) -> bool:
    """True if the address is one of this host's: the kernel lets a socket have no other."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return not address.is_unspecified and not address.is_multicast
