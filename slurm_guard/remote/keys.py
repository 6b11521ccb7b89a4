"""The keys of the collecting host that nodes are shown."""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko
from paramiko.pkey import UnknownKeyType

from slurm_guard.core.errors import SetupError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paramiko import PKey

#: The user's own keys, as ssh itself looks for them.
_USUAL = ("id_ed25519", "id_ecdsa", "id_rsa")
_UNLOADABLE = (ValueError, TypeError, UnknownKeyType, paramiko.SSHException)


class Keys:
    """The configured key alone, else an agent's, then the user's own files."""

    def __init__(self, configured: Path | None) -> None:
        """Raises SetupError if there is no key, or the configured one cannot be used."""
        self._agent = configured is None and bool(os.environ.get("SSH_AUTH_SOCK"))
        self._files = [_loaded(configured)] if configured is not None else _own()
        with self.offered() as keys:
            if not keys:
                raise SetupError(
                    "no key to show to the nodes: no agent has one, and ~/.ssh none without a passphrase; "
                    "expected `key` in [collect], or `ssh-add`"
                )

    @contextmanager
    def offered(self) -> Iterator[list[PKey]]:
        """The keys, in the order in which they are shown, for one connection.

        An agent's key signs over a connection to the agent, which two threads must not share.
        """
        if not self._agent:
            yield self._files
            return
        try:
            agent = paramiko.Agent()
        except (paramiko.SSHException, OSError, EOFError):
            yield self._files
            return
        try:
            yield [*agent.get_keys(), *self._files]
        finally:
            agent.close()


def _own() -> list[PKey]:
    found: list[PKey] = []
    for name in _USUAL:
        try:
            found.append(paramiko.PKey.from_path(Path.home() / ".ssh" / name))
        except (OSError, *_UNLOADABLE):
            continue  # absent, or locked by a passphrase: the agent's business
    return found


def _loaded(path: Path) -> PKey:
    try:
        return paramiko.PKey.from_path(path)
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}; expected the private key that [collect] names") from None
    except _UNLOADABLE as error:
        raise SetupError(
            f"{path}: no key that can be used here ({str(error)[:120] or type(error).__name__}); expected an "
            "OpenSSH private key without a passphrase, or no `key` in [collect] and the key in an agent"
        ) from None
