"""Which host keys count. The files are small; the keys are made here."""

from __future__ import annotations

import base64
from pathlib import Path

import paramiko
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.errors import RemoteError, SetupError
from slurm_guard.remote.known_hosts import KnownHosts


def new_key() -> paramiko.PKey:
    line = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return paramiko.Ed25519Key(data=base64.b64decode(line.split()[1]))


MINE, OTHER = new_key(), new_key()
RSA = paramiko.RSAKey.generate(2048)


def line(host: str, key: paramiko.PKey = MINE) -> str:
    return f"{host} {key.get_name()} {key.get_base64()}\n"


def known(tmp_path: Path, *lines: str) -> KnownHosts:
    (tmp_path / "known_hosts").write_text("".join(lines))
    return KnownHosts([tmp_path / "none", tmp_path / "known_hosts"])


HASHED = paramiko.HostKeys.hash_host("n1")

# name: (lines, port, expected: "" or a part of why not)
CASES: dict[str, tuple[list[str], int, str]] = {
    "known": ([line("n1")], 22, ""),
    "one of several names": ([line("a,n1,b")], 22, ""),
    "in capitals": ([line("N1")], 22, ""),
    "hashed": ([line(HASHED)], 22, ""),
    "another port": ([line("[n1]:2222")], 2222, ""),
    "the usual port's key is not another port's": ([line("n1")], 2222, "not known"),
    "second key of a type": ([line("n1", OTHER), line("n1")], 22, ""),
    "unknown": ([line("n2")], 22, "not known"),
    "a longer name": ([line("n11")], 22, "not known"),
    "patterns do not count": ([line("n*")], 22, "not known"),
    "changed": ([line("n1", OTHER)], 22, "has changed"),
    "another type": ([line("n1", RSA)], 22, "of type ssh-ed25519, of which none is known"),
    "revoked": ([line("n1"), f"@revoked {line('*')}"], 22, "is revoked"),
    "another one is revoked": ([f"@revoked {line('*', OTHER)}", line("n1")], 22, ""),
    "an authority": ([f"@cert-authority {line('n1')}"], 22, "not known"),
    "comments and damage": (["# n1\n", "\n", "n1 ssh-ed25519\n", "n1 ssh-ed25519 A\n"], 22, "not known"),
}


@pytest.mark.parametrize("name", CASES)
def test_only_a_known_key_counts(tmp_path: Path, name: str) -> None:
    lines, port, expected = CASES[name]
    hosts = known(tmp_path, *lines)
    if not expected:
        hosts.require("n1", port, MINE)
        return
    with pytest.raises(RemoteError, match=expected) as caught:
        hosts.require("n1", port, MINE)
    assert caught.value.remedy
    assert MINE.fingerprint in caught.value.detail


def test_a_host_is_asked_for_the_keys_that_are_known_of_it(tmp_path: Path) -> None:
    hosts = known(tmp_path, line("n1", RSA), line("n1"))
    assert hosts.algorithms("n1", 22) == ["rsa-sha2-512", "rsa-sha2-256", "ssh-ed25519"]
    assert hosts.algorithms("n2", 22) == []


def test_no_file_at_all_is_said(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"no host is known: there is no .*known_hosts.*`known_hosts` in"):
        KnownHosts([tmp_path / "known_hosts"])


@given(st.lists(st.text(max_size=60), max_size=5), st.binary(max_size=80))
def test_whatever_a_file_holds_no_key_is_known_by_it(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], noise: bytes
) -> None:
    path = tmp_path_factory.mktemp("hosts") / "known_hosts"
    path.write_bytes("\n".join(lines).encode("utf-8", "replace") + b"\nn1 ssh-ed25519 " + noise)
    with pytest.raises(RemoteError, match="not known"):
        KnownHosts([path]).require("n1", 22, MINE)
