"""The error counters of InfiniBand ports do not grow faster than on a good link.

Only growth since the sample before is judged; a counter's absolute value says nothing, unless it is the
largest that fits: such a counter grows no more, whatever happens on the wire.
"""

from __future__ import annotations

from slurm_guard.core.check import Check, Fault, passed, skipped, unknown
from slurm_guard.core.outcome import FAIL, PASS, WARN
from slurm_guard.core.ports import is_ignored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation, Growth
    from slurm_guard.core.outcome import Facts, Finding

#: A rate is never taken over less than this: one error right after the sample before is not 3,600 an hour.
SHORTEST_S = 60.0

_CABLE = "Clean and reseat both ends of the cable or swap it; compare with its neighbours on the switch."
_FABRIC = (
    "Look at the switches on the path: congestion or a bad link elsewhere; this node is seldom the cause."
)
_PEER = "Find out whether the peer's process or link died first: this port may only have noticed."


class Rule:
    """One limit on a kernel's counter: seconds of its unit (0: any growth), fault, parameter."""

    __slots__ = ("code", "counter", "param", "seconds", "status")

    def __init__(self, status: str, counter: str, seconds: int = 0, code: str = "", param: str = "") -> None:
        self.status = status
        self.counter = counter
        self.seconds = seconds
        self.code = code or counter
        self.param = param or self.code

    @property
    def metric(self) -> str:
        """The name under which values and references go."""
        return f"ib_{self.param}"

    @property
    def unit(self) -> str:
        """What the metric counts."""
        return f"errors{_UNITS[self.seconds]}"


#: Where a counter of InfiniBand's PortCounters stops: it has 16, 8 or 4 bits and does not turn over.
FULL = {
    "symbol_error": 65535,
    "link_error_recovery": 255,
    "link_downed": 255,
    "port_rcv_errors": 65535,
    "local_link_integrity_errors": 15,
    "excessive_buffer_overrun_errors": 15,
    "port_xmit_discards": 65535,
}

_UNITS = {0: "", 1: " per s", 60: " per min", 3600: " per h"}


#: Of the rules for one counter, the first that is broken counts: gravest first.
RULES = (
    Rule(FAIL, "symbol_error", 1, "symbol_errors", "symbol_errors_per_s"),
    Rule(WARN, "symbol_error", 3600, "symbol_errors", "symbol_errors_per_h"),
    Rule(FAIL, "link_downed", 0, "flapping", "flaps"),
    Rule(WARN, "link_downed"),
    Rule(WARN, "link_error_recovery", 60, param="link_error_recovery_per_min"),
    Rule(WARN, "port_rcv_errors", 1, "rcv_errors", "rcv_errors_per_s"),
    Rule(FAIL, "local_link_integrity_errors"),
    Rule(FAIL, "excessive_buffer_overrun_errors"),
    Rule(WARN, "port_xmit_discards", 1, "xmit_discards", "xmit_discards_per_s"),
    Rule(WARN, "local_ack_timeout_err", 1, param="local_ack_timeout_err_per_s"),
    Rule(FAIL, "rnr_nak_retry_err"),
    Rule(FAIL, "req_transport_retries_exceeded"),
)


