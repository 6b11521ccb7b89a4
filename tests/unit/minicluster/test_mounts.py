"""Mounts: the text that the node shows, and the real ones below it; the hanging one above all."""

from __future__ import annotations

import errno
import os
import select
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minicluster import mount_table, mounting
from minicluster.errors import MiniclusterError
from minicluster.processes import identify
from minicluster.simulated import SimulatedMachine

from .conftest import PATIENCE, HungError, in_child, until

if TYPE_CHECKING:
    from collections.abc import Callable


def entry(machine: SimulatedMachine, path: str) -> list[str]:
    """The fields of a mount in the node's mountinfo; empty if it isn't there."""
    lines = (machine.root / "proc/self/mountinfo").read_text().splitlines()
    return next((line.split() for line in lines if line.split()[4] == path), [])


def statvfs(path: Path) -> Callable[[], Any]:
    def ask() -> Any:
        try:
            return tuple(os.statvfs(path))
        except OSError as error:
            return errno.errorcode[error.errno or 0]

    return ask


def stuck_child(path: Path) -> tuple[int, int]:
    """A child that calls statvfs; its pid, and a pipe that becomes readable when that returns."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        answer = statvfs(path)()
        os.write(write_end, str(answer).encode())
        os._exit(0)
    os.close(write_end)
    return pid, read_end


def sleeps(pid: int) -> bool:
    state = Path(f"/proc/{pid}/wchan").read_text()
    return "request_wait_answer" in state or "fuse" in state


@pytest.mark.needs_root
def test_a_healthy_machine_has_its_mounts(machine: SimulatedMachine) -> None:
    for path, kind in (("/scratch", "lustre"), ("/home", "nfs4"), ("/local", "xfs")):
        fields = entry(machine, path)
        assert fields[fields.index("-") + 1] == kind
        assert [one.type for one in mounting.mounts_at(machine.root / path[1:])] == ["tmpfs"]
        assert os.statvfs(machine.root / path[1:]).f_bavail > 0
        assert (machine.root / path[1:]).stat().st_mode & 0o7777 == 0o1777


@pytest.mark.needs_root
def test_a_hung_mount_hangs_and_is_freed_by_clearing_it(machine: SimulatedMachine) -> None:
    machine.fault("fs_mounts.hung", "/scratch")
    path = machine.root / "scratch"
    assert entry(machine, "/scratch") != []
    pid, pipe = stuck_child(path)
    try:
        until(lambda: sleeps(pid))
        assert select.select([pipe], [], [], 0.3)[0] == []
        os.kill(pid, signal.SIGKILL)  # not even that helps: the kernel waits for the server's answer
        assert select.select([pipe], [], [], 0.3)[0] == []
        assert identify(pid) is not None
        machine.clear("fs_mounts")
        assert select.select([pipe], [], [], PATIENCE)[0] == [pipe]
    finally:
        machine.free_mounts()
        os.waitpid(pid, 0)
        os.close(pipe)
    assert [one.type for one in mounting.mounts_at(path)] == ["tmpfs"]
    assert in_child(statvfs(path))[0] == 4096


@pytest.mark.needs_root
def test_the_end_of_the_server_frees_it_too(machine: SimulatedMachine) -> None:
    machine.fault("fs_mounts.hung", "/home")
    record = machine.root.parent.parent / "run/hungfs.n1.home.pid"
    pid, pipe = stuck_child(machine.root / "home")
    try:
        until(lambda: sleeps(pid))
        os.kill(int(record.read_text().split()[0]), signal.SIGKILL)
        assert select.select([pipe], [], [], PATIENCE)[0] == [pipe]
        assert os.read(pipe, 100) in (b"ENOTCONN", b"ECONNABORTED")
    finally:
        machine.free_mounts()
        os.waitpid(pid, 0)
        os.close(pipe)


@pytest.mark.needs_root
def test_other_faults_do_not_touch_a_hung_mount(machine: SimulatedMachine) -> None:
    machine.fault("fs_mounts.hung", "/scratch")

    def more() -> str:
        machine.fault("fs_space.full", "/local")
        machine.fault("fs_space.full", "/scratch")
        machine.fault("fs_mounts.hung", "/scratch")
        machine.fault("gpu_pcie.width", "gpu0")
        machine.clear("fs_space")
        return "done"

    assert in_child(more) == "done"
    with pytest.raises(HungError):
        _hang(machine)


def _hang(machine: SimulatedMachine) -> None:
    pid, pipe = stuck_child(machine.root / "scratch")
    try:
        until(lambda: sleeps(pid))
        if not select.select([pipe], [], [], 0.3)[0]:
            raise HungError
    finally:
        machine.free_mounts()
        os.waitpid(pid, 0)
        os.close(pipe)


@pytest.mark.needs_root
@pytest.mark.parametrize(("name", "error"), [("fs_mounts.stale", "ESTALE"), ("fs_mounts.error", "EIO")])
def test_a_mount_that_answers_with_an_error(machine: SimulatedMachine, name: str, error: str) -> None:
    machine.fault(name, "/scratch")
    assert in_child(statvfs(machine.root / "scratch")) == error
    machine.fault("fs_mounts.hung", "/scratch")
    machine.clear("fs_mounts.hung")
    assert in_child(statvfs(machine.root / "scratch")) == error
    machine.clear()
    assert in_child(statvfs(machine.root / "scratch"))[0] == 4096


@pytest.mark.needs_root
def test_a_missing_mount_is_gone_from_text_and_kernel_and_comes_back(machine: SimulatedMachine) -> None:
    machine.fault("fs_mounts.missing", "/local")
    assert entry(machine, "/local") == []
    assert mounting.mounts_at(machine.root / "local") == []
    machine.clear()
    assert entry(machine, "/local") != []
    assert len(mounting.mounts_at(machine.root / "local")) == 1


@pytest.mark.needs_root
def test_read_only_is_real(machine: SimulatedMachine) -> None:
    machine.fault("fs_mounts.readonly", "/local")
    assert entry(machine, "/local")[5].split(",")[0] == "ro"
    with pytest.raises(OSError, match="Read-only"):
        (machine.root / "local/file").touch()
    machine.clear()
    (machine.root / "local/file").touch()
    assert entry(machine, "/local")[5].split(",")[0] == "rw"


@pytest.mark.needs_root
@pytest.mark.parametrize("percent", [50, 85, 99, 100])
def test_full_is_real(machine: SimulatedMachine, percent: int) -> None:
    (machine.root / "local/job-data").write_bytes(b"x" * 100_000)
    machine.fault("fs_space.full", "/local", percent=percent)
    usage = os.statvfs(machine.root / "local")
    assert 100 - 100 * usage.f_bavail // usage.f_blocks in (percent, percent + 1)
    machine.fault("fs_space.full", "/local", percent=10)
    usage = os.statvfs(machine.root / "local")
    assert usage.f_bavail > usage.f_blocks * 0.85
    machine.clear()
    assert [path.name for path in (machine.root / "local").iterdir()] == ["job-data"]


@pytest.mark.needs_root
@pytest.mark.parametrize("name", ["fs_space.full", "fs_space.inodes", "fs_mounts.readonly"])
def test_what_is_wrong_stays_wrong_while_other_faults_come_and_go(
    machine: SimulatedMachine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A check that looks at that very moment must not see a healthy mount."""
    machine.fault(name, "/local")
    monkeypatch.setattr(mounting, "mount", lambda *given: pytest.fail(f"mounted again: {given}"))
    monkeypatch.setattr(mount_table, "_fill", lambda *given: pytest.fail("filled again"))
    machine.fault("gpu_pcie.width", "gpu0")
    machine.clear("gpu_pcie")


