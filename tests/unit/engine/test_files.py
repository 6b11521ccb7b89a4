"""Files that survive a kill at any write, fsync or rename; locks that end with their process."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_guard.engine import files

STEPS = ("write", "fsync", "rename")


def killed_at(step: int, work: Callable[[], None]) -> bool:
    """Run `work` in a child that is killed at its n-th write, fsync or rename; False if it ended."""
    pid = os.fork()
    if pid == 0:
        left = [step]

        def deadly(real: Callable[..., object]) -> Callable[..., object]:
            def call(*args: object, **named: object) -> object:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(*args, **named)

            return call

        for name in STEPS:
            setattr(os, name, deadly(getattr(os, name)))
        work()
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL


def test_a_kill_at_every_step_leaves_the_old_content_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for step in range(1, 40):
        files.write_json(str(path), {"value": "old"})
        if not killed_at(step, lambda: files.write_json(str(path), {"value": "new" * 50_000})):
            break
        assert files.read_json(str(path)).value in ("old", "new" * 50_000)
    assert 3 < step < 39
    assert files.read_json(str(path)).value == "new" * 50_000


def test_a_full_disk_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        files.write_json(str(tmp_path / "state.json"), {})
    assert list(tmp_path.iterdir()) == []


def test_files_of_ours_are_closed_to_others_and_follow_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("untouched")
    (tmp_path / "link.json").symlink_to(victim)
    assert files.read_json(str(tmp_path / "link.json")) is None
    files.write_json(str(tmp_path / "link.json"), {"a": 1})
    assert victim.read_text() == "untouched"
    assert (tmp_path / "link.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe", b"[" * 5000, b"7"])
def test_what_is_no_object_of_ours_is_none(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)
    assert files.read_json(str(path)) is None


def test_where_there_are_no_locks_nobody_is_said_to_hold_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else every healthcheck of such a node would be left out for the one before."""

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "lockf", no_locks)
    with pytest.raises(OSError, match="No locks"):
        files.try_lock(str(tmp_path / "healthcheck.lock"))
    with files.locked(str(tmp_path / "state.lock"), patience_s=60) as held:
        assert held


def test_a_lock_is_held_by_one_and_ends_with_its_process(tmp_path: Path) -> None:
    path = str(tmp_path / "run" / "state.lock")
    program = (
        "import sys; from slurm_guard.engine import files; d = files.try_lock(sys.argv[1]); "
        "print(d is not None, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "True\n"
        assert files.try_lock(path) is None
        with files.locked(path, patience_s=0.02) as held:
            assert not held
        holder.kill()
    with files.locked(path) as held:
        assert held
