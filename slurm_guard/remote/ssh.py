"""One SSH connection, with a deadline for each step: known host, key, one fixed command, its two streams."""

from __future__ import annotations

import logging
import socket
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import paramiko

from slurm_guard.core.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from paramiko import Channel, PKey, Transport

    from slurm_guard.remote.keys import Keys
    from slurm_guard.remote.known_hosts import KnownHosts
    from slurm_guard.remote.target import Access, Target

# What goes wrong is told by the exceptions; without a handler, logging would print paramiko's tracebacks.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


@contextmanager
def session(target: Target, access: Access, known: KnownHosts, keys: Keys) -> Iterator[Channel]:
    """A channel on which the access's command runs. Raises RemoteError for whatever keeps it from that."""
    transport = _opened(target, access, known)
    try:
        with keys.offered() as offered:
            _authenticate(transport, access, offered)
        yield _started(transport, access)
    finally:
        transport.close()


def _opened(target: Target, access: Access, known: KnownHosts) -> Transport:
    end = time.monotonic() + access.connect_s
    transport = _negotiating(_connected(target, access), access)
    try:
        wanted, options = known.algorithms(target.address, access.port), transport.get_security_options()
        usable = [one for one in wanted if one in options.key_types]
        options.key_types = (*usable, *(one for one in options.key_types if one not in usable))
        transport.start_client(timeout=max(0.1, end - time.monotonic()))
        key = transport.get_remote_server_key()
    except (paramiko.SSHException, EOFError, OSError) as error:
        transport.close()
        raise _no_ssh(error, access, late=time.monotonic() >= end) from None
    except BaseException:
        transport.close()
        raise
    try:
        known.require(target.address, access.port, key)
    except BaseException:
        transport.close()
        raise
    return transport


def _connected(target: Target, access: Access) -> socket.socket:
    try:
        return socket.create_connection((target.address, access.port), timeout=access.connect_s)
    except TimeoutError:
        remedy = "is the node up, and does a firewall let SSH through?"
        raise RemoteError(f"no connection within {access.connect_s:g} s", remedy) from None
    except socket.gaierror as error:
        remedy = "give its address in [collect.hosts], or a name that resolves"
        detail = f"it was looked for as {target.address}"
        raise RemoteError(f"the name is not known ({error.strerror})", remedy, detail) from None
    except (OSError, UnicodeError) as error:
        why = str(getattr(error, "strerror", None) or error).lower()
        raise RemoteError(f"{why}, port {access.port}", "is the node up, and does sshd run there?") from None


def _negotiating(sock: socket.socket, access: Access) -> Transport:
    try:
        transport = paramiko.Transport(sock)
    except BaseException:
        sock.close()
        raise
    transport.banner_timeout = transport.handshake_timeout = access.connect_s
    transport.auth_timeout = access.auth_s
    return transport


def _no_ssh(error: Exception, access: Access, *, late: bool) -> RemoteError:
    if late:
        return RemoteError(f"no SSH within {access.connect_s:g} s", "is the node overloaded?")
    what = _one_line(error)
    return RemoteError(f"no SSH connection ({what})", f"is it sshd that answers on port {access.port} there?")


def _authenticate(transport: Transport, access: Access, keys: list[PKey]) -> None:
    end = time.monotonic() + access.auth_s
    for key in keys:
        left = end - time.monotonic()
        if left <= 0 or not transport.is_active():
            break
        transport.auth_timeout = left
        try:
            more = transport.auth_publickey(access.user, key)
        except paramiko.BadAuthenticationType as error:
            wanted = ", ".join(map(str, error.allowed_types))[:80]
            raise RemoteError(
                f"it takes no keys, only {wanted}", "allow PubkeyAuthentication there"
            ) from None
        except (paramiko.SSHException, EOFError, OSError):
            continue
        if not more:
            return
        raise RemoteError(f"a key is not enough for it, it wants {', '.join(more)[:80]} too", _KEY_REMEDY)
    if time.monotonic() >= end:
        raise RemoteError(f"no answer to a key within {access.auth_s:g} s", "is the node overloaded?")
    raise RemoteError(f"it takes none of our keys for user {access.user}", _KEY_REMEDY)


_KEY_REMEDY = "add the collecting host's public key to that user's authorized_keys there (docs/collect.md)"


def _started(transport: Transport, access: Access) -> Channel:
    try:
        channel = transport.open_session(timeout=access.connect_s)
        channel.settimeout(access.connect_s)
        channel.exec_command(access.command)
    except (paramiko.SSHException, EOFError, OSError) as error:
        remedy = "look into sshd's log there: is that user allowed to run commands?"
        raise RemoteError(f"no command can be run there ({_one_line(error)})", remedy) from None
    return channel


class Wire:
    """The command's streams, with one deadline for all: lines and bodies of bounded size."""

    def __init__(self, channel: Channel, seconds: float) -> None:
        self._channel = channel
        self._seconds = seconds
        self._end = time.monotonic() + seconds
        self._held = bytearray()

    def line(self, longest: int) -> bytes:
        """The next line without its end; what there is of it if the stream ends, or it is longer."""
        while (at := self._held.find(b"\n")) < 0 and len(self._held) < longest:
            if not self._more():
                return self._taken(len(self._held))
        line = self._taken(at + 1 if 0 <= at <= longest else longest)
        return line.removesuffix(b"\n")

    def body(self, size: int) -> bytes:
        """So many bytes; fewer if the stream ends."""
        while len(self._held) < size and self._more():
            pass
        return self._taken(min(size, len(self._held)))

    def send(self, data: bytes) -> None:
        """Write all of it."""
        try:
            self._channel.settimeout(self._left())
            self._channel.sendall(data)
        except TimeoutError:
            raise self._late() from None
        except (OSError, EOFError, paramiko.SSHException):
            raise RemoteError("the connection broke", "collect again: nothing is lost") from None

    def complaint(self) -> str:
        """What the command said on its standard error, in one line; only what is there already."""
        said = b""
        try:
            self._channel.settimeout(1.0)
            said = self._channel.recv_stderr(2048)
        except (OSError, EOFError, paramiko.SSHException):
            pass
        return _one_line(said.decode("utf-8", "replace"))

    def _more(self) -> bool:
        try:
            self._channel.settimeout(self._left())
            found = self._channel.recv(1 << 16)
        except TimeoutError:
            raise self._late() from None
        except (OSError, EOFError, paramiko.SSHException):
            return False
        self._held += found
        return bool(found)

    def _taken(self, size: int) -> bytes:
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken

    def _left(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._late()
        return left

    def _late(self) -> RemoteError:
        return RemoteError(
            f"not all of it came within {self._seconds:g} s",
            "collect again: what came is kept, the rest is still there; or raise `transfer_s` in [collect]",
        )


def _one_line(what: object) -> str:
    text = "".join(letter if letter.isprintable() else " " for letter in str(what) or type(what).__name__)
    return " ".join(text.split())[:200]
