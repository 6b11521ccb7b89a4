"""What a run found: status, finding, result: plain data."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PASS, SKIP, UNKNOWN, WARN, TIMEOUT, FAIL = "pass", "skip", "unknown", "warn", "timeout", "fail"

#: From best to worst. `skip`: does not apply here. `unknown`: could not be judged. `timeout`: a hang, which
#: is evidence of its own.
STATUSES = (PASS, SKIP, UNKNOWN, WARN, TIMEOUT, FAIL)
_RANK = {status: rank for rank, status in enumerate(STATUSES)}

BLAMES = ("node", "job", "fabric", "storage", "unknown")
SCOPES = ("device", "node", "shared")


def worst(statuses: Any) -> str:
    """The worst of some statuses; `skip` for none at all (nothing was judged, so nothing passed)."""
    found = list(statuses)
    return max(found, key=_RANK.__getitem__) if found else SKIP


class Finding:
    """One judged fact about one device.

    `fault` is `check` or `check.code`; `device` is for people (`gpu3`, `mlx5_0/1`, `/scratch`), `device_id`
    is the UUID or PCI address; `reference` is `[expected, lower, upper]` with signed fractions or None;
    `event` marks a fault that happened once (a kernel line, a grown counter): it stays open until a reset
    or reboot proves it gone, while a state fault is clean as soon as it is no longer seen.
    """

    __slots__ = (
        "blame",
        "check",
        "code",
        "device",
        "device_id",
        "event",
        "message",
        "metric",
        "reference",
        "remedy",
        "scope",
        "since",
        "status",
        "tier",
        "unit",
        "value",
    )

    blame: str | None
    device: str | None
    device_id: str | None
    event: bool | None
    metric: str | None
    reference: list[Any] | None
    remedy: str | None
    scope: str | None
    since: str | None
    tier: str | None
    unit: str | None
    value: Any

    def __init__(self, status: str, message: str = "", *, code: str = "", **fields: Any) -> None:
        self.status = status
        self.message = message
        self.code = code
        self.check = ""
        for name in self.__slots__:
            if name not in ("status", "message", "code", "check"):
                setattr(self, name, fields.pop(name, None))
        if fields:
            raise TypeError(f"a finding has no field named {', '.join(sorted(fields))}")

    @property
    def fault(self) -> str:
        """`check` or `check.code`, the key of the policy."""
        return f"{self.check}.{self.code}" if self.code else self.check

    def as_dict(self) -> dict[str, Any]:
        """The finding as it stands in a run record; absent fields are left out, a value of 0 is not."""
        found = {"fault": self.fault}
        for name in sorted(self.__slots__):
            value = getattr(self, name)
            is_absent = value is None or value is False or value == ""
            if name not in ("check", "code") and not is_absent:
                found[name] = value
        return found

    def __repr__(self) -> str:
        return f"Finding({self.status}, {self.fault!r}, {self.device!r}, {self.message!r})"


class CheckResult:
    """What one check found in one run: its findings and the worst status among them."""

    __slots__ = ("check", "findings")

    def __init__(self, check: str, findings: list[Finding]) -> None:
        self.check = check
        self.findings = findings

    @property
    def status(self) -> str:
        """The worst status of the findings. Findings that skip do not hide one that passed."""
        judged = [f.status for f in self.findings if f.status != SKIP]
        return worst(judged)

    def as_dict(self) -> dict[str, Any]:
        """The result as it stands in a run record; passing findings are left out."""
        kept = [f.as_dict() for f in self.findings if f.status != PASS]
        return {"check": self.check, "status": self.status, "findings": kept}


class Facts(dict):  # type: ignore[type-arg]  # the element type differs by probe
    """A JSON object whose keys read as attributes, so that a check reads `port.state`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"these facts have no {name!r}; they have {', '.join(self) or 'nothing'}"
            ) from None
