"""Host keys that the admin knows. Nothing is ever added: an unknown host, or a changed one, is refused."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from paramiko.hostkeys import HostKeyEntry, HostKeys, InvalidHostKey
from paramiko.ssh_exception import SSHException

from slurm_guard.core.errors import RemoteError, SetupError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from paramiko.pkey import PKey

_SSH_PORT = 22
_HASHED = "|1|"
#: How SSH's opening names the algorithms that go with a key's own type.
_ALGORITHMS = {"ssh-rsa": ("rsa-sha2-512", "rsa-sha2-256")}


class KnownHosts:
    """The keys of some known_hosts files, by host: several of one type are all good.

    Lines with `@cert-authority` or patterns count for nothing here, and neither do lines that cannot be read.
    """

    def __init__(self, files: Iterable[Path]) -> None:
        """Read the files. Raises SetupError if none of them is there, or one cannot be read."""
        self._plain: dict[str, list[PKey]] = {}
        self._hashed: list[tuple[str, PKey]] = []
        self._revoked: set[str] = set()
        named = list(files)
        self.files = [path for path in named if path.exists()]
        if not self.files:
            raise SetupError(
                f"no host is known: there is no {' and no '.join(map(str, named))}; expected the nodes' host "
                "keys there (`ssh-keyscan`, then compare the fingerprints), or `known_hosts` in [collect]"
            )
        for path in self.files:
            try:
                lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError as error:
                raise SetupError(f"{path}: cannot be read: {error.strerror}; expected host keys") from None
            for line in lines:
                self._take(line.strip())

    def _take(self, line: str) -> None:
        if not line or line.startswith("#"):
            return
        if line.startswith("@"):
            words = line.split()
            if words[0] == "@revoked" and len(words) > 3:
                self._revoked.add(words[3])  # whichever hosts the line names
            return
        try:
            entry = HostKeyEntry.from_line(line)
        except (InvalidHostKey, SSHException, ValueError):
            return
        for name in entry.hostnames if entry is not None else ():
            if name.startswith(_HASHED):
                self._hashed.append((name, entry.key))
            else:
                self._plain.setdefault(name.lower(), []).append(entry.key)

    def _of(self, name: str) -> list[PKey]:
        hashed = (key for salted, key in self._hashed if _is_hash_of(salted, name))
        return [*self._plain.get(name, ()), *hashed]

    def algorithms(self, address: str, port: int) -> list[str]:
        """The algorithms of the keys that are known of a host: those the host is to be asked for first."""
        kinds = dict.fromkeys(key.get_name() for key in self._of(_name(address, port)))
        return [algorithm for kind in kinds for algorithm in _ALGORITHMS.get(kind, (kind,))]

    def require(self, address: str, port: int, key: PKey) -> None:
        """Raise RemoteError unless this key is known to be that host's."""
        name, kind, print_ = _name(address, port), key.get_name(), key.fingerprint
        detail = f"{name} shows {kind} {print_}"
        if key.get_base64() in self._revoked:
            raise RemoteError("its host key is revoked", "give the node new host keys", detail)
        known = self._of(name)
        if not known:
            remedy = "compare the key with the node's own (/etc/ssh/*.pub there), then add it to that file"
            raise RemoteError(f"its host key is not known in {self._shown()}", remedy, detail)
        if all(one.get_name() != kind for one in known):
            remedy = "compare that key with the node's own, then add it to the known_hosts file"
            raise RemoteError(f"it shows a host key of type {kind}, of which none is known", remedy, detail)
        if key not in known:
            remedy = (
                "was the node installed anew? Compare the key with the node's own and replace the old line; "
                "if nobody did that, somebody else answers in its place"
            )
            raise RemoteError("its host key has changed", remedy, detail)

    def _shown(self) -> str:
        return " or ".join(map(str, self.files))


def _name(address: str, port: int) -> str:
    """How known_hosts files name a host; names have no case."""
    address = address.lower()
    return address if port == _SSH_PORT else f"[{address}]:{port}"


def _is_hash_of(salted: str, name: str) -> bool:
    try:
        return hmac.compare_digest(HostKeys.hash_host(name, salted), salted)
    except (ValueError, TypeError, AssertionError):
        return False
