"""`client.json`: what everybody on a host may know of the collector; nothing in it is secret.

The plan is root's alone. `sguard config apply` writes this file; login nodes get a copy (docs/users.md).
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_guard.core.errors import SetupError
from slurm_guard.engine import files
from slurm_guard.engine.destination import Destination

if TYPE_CHECKING:
    from slurm_guard.config.model import Collector
    from slurm_guard.core.paths import Places

SCHEMA = "1.0"
_MAJORS = ("0", "1", "2")


def path_of(places: Places) -> str:
    """Where it lies."""
    return os.path.join(places.etc, "client.json")  # noqa: PTH118 - beside Places' own


def read(places: Places) -> tuple[Destination, str] | None:
    """The collector, and how requests are signed (`munge` or `token`); None where there is no file.

    Raises SetupError for a file that cannot be used.
    """
    path = path_of(places)
    if not os.path.lexists(path):
        return None
    found = files.read_json(path)
    if found is None:
        why = "is no JSON object" if os.access(path, os.R_OK) else "may not be read by this user"
        raise SetupError(f"{path} {why}; expected what `sguard config client` prints: ask your admin")
    told, schema = found.get("collector"), str(found.get("schema"))
    if not isinstance(told, dict) or schema.partition(".")[0] not in _MAJORS or not _text(told.get("url")):
        raise SetupError(
            f"{path} (version {schema:.10}) names no collector in a way that this sguard reads; expected "
            "what `sguard config client` prints: ask your admin"
        )
    return _destination(places, told), _text(told.get("signing")) or "munge"


def _destination(places: Places, told: dict[str, Any]) -> Destination:
    uids, ca_file = told.get("uids"), _text(told.get("ca_file"))
    return Destination(
        _text(told.get("url")),
        uids=[uid for uid in uids if type(uid) is int] if isinstance(uids, list) else [],
        ca_file=places.below(ca_file) if ca_file else "",
        munge_socket=_text(told.get("munge_socket")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def write(places: Places, wanted: Collector) -> list[str]:
    """Put the file in place, or take it away where there is no collector; remarks for the admin."""
    path = Path(path_of(places))
    try:
        if not wanted.url:
            path.unlink(missing_ok=True)
            return []
        if not _is(path, data := content(wanted)):
            path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            files.write_atomic(str(path), data, mode=0o644)
            path.chmod(0o644)  # whatever the umask is
    except OSError as error:
        what = f"{path} was not written ({error.strerror}), by which users find the collector"
        return [f"{what}: as root, put there what `sguard config client` prints"]
    return _closed(path, places.below(wanted.ca_file) if wanted.ca_file else "")


def content(wanted: Collector) -> bytes:
    """Where to ask, how to sign, whose signature counts."""
    told = {
        "url": wanted.url,
        "signing": "token" if wanted.token_file else "munge",
        "uids": wanted.uids,
        "ca_file": wanted.ca_file or "",
        "munge_socket": wanted.munge_socket or "",
    }
    return json.dumps({"schema": SCHEMA, "collector": told}, indent=1).encode() + b"\n"


def _is(path: Path, data: bytes) -> bool:
    try:
        with open(path, "rb", opener=files.regular_file) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            return file.read(len(data) + 1) == data and mode == 0o644
    except OSError:
        return False


def _closed(path: Path, ca_file: str) -> list[str]:
    """What keeps users from reading it, or the file of authorities that it names."""
    found = []
    if not path.parent.stat().st_mode & stat.S_IXOTH:
        found.append(f"users cannot reach {path}: `chmod 755 {path.parent}`")
    try:
        if ca_file and not Path(ca_file).stat().st_mode & stat.S_IROTH:
            found.append(f"users cannot read {ca_file}, which they need for the collector: `chmod 644` it")
    except OSError as error:
        found.append(f"{ca_file}: {error.strerror}; users need it for the collector")
    return found
