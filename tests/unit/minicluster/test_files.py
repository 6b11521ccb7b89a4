"""Files are whole or as before, on a full disk too; locks say who is first."""

from __future__ import annotations

import resource
import signal
from typing import TYPE_CHECKING, Any

import pytest

from minicluster.files import locked, tail, write_atomically
from minicluster.machine import kmsg

from .conftest import in_child

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def on_a_full_disk(act: Callable[[], Any], limit: int = 1000) -> str:
    """The error of `act` where no file grows beyond `limit` bytes: write(2) takes what fits, then fails."""

    def limited() -> str:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            act()
        except OSError as error:
            return type(error).__name__
        return "written"

    return str(in_child(limited))


def test_a_file_that_does_not_fit_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    write_atomically(path, "old", 0o600)
    assert on_a_full_disk(lambda: write_atomically(path, "x" * 5000)) == "OSError"
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("state.json", "old")]
    write_atomically(path, "new")
    assert (path.read_text(), path.stat().st_mode & 0o777) == ("new", 0o644)


def test_a_kernel_line_that_does_not_fit_leaves_no_half_record(tmp_path: Path) -> None:
    path = tmp_path / "kmsg"
    kmsg.append(path, 0.0, [kmsg.Line("first")])
    before = path.read_bytes()
    assert on_a_full_disk(lambda: kmsg.append(path, 0.0, [kmsg.Line("x" * 5000)])) == "OSError"
    assert path.read_bytes() == before


def test_a_lock_is_held_by_one(tmp_path: Path) -> None:
    with locked(tmp_path / "lock") as first, locked(tmp_path / "lock", wait=False) as second:
        assert (first, second) == (True, False)
    with locked(tmp_path / "lock", wait=False) as third:
        assert third


@pytest.mark.parametrize(("text", "wanted"), [("a\nb\nc\n", "b\nc"), ("", "")])
def test_the_end_of_a_log(tmp_path: Path, text: str, wanted: str) -> None:
    (tmp_path / "log").write_text(text)
    assert tail(tmp_path / "log", 2) == wanted
    assert tail(tmp_path / "nothing") == ""
