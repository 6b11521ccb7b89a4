"""Every InfiniBand port is there, up, and at the rate this node is known for."""

from __future__ import annotations

from slurm_guard.core.check import Check, Fault, failed, passed, unknown
from slurm_guard.core.outcome import FAIL, PASS, SKIP
from slurm_guard.core.ports import is_ignored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Facts, Finding

_CABLE = "Reseat or swap the cable, look at the switch port; if it comes back, open an RMA for the adapter."
_STATES = ("NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER")


class IbLink(Check):
    """`ib_ports` is a count, or a list of the ports that must be there: then others are not judged."""

    name = "ib_link"
    probe = "infiniband"
    params = {"ib_ports": None, "ignore": []}
    expects = "ib_ports"
    metrics = {"ib_rate": "Gb/s"}
    remedy = _CABLE
    faults = {
        "missing": Fault(
            "DRAIN",
            "fewer InfiniBand ports than this node has",
            scope="node",
            grace=True,
            remedy="See `lspci -d 15b3:` and the kernel log for the adapter; power-cycle, then reseat it.",
        ),
        "down": Fault("DRAIN", "a port is not up", grace=True),
        "rate": Fault("DRAIN", "a port came up at a lower speed or width", grace=True),
        "ethernet": Fault(
            "DRAIN",
            "a port that should be InfiniBand is in Ethernet mode",
            remedy="Set LINK_TYPE_P1 to IB with `mlxconfig` and reboot.",
        ),
    }

    def judge(self, facts: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """The expected ports first, then each port by itself."""
        wanted = params["ib_ports"]
        wanted = expect.expected.get("ib_ports") if wanted is None else wanted
        named = wanted if isinstance(wanted, list) else None
        ports = [port for port in facts if not is_ignored(port, params["ignore"])]
        judged = [port for port in ports if port.link_layer in ("InfiniBand", "") and not port.virtual]
        if named is not None:
            judged = [port for port in judged if _is_named(port, named)]
            yield from _missing_by_name(named, ports, judged)
        else:
            yield _count(ports, judged, wanted, expect)
        findings = [_port(port, expect) for port in judged]
        if named is None and wanted is not None and len(judged) > wanted:
            _excuse_spare(findings, wanted)
        yield from findings


def _is_named(port: Facts, named: list[str]) -> bool:
    """True if a list of ports holds `mlx5_0/1`, or the whole adapter `mlx5_0`."""
    return port.name in named or port.device in named


def _missing_by_name(named: list[str], ports: list[Facts], judged: list[Facts]) -> Iterator[Finding]:
    seen = {port.name for port in judged} | {port.device for port in judged}
    others = {key: port for port in ports for key in (port.name, port.device)}
    present = ", ".join(port.name for port in judged) or "none"
    for name in named:
        if name in seen:
            yield passed(device=name)
        elif name not in others:
            yield failed(f"{name} is not there, expected; present: {present}", device=name, code="missing")
        elif others[name].virtual:
            message = f"{name} is a virtual function, expected an adapter's own port"
            yield unknown(message, device=name)
        elif others[name].link_layer == "Ethernet":
            message = f"{name} is in Ethernet mode, expected InfiniBand"
            yield failed(message, device=name, device_id=others[name].pci, code="ethernet")
        else:
            message = f"{name}: its link layer is {others[name].link_layer[:40]!r}, expected InfiniBand"
            yield unknown(message, device=name, device_id=others[name].pci)


def _count(ports: list[Facts], judged: list[Facts], wanted: Any, expect: Expectation) -> Finding:
    found = expect.count("ib_ports", len(judged), wanted, fault="missing")
    if found.status != PASS and wanted and len(judged) < wanted:
        present = ", ".join(port.name for port in judged) or "none"
        ethernet = ", ".join(p.name for p in ports if p.link_layer == "Ethernet" and not p.virtual)
        found.message = f"{len(judged)} of {wanted} InfiniBand ports are there: {present}"
        found.message += f"; in Ethernet mode: {ethernet}" if ethernet else ""
    return found


def _excuse_spare(findings: list[Finding], wanted: int) -> None:
    """An adapter may have ports that nobody uses: with as many good ones as expected, others may be bad."""
    if sum(found.status == PASS for found in findings) < wanted:
        return
    for found in findings:
        if found.status == FAIL:
            found.status, found.code = SKIP, ""
            found.message += f"; not needed, the {wanted} expected ports are good"


def _port(port: Facts, expect: Expectation) -> Finding:
    where = {"device": port.name, "device_id": port.pci}
    if not port.link_layer:
        return unknown(f"{port.name}: its link_layer cannot be read", **where)
    if port.state not in _STATES:
        seen = port.problem or "its state cannot be read"
        return unknown(f"{port.name}: {seen}; expected `4: ACTIVE`", code="down", **where)
    if port.state != "ACTIVE" or port.phys_state not in ("LinkUp", None):
        seen = f"{port.state} ({port.phys_state or 'no physical state'})"
        return failed(f"{port.name} is {seen}, expected ACTIVE (LinkUp)", code="down", **where)
    if port.problem:
        return unknown(f"{port.name}: {port.problem}", **where)
    judged = expect("ib_rate", port.rate, "Gb/s", fault="rate", **where)
    if judged.status == SKIP:
        return passed(f"{port.name} is up; {judged.message}", **where)
    if judged.status != PASS:
        judged.message = f"{port.name} runs at {port.rate_text}; {judged.message}"
    return judged
