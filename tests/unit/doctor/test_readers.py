"""Users' way to the collector is looked at where there is one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_guard.doctor import readers
from slurm_guard.doctor.examine import EXAMINATIONS
from tests.unit.doctor.sites import site, told

COLLECTOR = "[collector]\nurl = 'https://head1:9427'\nca_file = '/etc/ca.pem'\n"


def _nothing(_client: Path) -> None:
    pass


def _torn(client: Path) -> None:
    client.write_text("{")


def _another(client: Path) -> None:
    client.write_text(json.dumps({"schema": "1.0", "collector": {"url": "https://old:9427"}}))


def _closed(client: Path) -> None:
    client.chmod(0o600)


def _closed_folder(client: Path) -> None:
    client.parent.chmod(0o700)


def _closed_ca(client: Path) -> None:
    (client.parent.parent / "ca.pem").chmod(0o600)


def _no_ca(client: Path) -> None:
    (client.parent.parent / "ca.pem").unlink()


# name: what is done to it, and what is said
CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "in order": (_nothing, ""),
    "missing": (Path.unlink, ""),  # not every node is for users
    "torn": (_torn, "is no JSON object"),
    "another collector": (
        _another,
        "users are sent to https://old:9427, this host's records go to https://head1",
    ),
    "closed": (_closed, "users cannot read "),
    "closed folder": (_closed_folder, "users cannot read "),
    "closed authorities": (_closed_ca, "ca.pem"),
    "no authorities": (_no_ca, "ca.pem"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_users_need_is_looked_at(tmp_path: Path, name: str) -> None:
    change, said = CASES[name]
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/ca.pem").touch(mode=0o644)
    subject = site(tmp_path, config=COLLECTOR)
    (tmp_path / "etc/slurm-guard").chmod(0o755)
    change(tmp_path / "etc/slurm-guard/client.json")
    found = told(readers.examine, subject)
    assert [status for status, _ in found] == ["warn"] * bool(said)
    assert all(said in what for _, what in found)
    assert all(one.remedy for one in readers.examine(subject) if one.status == "warn")


def test_without_a_collector_nothing_is_looked_at(tmp_path: Path) -> None:
    assert list(readers.examine(site(tmp_path))) == []


def test_the_doctor_looks_at_it() -> None:
    assert (readers.TOPIC, readers.examine) in EXAMINATIONS
