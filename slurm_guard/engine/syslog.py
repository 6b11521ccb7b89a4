"""One line to the system log, without waiting for it and without failing."""

from __future__ import annotations

import os

ERROR, WARNING, NOTICE = 27, 28, 29  # facility daemon (3 * 8) + severity

_LONGEST = 900


def say(socket_path: str, text: str, level: int = WARNING) -> bool:
    """Send one line; False where there is no log or it does not take it at once."""
    import socket  # only in trouble: importing it costs milliseconds

    # A mount's or a device's name may hold whatever a terminal obeys.
    line = " ".join("".join(c if c.isprintable() else " " for c in text[:_LONGEST]).split())
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as log:
            log.setblocking(False)
            log.connect(socket_path)
            log.send(f"<{level}>sguard[{os.getpid()}]: {line}".encode("utf-8", "replace"))
    except OSError:
        return False
    return True
