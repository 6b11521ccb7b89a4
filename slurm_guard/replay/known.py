"""What this version knows of faults, whoever recorded them."""

from __future__ import annotations

from slurm_guard.core import check as registry


class Known:
    """The faults of all built-in checks that cannot be flukes (`sure`), may `refuse`, or are `events`."""

    def __init__(self) -> None:
        classes = [registry.load(name) for name in registry.names() if _loads(name)]
        table = [(f"{cls.name}.{code}", fault) for cls in classes for code, fault in cls.faults.items()]
        self.sure = frozenset(name for name, fault in table if fault.sure)
        self.refuse = frozenset(name for name, fault in table if fault.refuse)
        self.events = frozenset(name for name, fault in table if fault.event)


def _loads(name: str) -> bool:
    try:
        registry.load(name)
    except Exception:  # noqa: BLE001 - half an upgrade; `sguard doctor` names it
        return False
    return True
