"""`sguard serve`: what it says when it starts, and what keeps it from starting."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.cli.main import main

REPOSITORY = Path(__file__).resolve().parents[3]
TOKEN = "token_file = '/etc/slurm-guard/token'\n"


def configure(root: Path, text: str) -> None:
    folder = root / "etc/slurm-guard"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "slurm-guard.toml").write_text(f"cluster = 'lab'\n[collector]\n{text}")


def token(root: Path, mode: int = 0o600, text: str = "t" * 40) -> None:
    path = root / "etc/slurm-guard/token"
    path.write_text(text)
    path.chmod(mode)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def start(root: Path, *arguments: str) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "slurm_guard.cli.main", "serve", "--root", str(root), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(argv, cwd=REPOSITORY, stdout=pipe, stderr=pipe, text=True)


def first_object(process: subprocess.Popen[str]) -> dict[str, Any]:
    assert process.stdout is not None
    text = ""
    while line := process.stdout.readline():
        text += line
        try:
            found: dict[str, Any] = json.loads(text)
        except ValueError:
            continue
        return found
    raise AssertionError(text + (process.stderr.read() if process.stderr else ""))


def test_it_says_where_it_listens_and_how_requests_are_signed(tmp_path: Path) -> None:
    configure(tmp_path, TOKEN)
    token(tmp_path)
    port = free_port()
    process = start(tmp_path, "--json", "--listen", f"127.0.0.1:{port}")
    try:
        told = first_object(process)
        assert told["url"] == f"http://127.0.0.1:{port}"
        assert (told["signing"], told["cluster"], told["pid"]) == ("token", "lab", process.pid)
        assert Path(told["alive"]).exists()
        with urllib.request.urlopen(f"{told['url']}/v1/health", timeout=20) as reply:
            assert json.loads(reply.read())["ok"] is True
    finally:
        process.terminate()
        _, problems = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "not encrypted" not in problems


def test_beyond_loopback_it_says_what_that_means(tmp_path: Path) -> None:
    configure(tmp_path, f"{TOKEN}listen = '0.0.0.0:{free_port()}'\n")
    token(tmp_path)
    process = start(tmp_path)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
    finally:
        process.terminate()
        _, problems = process.communicate(timeout=60)
    assert "listening on http://0.0.0.0:" in line
    assert "requests signed with a token" in line
    assert "not encrypted" in problems
    assert "no plan at" in problems


#: What is configured, the exit code, and what is said.
WRONG: dict[str, tuple[str, int, str]] = {
    "open token": (TOKEN, 21, "may be read or written by others"),
    "no token": ("token_file = '/etc/slurm-guard/none'\n", 21, "cannot be read"),
    "unknown admin": ("admins = ['nobody-by-that-name']\n", 21, "no user nobody-by-that-name"),
    "no such address": ("listen = 'no-such-host.invalid:9427'\n", 21, "expected an address of this host"),
    "no certificate": ("certificate = '/none.pem'\nkey = '/none.key'\n", 21, "cannot be used"),
    "mistake": ("listen = 'x'\n", 11, "collector.listen"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_keeps_it_from_starting_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    text, code, words = WRONG[name]
    configure(tmp_path, text)
    token(tmp_path, mode=0o644)
    assert main(["serve", "--root", str(tmp_path)]) == code
    found = capsys.readouterr()
    assert found.out == ""
    assert words in " ".join(found.err.split())


def test_a_bad_place_on_the_command_line_is_a_mistake_of_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    configure(tmp_path, "")
    assert main(["serve", "--root", str(tmp_path), "--listen", "nowhere"]) == 2
    assert "ADDRESS:PORT" in capsys.readouterr().err