@pytest.mark.needs_root
def test_no_inodes_is_real(machine: SimulatedMachine) -> None:
    machine.fault("fs_space.inodes", "/local", percent=100)
    with pytest.raises(OSError, match="No space left"):
        (machine.root / "local/one-more").touch()
    machine.fault("fs_space.inodes", "/local", percent=50)
    usage = os.statvfs(machine.root / "local")
    assert usage.f_ffree == usage.f_files - usage.f_files * 50 // 100
    machine.clear()
    (machine.root / "local/one-more").touch()


@pytest.mark.needs_root
def test_unmounting_below_ends_stacks_and_leaves_others_alone(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in/deep", tmp_path / "in-other"
    for path in (inside, outside):
        path.mkdir(parents=True)
        mounting.mount("test", path, "tmpfs", 0, "size=1m")
    mounting.mount("test", inside, "tmpfs", 0, "size=1m")
    try:
        assert mounting.unmount_below(tmp_path / "in") == []
        assert len(mounting.mounts_at(outside)) == 1
    finally:
        assert mounting.unmount_below(tmp_path) == []


def test_what_cannot_be_mounted_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(MiniclusterError, match="No such file or directory"):
        mounting.mount("test", tmp_path / "nowhere", "tmpfs")
    assert not mounting.unmount(tmp_path)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40))
def test_octal_escapes_are_undone(path: str) -> None:
    escaped = "".join(f"\\{ord(char):03o}" if char in " \t\n\\#" else char for char in path)
    assert mounting.decode(escaped) == path


@pytest.mark.needs_root
def test_a_path_with_spaces_is_found(tmp_path: Path) -> None:
    path = tmp_path / "a b\tc\\040d"
    path.mkdir()
    mounting.mount("test", path, "tmpfs", 0, "size=1m")
    try:
        assert [one.path for one in mounting.mounted_at_or_below(tmp_path)] == [str(path)]
    finally:
        assert mounting.unmount_below(tmp_path) == []


def test_without_root_mounts_are_plain_folders(
    library: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    for name in ("run", "log"):
        (tmp_path / name).mkdir()
    found = SimulatedMachine(tmp_path, "n1")
    found.create("seed", library)
    assert mounting.mounted_at_or_below(tmp_path) == []
    assert (found.root / "scratch").is_dir()
    found.fault("fs_mounts.wrong_type", "/scratch")
    with pytest.raises(MiniclusterError, match="only root can make /scratch hang, read-only or full"):
        found.fault("fs_mounts.hung", "/scratch")
    assert [one["name"] for one in found.faults()] == ["fs_mounts.wrong_type"]
