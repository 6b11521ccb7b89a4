"""Daemons are known by pid and start time; nothing else is ever ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from minicluster import processes
from minicluster.errors import StartError
from minicluster.processes import Identity

from .conftest import start, until


def test_a_launched_process_is_on_record_with_its_own_session_and_environment(tmp_path: Path) -> None:
    identity = start(tmp_path, "sleep", "60", environment={"MARK": "yes"})
    try:
        assert processes.read_record(tmp_path / "0.pid") == identity
        assert processes.is_alive(identity)
        assert os.getsid(identity.pid) == identity.pid
        until(lambda: Path(f"/proc/{identity.pid}/comm").read_text() == "sleep\n")
        environment = processes.environment_of(identity.pid)
        assert environment["MARK"] == "yes"
        assert set(environment) <= {"MARK", "PATH", "LANG", "HOME", "PWD", "OLDPWD", "SHLVL", "_"}
        assert Path(f"/proc/{identity.pid}/cwd").readlink() == tmp_path
    finally:
        assert processes.end([identity]) == []
    assert not processes.is_alive(identity)


def test_output_goes_to_the_log_and_input_is_empty(tmp_path: Path) -> None:
    identity = start(tmp_path, "sh", "-c", "echo out; echo err >&2; wc -c; exec sleep 60")
    try:
        until(lambda: (tmp_path / "log").read_text() == "out\nerr\n0\n")
    finally:
        processes.end([identity])


def test_a_process_that_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    identity = start(tmp_path, "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    until(lambda: (tmp_path / "log").read_text() == "ready\n")
    assert processes.end([identity], patience=0.2) == []
    assert not processes.is_alive(identity)


def test_a_paused_process_can_be_ended(tmp_path: Path) -> None:
    identity = start(tmp_path, "sleep", "60")
    processes.send(identity, signal.SIGSTOP)
    until(lambda: Path(f"/proc/{identity.pid}/stat").read_text().split()[2] == "T")
    assert processes.is_alive(identity)
    assert processes.end([identity]) == []


def test_a_recycled_pid_is_left_alone(stranger: subprocess.Popen[bytes]) -> None:
    real = processes.identify(stranger.pid)
    assert real is not None
    recycled = Identity(real.pid, real.start - 1)
    assert not processes.is_alive(recycled)
    assert not processes.send(recycled, signal.SIGKILL)
    assert processes.end([recycled]) == []
    assert stranger.poll() is None


def test_a_zombie_is_not_alive() -> None:
    process = subprocess.Popen(["true"])
    until(lambda: Path(f"/proc/{process.pid}/stat").read_text().split()[2] == "Z")
    assert processes.identify(process.pid) is None
    process.wait()


@pytest.mark.parametrize(
    "text",
    ["", "garbage", "1 (init) S\nboot\n", "12 (a) b) S 1 1\n", "1 2 3\n4 5 6\n", f"{sys.maxsize} (x) S\n\n"],
)
def test_a_torn_record_is_no_record(tmp_path: Path, text: str) -> None:
    (tmp_path / "record").write_text(text)
    assert processes.read_record(tmp_path / "record") is None
    assert processes.read_record(tmp_path / "nothing") is None


def test_a_record_of_another_boot_is_no_record(tmp_path: Path) -> None:
    identity = start(tmp_path, "sleep", "60")
    try:
        record = tmp_path / "0.pid"
        stat, _ = record.read_text().splitlines()
        record.write_text(f"{stat}\n00000000-0000-0000-0000-000000000000\n")
        assert processes.read_record(record) is None
    finally:
        processes.end([identity])


def test_a_name_with_spaces_and_brackets_is_no_trouble(tmp_path: Path) -> None:
    program = tmp_path / "a) (b"
    program.symlink_to("/bin/sleep")
    identity = start(tmp_path, str(program), "60")
    try:
        until(lambda: "a) (b" in Path(f"/proc/{identity.pid}/comm").read_text())
        assert processes.identify(identity.pid) == identity
    finally:
        processes.end([identity])


def test_a_program_that_is_not_there_ends_by_itself(tmp_path: Path) -> None:
    identity = start(tmp_path, "/nonexistent/program")
    assert processes.wait_gone([identity], 10) == []
    assert "not found" in (tmp_path / "log").read_text()


def test_a_folder_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="could not start sleep"):
        processes.launch(tmp_path / "nowhere/record", ["sleep", "60"], tmp_path / "log", tmp_path)


def test_a_daemon_does_not_inherit_ignored_signals(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        identity = start(tmp_path, "sleep", "60")
    finally:
        signal.signal(signal.SIGTERM, before)
    try:
        status = Path(f"/proc/{identity.pid}/status").read_text()
        ignored = int(next(line for line in status.splitlines() if line.startswith("SigIgn:")).split()[1], 16)
        assert [number for number in processes.DEFAULT_SIGNALS if ignored >> (number - 1) & 1] == []
    finally:
        assert processes.end([identity]) == []


@pytest.mark.parametrize("error", [StartError, KeyboardInterrupt])
def test_a_start_that_is_given_up_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    started = []

    def give_up(record: Path, pid: int, problem: str) -> Identity:
        started.append(processes.identify(pid))
        raise error

    monkeypatch.setattr(processes, "_wait_for_record", give_up)
    with pytest.raises(error):
        start(tmp_path, "sleep", "60")
    assert started[0] is not None
    assert not processes.is_alive(started[0])


def test_a_launcher_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "LAUNCH_PATIENCE", 0.0)
    monkeypatch.setattr(processes, "read_record", lambda record: None)
    with pytest.raises(StartError, match="could not start sleep: see"):
        start(tmp_path, "sleep", "60")
