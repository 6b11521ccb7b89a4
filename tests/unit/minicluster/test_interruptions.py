"""A command that is cut short, or meets a full disk, leaves a machine that the next one makes good."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from minicluster import clock, hungfs, simulated
from minicluster.errors import MiniclusterError
from minicluster.files import locked
from minicluster.simulated import SimulatedMachine

from .test_faults import CLOCK, changes, text, tree

if TYPE_CHECKING:
    from pathlib import Path


def test_a_fault_that_was_cut_short_can_be_cleared(
    machine: SimulatedMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = tree(machine.root)

    def update_half(root: Path, old: dict[str, bytes | str], new: dict[str, bytes | str]) -> None:
        (differs, *_) = sorted(path for path in new if new[path] != old.get(path))
        content = new[differs]
        assert isinstance(content, bytes)
        (root / differs).write_bytes(content)
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(simulated, "update", update_half)
        with pytest.raises(OSError, match="No space"):
            machine.fault("ib_link.rate", "mlx5_2/1")
    assert changes(before, tree(machine.root)) != set()
    machine.clear()
    assert tree(machine.root) == before


def test_a_machine_whose_making_was_cut_short_says_so(tmp_path: Path) -> None:
    machine = SimulatedMachine(tmp_path, "n1")
    for act in (machine.faults, machine.clear, machine.reboot, lambda: machine.kernel_says("hello")):
        with pytest.raises(MiniclusterError, match=r"no machine of n1 in .*cut short"):
            act()
    machine.free_mounts()  # and there is nothing to free


def test_the_clock_leaves_a_machine_alone_that_changes_just_now(machine: SimulatedMachine) -> None:
    (machine.root / CLOCK).write_text("1.00 1.00\n")
    with locked(clock.lock_of(machine.state_path)):
        clock.tick(machine.root.parent.parent)
        assert text(machine, CLOCK) == "1.00 1.00"
    clock.tick(machine.root.parent.parent)
    assert float(text(machine, CLOCK).split()[0]) > 86400


def test_the_clock_goes_on_for_the_others(machine: SimulatedMachine) -> None:
    directory = machine.root.parent.parent
    (directory / "machines/m0.json").write_text("")
    (directory / "nodes/m0/proc").mkdir(parents=True)
    (directory / "machines/gone.json").write_text(machine.state_path.read_text())
    (machine.root / CLOCK).unlink()
    clock.tick(directory)
    assert (machine.root / CLOCK).exists()
    assert not (directory / "nodes/gone").exists()


def request(opcode: int) -> bytes:
    header = hungfs.REQUEST_HEADER
    return header.pack(header.size, opcode, 7, 1, 0, 0, 0, 0)


def test_the_server_of_a_sick_mount_outlives_callers_that_leave() -> None:
    """The kernel answers ENOENT to an answer that nobody waits for any more; here the pipe answers EBADF."""
    stat_request = 3
    read_end, write_end = os.pipe()
    os.write(write_end, request(stat_request))
    os.close(write_end)
    hungfs.serve(read_end, errno.ESTALE)  # returns at the end of the pipe
    os.close(read_end)


def test_the_server_of_a_sick_mount_takes_the_next_request_after_one_that_was_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = [OSError(errno.ENOENT, ""), request(3), OSError(errno.ENODEV, "")]
    said: list[bytes] = []

    def read(device: int, size: int) -> bytes:
        answer = answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer

    monkeypatch.setattr(hungfs.os, "read", read)
    monkeypatch.setattr(hungfs.os, "write", lambda device, data: said.append(data))
    hungfs.serve(-1, errno.EIO)
    assert said == [hungfs.ANSWER_HEADER.pack(hungfs.ANSWER_HEADER.size, -errno.EIO, 7)]


@pytest.mark.parametrize("opcode", hungfs.WANT_NO_ANSWER)
def test_what_wants_no_answer_gets_none(monkeypatch: pytest.MonkeyPatch, opcode: int) -> None:
    requests = [request(opcode), b""]
    monkeypatch.setattr(hungfs.os, "read", lambda device, size: requests.pop(0))
    monkeypatch.setattr(hungfs.os, "write", lambda device, data: pytest.fail("an answer"))
    hungfs.serve(-1, errno.EIO)
