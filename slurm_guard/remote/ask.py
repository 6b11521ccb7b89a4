"""One command on one node, to its end: what it said, and its exit status."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import paramiko

from slurm_guard.core.errors import RemoteError
from slurm_guard.remote.keys import Keys
from slurm_guard.remote.known_hosts import KnownHosts
from slurm_guard.remote.ssh import session
from slurm_guard.slurm.command import Reply

if TYPE_CHECKING:
    from paramiko import Channel

    from slurm_guard.remote.target import Access, Target

#: The answer of all checks is some 10 KB.
_LARGEST = 4 << 20
_MOST_COMPLAINT = 4096


def ask(target: Target, access: Access) -> Reply:
    """Run `access.command` there and read its answer, within `access.transfer_s`.

    Raises RemoteError: no way there, more than 4 MiB, or not in time. A connection that breaks in the middle
    gives what came, with status -1: half an answer is no answer.
    """
    with session(target, access, KnownHosts(access.known_hosts), Keys(access.key)) as channel:
        end = time.monotonic() + access.transfer_s
        try:
            output = _read(channel, end)
            problem = channel.recv_stderr(_MOST_COMPLAINT) if channel.recv_stderr_ready() else b""
            channel.status_event.wait(max(0.1, end - time.monotonic()))
        except TimeoutError:
            raise RemoteError(
                f"no answer within {access.transfer_s:g} s", "look at that node: does a check hang there?"
            ) from None
        except (OSError, EOFError, paramiko.SSHException) as error:
            raise RemoteError(f"the connection broke ({type(error).__name__})", "try again") from None
        return Reply(channel.exit_status, output, problem.decode("utf-8", "replace").strip())


def _read(channel: Channel, end: float) -> bytes:
    found = bytearray()
    while True:
        left = end - time.monotonic()
        if left <= 0:
            raise TimeoutError
        channel.settimeout(left)
        part = channel.recv(1 << 16)
        if not part:
            return bytes(found)
        found += part
        if len(found) > _LARGEST:
            raise RemoteError(f"it said more than {_LARGEST} bytes", "look at what runs there by SSH")
