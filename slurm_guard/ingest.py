"""Move run records from spools into the store: nothing is lost, nothing is fatal, nothing is counted twice.

A file is removed only after the commit that holds its rows is on disk; after a crash in between, its second
ingest finds the run_id and changes nothing. What is not a record is moved to `set-aside` beside the spool.
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard.core.errors import SetupError
from slurm_guard.spools import RECORD, Search
from slurm_guard.store.record import LARGEST, parse_or_error
from slurm_guard.store.writer import Aside, Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from slurm_guard.store import Store

SET_ASIDE = "set-aside"
_BATCH_FILES = 2000
_BATCH_BYTES = 16 << 20
#: One read takes nearly every record whole; what fills it is looked at more closely.
_FIRST_READ = 64 << 10
# Neither a link nor a pipe may make root read, or wait for, somebody else's file.
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass
class IngestReport:
    """What an ingest did. `set_aside` lists (file, reason); `rows` counts rows in all tables.

    `without_spool` are the given folders that hold no spool, `unread` lists (folder, reason).
    """

    ingested: int = 0
    duplicates: int = 0
    set_aside: list[tuple[str, str]] = field(default_factory=list)
    rows: int = 0
    without_spool: list[str] = field(default_factory=list)
    unread: list[tuple[str, str]] = field(default_factory=list)

    def add(self, other: IngestReport) -> None:
        """Count another report in."""
        self.ingested += other.ingested
        self.duplicates += other.duplicates
        self.set_aside += other.set_aside
        self.rows += other.rows
        self.without_spool += other.without_spool
        self.unread += other.unread


class _File:
    """One file of a batch; `problem` says why it is not a record, and `size` is 0 where that is not known."""

    __slots__ = ("content", "name", "problem", "size")

    def __init__(self, name: str, content: bytes = b"", problem: str = "", size: int = 0) -> None:
        self.name = name
        self.content = content
        self.problem = problem
        self.size = size or len(content)


def ingest_tree(store: Store, folder: str | os.PathLike[str], remove: bool = True) -> IngestReport:
    """Ingest the spools in a folder and below it; every other file is left alone (see `spools`).

    Raises SetupError if `folder` cannot be listed, StoreError if the store fails; both lose nothing.
    """
    report = IngestReport()
    writer = Writer(store)
    search = Search(Path(folder))
    spools = list(search.spools())
    for spool, only_records in spools:
        try:
            _ingest(writer, spool, report, remove, only_records, os.O_NOFOLLOW)
        except SetupError as error:
            report.unread.append((str(spool), str(error).partition(": ")[2]))
    report.unread += search.unread
    if not spools:
        report.without_spool.append(str(folder))
    return report


def ingest_folder(store: Store, folder: str | os.PathLike[str], remove: bool = True) -> IngestReport:
    """Ingest the `*.json` files of one spool. A folder that does not exist is an empty one.

    With `remove`, ingested files and duplicates are deleted after the commit, others moved to `set-aside`
    beside the folder. Raises SetupError if the folder cannot be listed, StoreError if the store fails.
    """
    report = IngestReport()
    _ingest(Writer(store), Path(folder), report, remove)
    return report


def _names(folder: Path, opened: int) -> Iterator[str]:
    """The names in a folder, read through its handle: it is the same folder, whoever moves things about."""
    try:
        with os.scandir(opened) as entries:
            for entry in entries:
                yield entry.name
    except OSError as error:
        raise _cannot_list(folder, error) from error


def _cannot_list(folder: Path, error: OSError) -> SetupError:
    return SetupError(f"{folder}: cannot be listed: {error.strerror}; expected a readable folder")


def _ingest(
    writer: Writer,
    folder: Path,
    report: IngestReport,
    remove: bool,
    only_records: bool = False,
    no_follow: int = 0,
) -> None:
    """Ingest one spool. `no_follow` is `O_NOFOLLOW` for a folder that was found, not named by a person."""
    try:
        opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | no_follow)
    except FileNotFoundError:
        return
    except OSError as error:
        raise _cannot_list(folder, error) from error
    try:
        while True:
            before = report.ingested + report.duplicates
            for batch in _batches(folder, opened, only_records):
                _ingest_batch(writer, folder, opened, batch, remove, report)
            # Listing a folder while files leave it may miss some, so look again until there is nothing new.
            if not remove or report.ingested + report.duplicates == before:
                return
    finally:
        os.close(opened)


def _batches(folder: Path, opened: int, only_records: bool) -> Iterator[list[_File]]:
    batch: list[_File] = []
    size = 0
    for name in _names(folder, opened):
        if not name.endswith(".json") or name.startswith("."):
            continue
        if only_records and RECORD.fullmatch(name) is None:
            continue
        file = _read(opened, name)
        if file is None:
            continue
        batch.append(file)
        size += len(file.content)
        if len(batch) >= _BATCH_FILES or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _read(opened: int, name: str) -> _File | None:
    """Read one file of an opened folder; None if it is gone, or a folder."""
    try:
        handle = os.open(name, _FLAGS, dir_fd=opened)
    except FileNotFoundError:
        return None
    except OSError as error:
        return _File(name, problem=f"cannot be read as a regular file: {error.strerror}")
    try:
        content = os.read(handle, _FIRST_READ)
        if 0 < len(content) < _FIRST_READ:
            return _File(name, content)
        return _read_unusual(handle, name, content)
    except IsADirectoryError:
        return None
    except OSError as error:
        return _File(name, problem=f"cannot be read: {error.strerror}")
    finally:
        os.close(handle)


def _read_unusual(handle: int, name: str, content: bytes) -> _File:
    """A file that gave nothing or a whole first read: empty, large, or not a regular file."""
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode):
        return _File(name, problem="not a regular file")
    if found.st_size > LARGEST:
        problem = f"{found.st_size} bytes, at most {LARGEST} are a record"
        return _File(name, problem=problem, size=found.st_size)
    while len(content) < found.st_size and (more := os.read(handle, found.st_size - len(content))):
        content += more
    return _File(name, content)


def _ingest_batch(
    writer: Writer, folder: Path, opened: int, batch: list[_File], remove: bool, report: IngestReport
) -> None:
    good = [file for file in batch if not file.problem]
    written = writer.write(parse_or_error(file.content) for file in good)
    for position, why in written.refused:
        good[position].problem = why
    bad = [file for file in batch if file.problem]
    _set_aside(writer, folder, bad, remove, report)
    if remove:
        for position in (*written.new, *written.duplicates):
            with suppress(OSError):
                os.unlink(good[position].name, dir_fd=opened)
    report.ingested += len(written.new)
    report.duplicates += len(written.duplicates)
    report.rows += written.rows


def _set_aside(writer: Writer, folder: Path, files: list[_File], remove: bool, report: IngestReport) -> None:
    """Note each bad file in the store first, then move it, so that a crash in between forgets nothing."""
    noted, moves = [], []
    for file in files:
        source = folder / file.name
        target = _free_name(folder, file) if remove else None
        noted.append(Aside(str(folder), file.name, _digest(file), file.size, file.problem, str(target or "")))
        moves.append((source, target))
        report.set_aside.append((str(source), file.problem))
    writer.note_aside(noted, round(time.time() * 1000))
    for source, target in moves:
        if target is not None:
            _move(source, target)


def _digest(file: _File) -> str:
    """Tells two bad files of one name apart; a file that was not read is known by name and size."""
    return hashlib.sha256(file.content).hexdigest()[:32] if file.content else f"unread:{file.size}"


def _free_name(folder: Path, file: _File) -> Path:
    """A name in `set-aside` that no other file has: different content never overwrites."""
    source, target = folder / file.name, folder.parent / SET_ASIDE
    wanted = target / file.name
    number = 0
    while os.path.lexists(wanted) and not _is_same(source, wanted):
        number += 1
        wanted = target / f"{file.name}.{number}"
    return wanted


def _is_same(one: Path, other: Path) -> bool:
    """True if both names are links to one file, as when another ingest is about to remove the first."""
    try:
        return os.path.samestat(one.lstat(), other.lstat())
    except OSError:
        return False


def _move(source: Path, target: Path) -> None:
    """Move within the file system; where that fails, into a hidden folder of the spool, else leave it."""
    for place in (target, source.parent / f".{SET_ASIDE}" / target.name):
        try:
            place.parent.mkdir(mode=0o700, exist_ok=True)
            _link_and_remove(source, place)
            return
        except FileNotFoundError:
            if not os.path.lexists(source):
                return
        except OSError:
            continue


def _link_and_remove(source: Path, target: Path) -> None:
    """A move that never replaces a file, unlike rename; file systems without hard links get the rename."""
    try:
        os.link(source, target, follow_symlinks=False)
    except FileExistsError:
        if not _is_same(source, target):
            raise
    except PermissionError:
        source.rename(target)
        return
    source.unlink(missing_ok=True)
