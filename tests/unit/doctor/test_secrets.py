"""Secrets that others can read are told, with what to do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurm_guard.doctor import secrets
from slurm_guard.doctor.examine import EXAMINATIONS
from tests.unit.doctor.sites import site, told

COLLECTOR = "[collector]\nurl = 'http://head1:9427'\n"
TOKEN = f"{COLLECTOR}token_file = '/etc/slurm-guard/token'\n"


def secret(path: Path, mode: int, text: str = "s" * 40) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


@pytest.mark.parametrize(
    ("mode", "text", "words"),
    [
        (0o600, "s" * 40, ""),
        (0o400, "s" * 40, ""),
        (0o644, "s" * 40, "open to everybody (mode 0644)"),
        (0o640, "s" * 40, "open to group 0 (mode 0640)"),
        (0o602, "s" * 40, "open to everybody (mode 0602)"),
        (0o600, "short", "holds 5 bytes"),
    ],
)
def test_a_token_is_its_owners_alone_and_long(tmp_path: Path, mode: int, text: str, words: str) -> None:
    subject = site(tmp_path, config=TOKEN)
    secret(tmp_path / "etc/slurm-guard/token", mode, text)
    found = told(secrets.examine, subject)
    assert len(found) == bool(words)
    assert all(status == "fail" and words in what for status, what in found)


def test_a_token_that_is_missing_is_told(tmp_path: Path) -> None:
    ((status, what),) = told(secrets.examine, site(tmp_path, config=TOKEN))
    assert (status, "is not there" in what) == ("fail", True)


def test_no_pipe_is_a_token(tmp_path: Path) -> None:

    subject = site(tmp_path, config=TOKEN)
    os.mkfifo(tmp_path / "etc/slurm-guard/token", 0o600)
    ((_, what),) = told(secrets.examine, subject)
    assert "no regular file" in what


def test_the_key_of_the_certificate(tmp_path: Path) -> None:
    config = f"{COLLECTOR}certificate = '/etc/slurm-guard/c.pem'\nkey = '/etc/slurm-guard/k.pem'\n"
    subject = site(tmp_path, config=config)
    assert told(secrets.examine, subject) == []
    secret(tmp_path / "etc/slurm-guard/k.pem", 0o644)
    ((_, what),) = told(secrets.examine, subject)
    assert "key of the collector's certificate" in what
    assert "open to everybody" in what


def test_munges_key_matters_where_munge_signs(tmp_path: Path) -> None:
    secret(tmp_path / "etc/munge/munge.key", 0o644)
    assert told(secrets.examine, site(tmp_path)) == []
    ((_, what),) = told(secrets.examine, site(tmp_path, config=COLLECTOR))
    assert "munge's key" in what


def test_the_doctor_looks_at_secrets() -> None:
    assert (secrets.TOPIC, secrets.examine) in EXAMINATIONS


def test_the_key_that_opens_every_node(tmp_path: Path) -> None:
    subject = site(tmp_path, config="[collect]\nkey = '/etc/slurm-guard/collect'\n")
    assert told(secrets.examine, subject) == []
    secret(tmp_path / "etc/slurm-guard/collect", 0o644)
    ((status, what),) = told(secrets.examine, subject)
    assert (status, "`sguard collect`" in what, "open to everybody" in what) == ("fail", True, True)


def test_a_folder_on_the_way_in_which_others_may_write_is_told(tmp_path: Path) -> None:
    """The token is closed; what lies in its place tomorrow may be somebody else's."""
    subject = site(tmp_path, config=TOKEN)
    secret(tmp_path / "etc/slurm-guard/token", 0o600)
    folder = tmp_path / "etc/slurm-guard"
    for mode, weak in ((0o777, True), (0o775, True), (0o1777, False), (0o755, False)):
        folder.chmod(mode)
        found = told(secrets.examine, subject)
        assert [status for status, _ in found] == ["fail"] * weak
        assert all(f"can be replaced: {folder} is writable by others" in what for _, what in found)


def test_a_folder_of_somebody_else_on_the_way_is_told(tmp_path: Path) -> None:
    subject = site(tmp_path, config=TOKEN)
    secret(tmp_path / "etc/slurm-guard/token", 0o600)
    os.chown(tmp_path / "etc/slurm-guard", 65534, 0)
    ((_, what),) = told(secrets.examine, subject)
    assert "belongs to uid 65534" in what
    os.chown(tmp_path / "etc/slurm-guard/token", 65534, 0)  # the collector's own user may own both
    assert told(secrets.examine, subject) == []
