"""One transaction for many requests: nonces, records, who was heard, and what the collector takes over."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from slurm_guard.collector.answers import RefusalError, later
from slurm_guard.core.errors import StoreError
from slurm_guard.store import nonces, senders
from slurm_guard.store.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable

    from sqlalchemy import Connection

    from slurm_guard.store import Store
    from slurm_guard.store.record import Record

    #: Called within the transaction with a sender's acknowledged records (new ones and duplicates); returns
    #: the run ids whose drain requests the collector takes over. A record may come again, and must get the
    #: same answer.
    TakeOver = Callable[[Connection, "Request", list[Record]], list[str]]

_STORE_AGAIN_S = 30.0
#: The database has nothing against being written, only against this.
_OF_CONTENT = (sqlite3.IntegrityError, sqlite3.DataError, sqlite3.ProgrammingError, sqlite3.InterfaceError)


class Request(NamedTuple):
    """What is to be committed: a nonce, and records of a node (none: nobody was heard); `at` in ms."""

    nonce: bytes
    at: int
    node: str = ""
    cluster: str = ""
    address: str = ""
    records: tuple[Record, ...] = ()


class Taken(NamedTuple):
    """What became of the records, by position: acknowledged, refused with why; and run ids taken over."""

    acknowledged: list[int]
    refused: list[tuple[int, str]]
    takes_over: list[str]


class Committer:
    """Commits groups of requests into a store. `failing` says why the store took nothing last time, if so."""

    def __init__(self, store: Store, take_over: TakeOver | None = None) -> None:
        self._store = store
        self._writer = Writer(store)
        self._take_over = take_over
        self.failing = ""

    def commit(self, requests: list[Request]) -> list[Taken | RefusalError]:
        """Commit requests together, and say of each what became of it; never raises.

        Where the store can take nothing, all are refused (503). What the store cannot take of a request's
        content is refused alone, whatever came with it.
        """
        try:
            with self._store.write() as connection:
                outcomes = self._write(connection, requests)
        except Exception as error:  # noqa: BLE001 - one request that nobody foresaw must not stop the others
            self._writer.forget()
            if isinstance(error, StoreError) and not _is_of_content(error):
                self.failing = str(error)
                why = f"the store takes nothing now ({error}); send this again later"
                return [later(why, _STORE_AGAIN_S) for _ in requests]
            if len(requests) > 1:
                return [outcome for one in requests for outcome in self.commit([one])]
            return [self._one_by_one(requests[0], error)]
        self.failing = ""
        return outcomes

    def _write(self, connection: Connection, requests: list[Request]) -> list[Taken | RefusalError]:
        fresh = [nonces.use_within(connection, one.nonce, one.node, one.at) for one in requests]
        good = [one for one, is_fresh in zip(requests, fresh, strict=True) if is_fresh]
        written = self._writer.write_within(connection, (record for one in good for record in one.records))
        senders.note(connection, [_heard(one) for one in good if one.node])
        whys = dict(written.refused)
        outcomes: list[Taken | RefusalError] = []
        start = 0
        for one, is_fresh in zip(requests, fresh, strict=True):
            if not is_fresh:
                why = "the nonce was used before; expected a fresh one for each attempt"
                outcomes.append(RefusalError(409, why))
                continue
            here = range(len(one.records))
            kept = [index for index in here if start + index not in whys]
            refused = [(index, whys[start + index]) for index in here if start + index in whys]
            outcomes.append(Taken(kept, refused, self._taken_over(connection, one, kept)))
            start += len(one.records)
        return outcomes

    def _taken_over(self, connection: Connection, request: Request, kept: list[int]) -> list[str]:
        if self._take_over is None or not kept:
            return []
        return self._take_over(connection, request, [request.records[index] for index in kept])

    def _one_by_one(self, request: Request, first: Exception) -> Taken | RefusalError:
        """The records of a request that cannot be committed whole, each for itself; nothing is taken over."""
        bare = request._replace(records=())
        if not request.records:
            return RefusalError(500, f"this request cannot be stored: {_words(first)}")
        outcome = self.commit([bare])[0]
        if isinstance(outcome, RefusalError):
            return outcome
        for position, record in enumerate(request.records):
            try:
                refused = self._writer.write([record]).refused
            except Exception as error:  # noqa: BLE001 - as above
                refused = [(0, f"no table can hold it: {_words(error)}")]
            if refused:
                outcome.refused.append((position, refused[0][1]))
            else:
                outcome.acknowledged.append(position)
        return outcome


def _is_of_content(error: StoreError) -> bool:
    cause = error.__cause__
    return isinstance(getattr(cause, "orig", cause), _OF_CONTENT)


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:300]


def _heard(request: Request) -> senders.Heard:
    return senders.of_records(request.cluster, request.node, request.address, request.at, request.records)
