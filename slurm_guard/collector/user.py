"""Which user may run the collector: one that Slurm and munge on the nodes know by the same number."""

from __future__ import annotations

import os
import pwd

from slurm_guard.core.errors import SetupError

#: What systemd gives to services with DynamicUser=yes (systemd.exec(5)).
DYNAMIC = range(61184, 65520)


def require_lasting_user(uid: int | None = None) -> None:
    """Raise SetupError for a user that exists only while a service runs."""
    found = os.geteuid() if uid is None else uid
    if found in DYNAMIC:
        raise SetupError(
            f"uid {found} is one of systemd's dynamic users, which no node and no Slurm knows, and the store "
            "would belong to nobody after a restart; run this as SlurmUser: `User=slurm`, no DynamicUser"
        )


def note_on_signing(uids: frozenset[int], uid: int | None = None) -> str:
    """What an admin must know of who signs plans; empty if nodes will take them."""
    found = os.geteuid() if uid is None else uid
    if found == 0 or found in uids:
        return ""
    return (
        f"nodes take no plan that uid {found} signs: add it to `uids` in [collector], then run "
        "`sguard config apply` there"
    )


def note_on_owners(owners: list[str], uid: int | None = None) -> str:
    """What an admin must know of whose drains nodes take for the guard's; empty if this user's are."""
    found = os.geteuid() if uid is None else uid
    try:
        name = pwd.getpwuid(found).pw_name
    except KeyError:
        name = str(found)
    if name in owners or str(found) in owners:
        return ""
    return (
        f"nodes will not take what {name} drains for the guard's, and resume none of it: add {name} to "
        "`owners`, then run `sguard config apply`"
    )
