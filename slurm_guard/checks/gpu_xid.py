"""The NVIDIA driver's Xid and SXid events in the kernel log since the last look, each GPU and code once."""

from __future__ import annotations

from slurm_guard.core import gpus, xid
from slurm_guard.core.check import Check, Fault, failed, passed, skipped, unknown, warned
from slurm_guard.core.xid_lines import parse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Finding
    from slurm_guard.core.xid_lines import XidLine

_BURST_S = 180.0  # lines closer together than this are one event that is told several times
_LONGEST = 160
_TEST_REMEDY = "Run `dcgmi diag -r 3` when no job is on the node; drain it if that fails."
_SWITCH_REMEDY = "Look the SXid up in NVIDIA's fabric manager guide; an Xid 74 at the same time is its echo."

_BLAMES = {"app": "job", "software": "unknown", "info": "unknown"}


def _fault(code: int) -> Fault:
    tier, kind, text = xid.CATALOGUE[code]
    return Fault(
        tier,
        f"Xid {code}: {text}.",
        remedy=xid.remedy(code, tier),
        refuse=code in xid.UNUSABLE,
        event=True,
        blame="node" if tier.startswith("DRAIN") else _BLAMES.get(kind, "node"),
    )


class GpuXid(Check):
    """See the module's docstring. A code or recovery action that the catalogue does not know is `unknown`,
    with its raw text: a warning, never a drain.
    """

    name = "gpu_xid"
    probes = ("kmsg", "nvml", "pci")
    tier = "WARN"
    remedy = "Look the code up in NVIDIA's Xid catalogue; the message has the raw text."
    open_faults = r"[1-9]\d{0,2}|sxid_\d{1,6}"
    open_faults_text = "an Xid from 1 to 999, or sxid_ with an SXid"
    faults = {
        **{str(code): _fault(code) for code in sorted(xid.CATALOGUE)},
        "13_repeat": Fault("WARN", "Xid 13 twice in one place of one GPU.", remedy=_TEST_REMEDY),
        "31_repeat": Fault("WARN", "Xid 31 twice on one GPU alone.", remedy=_TEST_REMEDY),
        "init_failed": Fault(
            "DRAIN_REBOOT",
            "The driver could not initialise the GPU.",
            remedy=xid.REMEDIES["DRAIN_REBOOT"],
            event=True,
        ),
        "gsp_heartbeat": Fault(
            "DRAIN_REBOOT",
            "The GPU's system processor (GSP) stopped; an Xid 119 mostly follows.",
            remedy=xid.REMEDIES["DRAIN_REBOOT"],
            event=True,
        ),
        "rx_detect": Fault(
            "DRAIN_REBOOT",
            "The driver could not find out which NVLinks are connected.",
            remedy=xid.REMEDIES["DRAIN_REBOOT"],
            event=True,
        ),
        "inforom": Fault(
            "DRAIN",
            "The GPU's InfoROM is corrupted.",
            remedy="`nvidia-smi -q` shows the InfoROM's versions; open an RMA if a reboot does not help.",
            event=True,
        ),
        "unread": Fault("WARN", "An Xid line that cannot be read."),
        "coverage": Fault("WARN", "Kernel lines were lost, so an Xid may have been missed."),
    }

    def judge(self, facts: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """Yield one finding for each GPU and code."""
        kmsg = facts.kmsg
        if kmsg is None:
            yield unknown(f"kernel log: {facts.problems.get('kmsg', 'no answer')}", code="coverage")
            return
        if kmsg.gap:
            yield unknown("kernel log: lines were lost since the last look", code="coverage")
        if kmsg.overflow:
            yield unknown("kernel log: more lines than one run takes; the next takes more", code="coverage")
        lines = parse(kmsg.events)
        if not lines:
            is_history = expect.run.get("first_run")
            yield skipped("first run: what the log holds by now is history") if is_history else passed()
            return
        log = _Log(lines, facts)
        for (kind, address, code), group in log.groups.items():
            if kind == "garbage":
                yield unknown(f"an Xid line that cannot be read: {group[0].rest[:_LONGEST]}", code="unread")
            elif kind == "driver":
                yield from _driver(group, log.place(address) if address else {})
            elif kind == "sxid":
                yield _switch(code, group)
            elif kind == "named":
                yield _named(code, group, log.place(address))
            else:
                yield _event(code, group, log.place(address), log.tier(address, code, group))
        yield from _repeats(log)


class _Log:
    """The events of one look, by kind, GPU and code, and what is known about the GPUs."""

    def __init__(self, lines: list[XidLine], facts: Any) -> None:
        self.names = gpus.names_by_address(facts.nvml, facts.pci)
        known = [] if facts.nvml is None else gpus.readable(facts.nvml)
        self.groups: dict[tuple[str, str, int], list[XidLine]] = {}
        self.minors = {f"GPU{gpu.minor}": gpu.pci for gpu in known if gpu.minor is not None and gpu.pci}
        for line in lines:
            self.groups.setdefault((line.kind, line.address, line.code), []).append(line)
        for line in lines:
            if line.previous and not self.has(line.address, line.previous):
                self.groups.setdefault(("named", line.address, line.previous), []).append(line)

    def place(self, address: str) -> dict[str, Any]:
        """`device` and `device_id` of a finding; the address itself where no GPU is known there.

        `GPU4`, the driver's own number, is its minor number, which NVML tells and nvidia-smi's index is not.
        """
        name, identity = self.names.get(self.minors.get(address, address), (address, address))
        return {"device": name, "device_id": identity}

    def tier(self, address: str, code: int, group: list[XidLine]) -> str:
        """The tier of a code in this company: some codes are graver or milder with what else is there."""
        last = group[-1]
        if code in xid.NVLINK5:
            return xid.tier(code) if any(line.severity == "Fatal" for line in group) else "WARN"
        if code == 154:
            return xid.recovery(last.recovery)
        if code == 163 and not self.has(address, 162, after=last.time_s):
            return "WARN"
        return xid.tier(code)

    def has(self, address: str, code: int, after: float = -1.0) -> bool:
        """True if this GPU logged this code, at or after a time."""
        return any(line.time_s >= after for line in self.groups.get(("xid", address, code), ()))


def _event(code: int, group: list[XidLine], at: dict[str, Any], tier: str) -> Finding:
    """One finding for all lines of one code on one GPU; the first line is the event, the rest are echoes."""
    first = group[0]
    text = f"Xid {code} on {at['device']} ({first.address}), {first.time_s:.0f} s after boot"
    text = f"{text}: {xid.meaning(code)}"
    if first.previous:
        text = f"{text}; echo of Xid {first.previous}"
    shown = group[-1] if code == 154 else first
    if shown.rest:
        text = f"{text}; {shown.rest[:_LONGEST]}"
    if len(group) > 1:
        text = f"{text} ({len(group)} lines)"
    at.update(value=len(group), since=f"{first.time_s:.3f} s after boot")
    return _finding(text, code, tier, at, is_known=code != 154 or xid.is_recovery(shown.recovery))


def _named(code: int, group: list[XidLine], at: dict[str, Any]) -> Finding:
    """An event whose own line is lost or older than this look: an echo names it as its cause."""
    tier = "WARN" if code in xid.NVLINK5 else xid.tier(code)  # how grave an NVLink 5 fault is, its line says
    first = group[0]
    text = f"Xid {code} on {at['device']} ({first.address}): {xid.meaning(code)}; its own line was not seen, "
    text += f"an Xid {first.code} at {first.time_s:.0f} s after boot names it as its cause"
    return _finding(text, code, tier, at)


def _finding(text: str, code: int, tier: str, at: dict[str, Any], is_known: bool = True) -> Finding:
    at.update(code=str(code), metric="xid", tier=tier, event=True)
    if not is_known or code not in xid.CATALOGUE:
        return unknown(text, blame="unknown", **at)
    make = warned if tier in ("NOTE", "WARN") else failed
    return make(text, remedy=xid.remedy(code, tier), **at)


def _driver(group: list[XidLine], at: dict[str, Any]) -> Iterator[Finding]:
    """Lines without a code, each kind once for a GPU."""
    for name in dict.fromkeys(line.unit for line in group):
        first = next(line for line in group if line.unit == name)
        text = f"{at.get('device', 'a GPU')}, {first.time_s:.0f} s after boot: {first.rest[:_LONGEST]}"
        yield failed(text, code=name, metric="xid", event=True, **at)


def _switch(code: int, group: list[XidLine]) -> Finding:
    """An NVSwitch's own event: shown, with the driver's word for how grave it is."""
    first = group[0]
    words = [line.severity for line in group if line.severity not in ("", "Data")]
    text = (
        f"SXid {code} on {first.unit} ({first.address}), {words[0] if words else 'no severity'}: {first.rest}"
    )
    at = {"device": first.unit, "device_id": first.address, "metric": "sxid", "value": len(group)}
    at.update(code=f"sxid_{code}", scope="node", event=True, remedy=_SWITCH_REMEDY)
    return warned(text[: 2 * _LONGEST], **at)


def _repeats(log: _Log) -> Iterator[Finding]:
    """Application faults that come back in the same place, hours or minutes apart, point at the GPU."""
    with_31 = [address for kind, address, code in log.groups if (kind, code) == ("xid", 31)]
    for (kind, address, code), group in log.groups.items():
        if kind != "xid" or code not in (13, 31):
            continue
        if code == 31 and (len(with_31) > 1 or len({line.pid for line in group}) < 2):
            continue  # on several GPUs, or by one process: the application
        places = {line.place() for line in group} if code == 13 else {""}
        for place in sorted(places):
            bursts = _bursts([line for line in group if code == 31 or line.place() == place])
            if bursts > 1 and (place or code == 31):
                where = f" in {place}" if place else ""
                text = f"Xid {code} on {log.place(address)['device']}{where} in {bursts} bursts: test the GPU"
                yield failed(text, code=f"{code}_repeat", event=True, **log.place(address))


def _bursts(lines: list[XidLine]) -> int:
    """How many times it happened: a burst ends when nothing follows for three minutes."""
    times = sorted(line.time_s for line in lines)
    return 1 + sum(1 for one, following in zip(times, times[1:]) if following - one > _BURST_S)