class IbErrors(Check):
    """Each parameter is the most that is accepted, per second, minute or hour, or since the last sample."""

    name = "ib_errors"
    probe = "infiniband"
    params = {
        "symbol_errors_per_s": 10,
        "symbol_errors_per_h": 120,
        "link_error_recovery_per_min": 5,
        "link_downed": 0,
        "flaps": 2,
        "rcv_errors_per_s": 10,
        "local_link_integrity_errors": 0,
        "excessive_buffer_overrun_errors": 0,
        "xmit_discards_per_s": 100,
        "local_ack_timeout_err_per_s": 1,
        "rnr_nak_retry_err": 0,
        "req_transport_retries_exceeded": 0,
        "ignore": [],
    }
    metrics = {rule.metric: rule.unit for rule in RULES}
    remedy = _CABLE
    faults = {
        "symbol_errors": Fault("WARN", "bit errors on the wire"),
        "link_downed": Fault("WARN", "the link was lost and came back", grace=True),
        "flapping": Fault("DRAIN", "the link was lost several times", sure=True, grace=True),
        "link_error_recovery": Fault("WARN", "the link retrains again and again", grace=True),
        "rcv_errors": Fault("WARN", "malformed packets arrive"),
        "local_link_integrity_errors": Fault("DRAIN", "too many physical errors at this port"),
        "excessive_buffer_overrun_errors": Fault("DRAIN", "packets arrive faster than they were allowed to"),
        "xmit_discards": Fault("WARN", "packets dropped at the exit", blame="fabric", remedy=_FABRIC),
        "local_ack_timeout_err": Fault("WARN", "no answer from peers", blame="unknown", remedy=_PEER),
        "rnr_nak_retry_err": Fault(
            "WARN", "a peer was not ready, retries used up", blame="unknown", remedy=_PEER
        ),
        "req_transport_retries_exceeded": Fault(
            "WARN", "no answer from a peer, retries used up", blame="unknown", remedy=_PEER
        ),
    }

    def judge(self, facts: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """Ethernet ports and virtual functions are left out: their counters mean other things."""
        for port in facts:
            if port.virtual or port.link_layer != "InfiniBand" or is_ignored(port, params["ignore"]):
                continue
            yield from _port(port, params, expect)


def _port(port: Facts, params: Any, expect: Expectation) -> Iterator[Finding]:
    grown = {name: expect.growth(f"ib_{name}", count, port.name) for name, count in port.counters.items()}
    if port.get("garbled"):
        names = ", ".join(port.garbled[:5])
        yield unknown(f"{port.name}: no count in {names}", device=port.name, device_id=port.pci)
    broken = _broken(port, grown, params, expect)
    full = [name for name, most in FULL.items() if port.counters.get(name) == most and name not in broken]
    if full:
        yield _pinned(port, full)
    elif not any(grown.values()):
        supported = any(count is not None for count in port.counters.values())
        why = "no earlier sample of this boot" if supported else "no counter is supported"
        yield skipped(f"{port.name}: {why}", device=port.name, device_id=port.pci)
        return
    passes = [] if full else [passed(device=port.name, device_id=port.pci)]
    yield from broken.values() or passes


def _pinned(port: Facts, full: list[str]) -> Finding:
    """Counters at their end of the scale: nobody can tell whether they would have grown."""
    names = ", ".join(f"{name} stands at {FULL[name]}" for name in full)
    message = f"{port.name}: {names}, the most that fits: it no longer counts; expected less"
    reset = f"reset it: `perfquery -C {port.device} -P {port.name.rpartition('/')[2]} -R`"
    return unknown(f"{message}; {reset}", device=port.name, device_id=port.pci)


def _broken(port: Facts, grown: dict[str, Any], params: Any, expect: Expectation) -> dict[str, Finding]:
    """By counter, the gravest rule that its growth breaks."""
    broken: dict[str, Finding] = {}
    for rule in RULES:
        growth = grown.get(rule.counter)
        if growth and growth.delta and rule.counter not in broken:
            found = _judge(rule, growth, port, params[rule.param], expect)
            if found.status != PASS:
                broken[rule.counter] = found
    return broken


def _judge(rule: Rule, growth: Growth, port: Facts, limit: float, expect: Expectation) -> Finding:
    amount = growth.delta
    if rule.seconds:
        amount = growth.delta * rule.seconds / max(growth.seconds, SHORTEST_S)
    where: dict[str, Any] = {"device": port.name, "device_id": port.pci, "fault": rule.code}
    where["fail" if rule.status == FAIL else "warn"] = limit
    found = expect(rule.metric, amount, rule.unit, **where)
    if found.status != PASS:
        seen = f"{rule.counter} grew by {growth.delta:g} in {growth.seconds:.0f} s"
        found.message = f"{port.name}: {seen}, expected at most {limit:g}{_UNITS[rule.seconds]}"
    return found
