"""Running a program: the deadline holds, the whole group dies, nothing waits for what does not die."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from slurm_guard.core.errors import SlurmError, SlurmUnreachableError
from slurm_guard.slurm import command

LONG = 60.0


def program(folder: Path, script: str) -> list[str]:
    path = folder / "sinfo"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return [str(path)]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pid: int) -> None:
    end = time.monotonic() + LONG
    while is_alive(pid):
        assert time.monotonic() < end, f"process {pid} is still there"
        time.sleep(0.005)


def pid_in(path: Path) -> int:
    end = time.monotonic() + LONG
    while not path.exists() or not path.read_text().endswith("\n"):
        assert time.monotonic() < end, f"{path} was never written"
        time.sleep(0.005)
    return int(path.read_text())


def test_output_problem_and_status(tmp_path: Path) -> None:
    reply = command.run(program(tmp_path, "echo out; echo trouble >&2; exit 3"), "", LONG)
    assert (reply.status, reply.output, reply.problem) == (3, b"out\n", "trouble")


def test_arguments_are_never_read_by_a_shell(tmp_path: Path) -> None:
    argv = program(tmp_path, 'printf "%s\\n" "$@"')
    reply = command.run([*argv, "$(id)", "a b", "`x`;", ""], "", LONG)
    assert reply.output == b"$(id)\na b\n`x`;\n\n"


def test_the_environment_is_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_CONF", "/somebody/elses")
    monkeypatch.setenv("SINFO_FORMAT", "%n")
    reply = command.run(program(tmp_path, "exec /usr/bin/env"), "/etc/here.conf", LONG)
    told = dict(line.split("=", 1) for line in reply.output.decode().splitlines())
    told = {key: value for key, value in told.items() if key not in ("PWD", "SHLVL", "_", "OLDPWD")}
    assert told == {
        "SLURM_CONF": "/etc/here.conf",
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "LC_ALL": "C",
        "TZ": "UTC",
    }


def test_at_the_deadline_the_whole_group_is_killed(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    argv = program(tmp_path, f"sleep 300 &\necho $! > {inner}\nwait")
    with pytest.raises(SlurmUnreachableError, match=r"sinfo gave no answer within 0\.3 s"):
        command.run(argv, "", 0.3)
    wait_until_gone(pid_in(inner))


def test_a_child_that_holds_the_pipe_is_not_waited_for(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    argv = program(tmp_path, f"setsid sleep 300 &\necho $! > {inner}\necho answer")
    try:
        assert command.run(argv, "", LONG).output == b"answer\n"
    finally:
        os.kill(pid_in(inner), signal.SIGKILL)


def test_what_does_not_die_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a program in state D: no signal helps, and the hook goes on."""
    monkeypatch.setattr(command.os, "killpg", lambda *_: None)
    with pytest.raises(SlurmUnreachableError):
        command.run(program(tmp_path, "exec sleep 300"), "", 0.05)
    (left,) = command._left_behind
    assert is_alive(left.pid)
    left.kill()
    wait_until_gone(left.pid)
    command.run(program(tmp_path, "true"), "", LONG)
    assert not command._left_behind


def test_an_endless_answer_is_cut_off(tmp_path: Path) -> None:
    with pytest.raises(SlurmError, match="more than 100000 bytes"):
        command.run(program(tmp_path, "exec yes"), "", LONG, largest=100_000)


def test_a_large_answer_is_read_whole(tmp_path: Path) -> None:
    reply = command.run(program(tmp_path, "head -c 3000000 /dev/zero; echo done >&2"), "", LONG)
    assert (len(reply.output), reply.problem) == (3_000_000, "done")


def test_a_program_that_closes_its_output_and_stays_is_killed(tmp_path: Path) -> None:
    with pytest.raises(SlurmUnreachableError):
        command.run(program(tmp_path, "exec >&- 2>&-\nexec sleep 300"), "", 0.2)


def test_a_missing_program_is_unreachable_and_a_relative_path_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SlurmUnreachableError, match=r"slurm\.programs"):
        command.run([str(tmp_path / "nothing"), "-h"], "", LONG)
    with pytest.raises(SlurmError, match="not an absolute path"):
        command.run(["sinfo"], "", LONG)
    with pytest.raises(SlurmUnreachableError):
        command.run([*program(tmp_path, "true"), "a\0b"], "", LONG)


def open_descriptors() -> list[str]:
    return sorted(path.name for path in Path("/proc/self/fd").iterdir())


def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    argv = program(tmp_path, "echo x")
    command.run(argv, "", LONG)
    before = open_descriptors()
    for _ in range(5):
        command.run(argv, "", LONG)
    assert open_descriptors() == before


def test_what_an_ended_program_leaves_in_its_group_ends_too(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    argv = program(tmp_path, f"sleep 300 > /dev/null 2>&1 &\necho $! > {inner}\necho answer")
    assert command.run(argv, "", LONG).output == b"answer\n"
    wait_until_gone(pid_in(inner))
