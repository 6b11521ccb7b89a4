"""The node's side of `sguard collect`, started as sshd starts it; the tests are the collecting host."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.core.paths import Places
from slurm_guard.engine import files, send, sending
from tests.unit.cli.slurm_stub import put, run_record


@contextmanager
def sender(root: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The sending side, with pipes as sshd gives it."""
    argv = [sys.executable, "-I", "-S", send.__file__, *(arguments or ("--root", str(root)))]
    with subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={}
    ) as running:
        yield running
        running.kill()


def line(running: subprocess.Popen[bytes]) -> list[str]:
    assert running.stdout is not None
    return running.stdout.readline().decode().rstrip("\n").split(" ", 1)


def batch(running: subprocess.Popen[bytes]) -> list[str]:
    """The run ids of the next batch."""
    word, numbers = line(running)
    assert word == "batch"
    count, size = map(int, numbers.split())
    assert running.stdout is not None
    lines = running.stdout.read(size).splitlines()
    assert len(lines) == count
    return [json.loads(one)["run_id"] for one in lines]


def answer(running: subprocess.Popen[bytes], content: Any) -> None:
    assert running.stdin is not None
    running.stdin.write(json.dumps(content).encode() + b"\n")
    running.stdin.flush()


def waiting(root: Path) -> list[str]:
    """Run ids in the spool."""
    folder = root / "var/lib/slurm-guard/spool"
    return sorted(path.stem.rpartition("-")[2] for path in folder.glob("*.json")) if folder.exists() else []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc/slurm-guard").mkdir(parents=True)
    (tmp_path / "etc/slurm-guard/node.json").write_text('{"node": "n7"}')
    return tmp_path


def test_only_what_was_acknowledged_is_removed(root: Path) -> None:
    records = [run_record("n7") for _ in range(4)]
    put(root, *records)
    one, two, three, four = (record["run_id"] for record in records)
    with sender(root) as running:
        word, greeting = line(running)
        assert word == sending.GREETING
        assert json.loads(greeting) == {"v": 1, "node": "n7", "waiting": 4}
        assert batch(running) == [one, two, three, four]
        assert waiting(root) == sorted([one, two, three, four])
        refused = [{"run_id": two, "why": "no\ntable"}, {"line": 3, "run_id": None, "why": "torn"}]
        answer(running, {"acknowledged": [one, "ff" * 16, 7], "refused": [*refused, {"line": 99}, "x"]})
        assert line(running) == ["end", "1"]
        assert running.wait(30) == 0
    assert waiting(root) == [four]
    aside = {path.name[19:51]: path.read_text() for path in root.glob("var/lib/slurm-guard/set-aside/*.why")}
    assert aside == {two: "no table\n", three: "torn\n"}


@pytest.mark.parametrize(
    "ends", [b"", b'{"acknowledged": ["', b"no JSON\n", b"[]\n", b'{"acknowledged": 1}\n']
)
def test_without_a_whole_answer_nothing_is_removed(root: Path, ends: bytes) -> None:
    record = run_record("n7")
    put(root, record)
    with sender(root) as running:
        line(running)
        batch(running)
        out, _ = running.communicate(ends, timeout=30)
        assert running.returncode == 1
    assert waiting(root) == [record["run_id"]]
    assert out == b"" or out.startswith(b"error ")


def test_a_collecting_host_that_leaves_at_once_ends_it(root: Path) -> None:
    put(root, *(run_record("n7") for _ in range(500)))
    with sender(root) as running:
        assert running.stdout is not None
        assert running.stdin is not None
        running.stdout.close()
        running.stdin.close()
        assert running.wait(30) == 1
    assert len(waiting(root)) == 500


def test_an_empty_spool_and_none_are_an_end(root: Path) -> None:
    for _ in range(2):
        with sender(root) as running:
            out, _ = running.communicate(timeout=30)
            assert (running.returncode, out.splitlines()[1:]) == (0, [b"end 0"])
        (root / "var/lib/slurm-guard/spool").mkdir(parents=True, exist_ok=True)


def test_another_shipment_is_not_met(root: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Record locks are a process's own, so another process tries."""
    put(root, run_record("n7"))
    held = files.try_lock(Places(str(root)).lock("ship"))
    assert held is not None
    program = (
        "import sys; from slurm_guard.engine import sending; sending.PATIENCE_S = 0; "
        "sys.exit(sending.main(['--root', sys.argv[1]], sys.stdin.buffer, sys.stdout.buffer))"
    )
    done = subprocess.run([sys.executable, "-c", program, root], capture_output=True, text=True, check=False)
    os.close(held)
    assert (done.returncode, done.stdout.split(";")[0]) == (
        1,
        "error another shipment of this node is under way",
    )


def test_an_other_side_that_hangs_ends_it_whatever_started_it_ignores(root: Path) -> None:
    record = run_record("n7")
    put(root, record)
    program = (
        "import signal, sys; from slurm_guard.engine import sending; sending.STEP_S = 1; "
        "signal.signal(signal.SIGALRM, signal.SIG_IGN); "
        "sys.exit(sending.main(['--root', sys.argv[1]], sys.stdin.buffer, sys.stdout.buffer))"
    )
    argv = [sys.executable, "-c", program, str(root)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        try:
            line(running)
            batch(running)
            assert running.wait(30) == -signal.SIGALRM
        finally:
            running.kill()
    assert waiting(root) == [record["run_id"]]


def test_a_spool_that_cannot_be_read_is_not_an_empty_one(root: Path) -> None:
    (root / "var/lib/slurm-guard").mkdir(parents=True)
    (root / "var/lib/slurm-guard/spool").write_text("not a folder")
    with sender(root) as running:
        out, _ = running.communicate(timeout=30)
        assert (running.returncode, out.startswith(b"error NotADirectoryError: ")) == (1, True)


@pytest.mark.parametrize("arguments", [("--rot", "/"), ("--root",), ("x",)])
def test_unknown_arguments_are_an_error(root: Path, arguments: tuple[str, ...]) -> None:
    with sender(root, *arguments) as running:
        out, _ = running.communicate(timeout=30)
        assert (running.returncode, out.startswith(b"error unknown arguments")) == (1, True)


def test_the_name_is_node_json_s_else_the_one_that_hooks_sent_as_else_the_host_s(tmp_path: Path) -> None:
    places = Places(str(tmp_path))
    assert sending.node_name(places) == os.uname().nodename.partition(".")[0]
    files.make_folder(places.run)
    files.write_json(os.path.join(places.run, "ship.json"), {"node": "n3"})
    assert sending.node_name(places) == "n3"
