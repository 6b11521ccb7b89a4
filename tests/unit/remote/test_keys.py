"""Which keys are shown to nodes, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import paramiko
import pytest

from slurm_guard.core.errors import SetupError
from slurm_guard.remote.keys import Keys

KEY = paramiko.RSAKey.generate(2048)


def offered(key: Path | None) -> list[paramiko.PKey]:
    with Keys(key).offered() as keys:
        return keys


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path


def test_the_configured_key_alone_is_shown(home: Path) -> None:
    KEY.write_private_key_file(str(home / "mine"))
    (home / ".ssh").mkdir()
    KEY.write_private_key_file(str(home / ".ssh/id_rsa"))
    assert offered(home / "mine") == [KEY]


def test_else_the_user_s_own_that_can_be_read(home: Path) -> None:
    (home / ".ssh").mkdir()
    KEY.write_private_key_file(str(home / ".ssh/id_rsa"))
    (home / ".ssh/id_ed25519").write_text("damaged")
    assert offered(None) == [KEY]


def test_no_key_is_said(home: Path) -> None:
    with pytest.raises(SetupError, match=r"no key to show .*`ssh-add`"):
        offered(None)


@pytest.mark.parametrize("content", [None, b"", b"damaged", "locked"])
def test_a_configured_key_that_cannot_be_used_is_said(home: Path, content: bytes | str | None) -> None:
    path = home / "mine"
    if content == "locked":
        KEY.write_private_key_file(str(path), password="secret")
    elif isinstance(content, bytes):
        path.write_bytes(content)
    with pytest.raises(SetupError, match=rf"{path}: .*; expected "):
        offered(path)


# paramiko leaves a socket that could not be connected to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("there", [False, True])
def test_an_agent_that_does_not_answer_leaves_the_files(
    home: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    if there:
        (home / "agent").touch()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(home / "agent"))
    (home / ".ssh").mkdir()
    KEY.write_private_key_file(str(home / ".ssh/id_rsa"))
    assert offered(None) == [KEY]
