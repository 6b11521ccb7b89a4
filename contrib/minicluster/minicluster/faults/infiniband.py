"""Faults of InfiniBand ports. Error counters go up once per call and stay up until the next boot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster.faults.registry import Fault, Values, hca_of, register, register_family
from minicluster.machine.infiniband import COUNTERS, HW_COUNTERS
from minicluster.machine.kmsg import ERROR, Line

if TYPE_CHECKING:
    from minicluster.machine.model import Machine

# Fault codes that differ from the name of the kernel's counter.
ALIASES = {
    "symbol_errors": "symbol_error",
    "rcv_errors": "port_rcv_errors",
    "xmit_discards": "port_xmit_discards",
}
COMMON = {
    "symbol_errors": "5000",
    "link_downed": "1",
    "link_error_recovery": "6",
    "rcv_errors": "900",
    "local_link_integrity_errors": "1",
    "excessive_buffer_overrun_errors": "1",
    "xmit_discards": "12000",
    "rnr_nak_retry_err": "1",
    "local_ack_timeout_err": "400",
}


def _down(machine: Machine, device: str, values: Values) -> None:
    hca = hca_of(machine, device)
    hca.state, hca.phys_state = values["state"], values["phys_state"]
    hca.rate = "10 Gb/sec (4X SDR)"


def _unplugged_line(machine: Machine, device: str, values: Values) -> list[Line]:
    if values["kernel_line"] != "yes":
        return []
    address = hca_of(machine, device).address
    text = f"mlx5_core {address}: Port module event: module 0, Cable unplugged"
    return [Line(text, ERROR, f"+pci:{address}")]


def _slow(machine: Machine, device: str, values: Values) -> None:
    hca_of(machine, device).rate = values["rate"]


def _missing(machine: Machine, device: str, values: Values) -> None:
    hca_of(machine, device).present = False


def _health_lines(machine: Machine, device: str, values: Values) -> list[Line]:
    address = hca_of(machine, device).address
    text = f"mlx5_core {address}: poll_health:842:(pid 0): device's health compromised - reached miss count"
    return [Line(text, ERROR, f"+pci:{address}")]


def _ethernet(machine: Machine, device: str, values: Values) -> None:
    hca_of(machine, device).link_layer = "Ethernet"


def make_counter(code: str) -> Fault | None:
    """ib_errors.COUNTER for any counter of a port."""
    counter = ALIASES.get(code, code)
    if counter not in COUNTERS and counter not in HW_COUNTERS:
        return None
    return Fault(
        f"ib_errors.{code}",
        "port",
        f"{counter} goes up (counted until the next boot)",
        {"count": COMMON.get(code, "100")},
        counts={counter: "count"},
    )


for fault in (
    Fault(
        "ib_link.down",
        "port",
        "port down and polling; link_downed goes up by one",
        {"state": "1: DOWN", "phys_state": "2: Polling", "kernel_line": "yes", "count": "1"},
        _down,
        _unplugged_line,
        {"link_downed": "count"},
    ),
    Fault("ib_link.rate", "port", "port trained at a lower rate", {"rate": "200 Gb/sec (4X HDR)"}, _slow),
    Fault(
        "ib_link.missing",
        "hca",
        "adapter gone from the PCI bus and from /sys/class/infiniband",
        apply=_missing,
    ),
    Fault("ib_link.ethernet", "port", "port in Ethernet mode", apply=_ethernet),
    Fault(
        "ib_link.health",
        "hca",
        "the driver says that the adapter's health is compromised",
        lines=_health_lines,
    ),
):
    register(fault)
for code in COMMON:
    made = make_counter(code)
    assert made is not None
    register(made)
register_family("ib_errors", make_counter)
