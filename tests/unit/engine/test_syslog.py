"""One line to the system log, whatever the text, and never a failure or a wait."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING

import pytest

from slurm_guard.engine import syslog

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prolog of job 4: SG:gpu_count.lost gpu3", "prolog of job 4: SG:gpu_count.lost gpu3"),
        ("/scratch\x1b[2J\x07\nroot logged in", "/scratch [2J root logged in"),
        ("mount \u202e/x\udce4 /数据", "mount /x /数据"),
        ("x" * 5000, "x" * 900),
    ],
)
def test_what_arrives_is_one_printable_line(
    tmp_path_factory: pytest.TempPathFactory, text: str, expected: str
) -> None:
    path = str(tmp_path_factory.mktemp("s") / "log")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
        log.bind(path)
        assert syslog.say(path, text, syslog.ERROR)
        said = log.recv(8192).decode()
    assert re.sub(r"^<27>sguard\[\d+\]: ", "", said) == expected


@pytest.mark.parametrize("missing", ["log", "x" * 200])
def test_no_log_is_no_trouble(tmp_path: Path, missing: str) -> None:
    assert not syslog.say(str(tmp_path / missing), "text")
