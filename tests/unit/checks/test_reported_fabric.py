"""InfiniBand ports as the field has reported them: what grows, what only looks like a port."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.checks.simulated_node import SimulatedNode, brief


def test_old_link_losses_never_count_and_new_ones_do(simulated: SimulatedNode) -> None:
    """Two ports: one flapped during bring-up, one flaps now."""
    simulated.port(4, link_downed=14)
    simulated.port(5, link_downed=2)
    for number, more in enumerate([0, 7, 8]):
        simulated.port(5, link_downed=more)
        found = simulated.look("ib_errors", now=300.0 * (number + 1))
        expected = {("ib_errors.flapping", "mlx5_5/1", "fail", "DRAIN")} if more else set()
        assert brief(found) == expected
    assert simulated.look("ib_errors", now=1200.0) == []


@pytest.mark.parametrize(
    ("more", "fault"), [(1, "link_downed"), (2, "link_downed"), (3, "flapping"), (40, "flapping")]
)
def test_a_link_lost_once_is_a_warning_and_several_times_a_fault(
    simulated: SimulatedNode, more: int, fault: str
) -> None:
    simulated.look("ib_errors")
    simulated.port(2, link_downed=more)
    (found,) = simulated.look("ib_errors", now=400.0)
    assert (found.fault, found.device) == (f"ib_errors.{fault}", "mlx5_2/1")
    assert (found.tier == "DRAIN") == (fault == "flapping")


def test_a_counter_that_fell_is_a_new_start(simulated: SimulatedNode) -> None:
    simulated.port(2, link_downed=30, symbol_error=10_000)
    simulated.look("ib_errors")
    simulated.port(2, link_downed=-31, symbol_error=-9_990)
    assert simulated.look("ib_errors", now=400.0) == []
    simulated.port(2, link_downed=5)
    assert [one.fault for one in simulated.look("ib_errors", now=700.0)] == ["ib_errors.flapping"]


@pytest.mark.parametrize("bad", [1, 4, 7])
def test_one_good_port_of_many_does_not_satisfy_the_check(simulated: SimulatedNode, bad: int) -> None:
    for index in range(bad):
        port = simulated.port(index)
        port.state, port.phys_state = "1: DOWN", "3: Disabled"
    simulated.show()
    assert {one.device for one in simulated.look("ib_link")} == {f"mlx5_{index}/1" for index in range(bad)}


def test_a_missing_adapter_is_missing_and_nothing_else(simulated: SimulatedNode) -> None:
    simulated.port(3).present = False
    simulated.show()
    (found,) = simulated.look("ib_link")
    assert (found.fault, found.status, found.tier) == ("ib_link.missing", "fail", "DRAIN")
    assert "7 of 8 InfiniBand ports" in found.message


@pytest.mark.parametrize(
    ("state", "phys_state", "rate", "fault"),
    [
        ("4: ACTIVE", "5: LinkUp", "400 Gb/sec (4X NDR)", ""),
        ("4: ACTIVE", "5: LinkUp", "200 Gb/sec (2X NDR)", "rate"),
        ("4: ACTIVE", "5: LinkUp", "100 Gb/sec (1X NDR)", "rate"),
        ("4: ACTIVE", "5: LinkUp", "200 Gb/sec (4X HDR)", "rate"),
        ("1: DOWN", "2: Polling", "2.5 Gb/sec (1X SDR)", "down"),
        ("2: INIT", "5: LinkUp", "400 Gb/sec (4X NDR)", "down"),
        ("3: ARMED", "5: LinkUp", "400 Gb/sec (4X NDR)", "down"),
        ("4: ACTIVE", "6: LinkErrorRecovery", "400 Gb/sec (4X NDR)", "down"),
    ],
)
def test_degraded_links(simulated: SimulatedNode, state: str, phys_state: str, rate: str, fault: str) -> None:
    port = simulated.port(6)
    port.state, port.phys_state, port.rate = state, phys_state, rate
    simulated.show()
    found = simulated.look("ib_link", references={"ib_rate": [400, -0.05, None, "Gb/s"]})
    assert [(one.fault, one.device) for one in found] == ([(f"ib_link.{fault}", "mlx5_6/1")] if fault else [])


def test_a_port_in_ethernet_mode_is_not_judged_as_infiniband(simulated: SimulatedNode) -> None:
    """Nor are its counters; and it is told where a port is missing."""
    port = simulated.port(7)
    port.link_layer, port.state, port.phys_state = "Ethernet", "1: DOWN", "3: Disabled"
    simulated.show()
    (found,) = simulated.look("ib_link")
    assert found.fault == "ib_link.missing"
    assert "in Ethernet mode: mlx5_7/1" in found.message
    simulated.look("ib_errors")
    simulated.port(7, link_downed=50, symbol_error=10**6)
    assert simulated.look("ib_errors", now=200.0) == []


@pytest.mark.parametrize("expected", [{}, {"ib_ports": 0}])
def test_no_adapter_where_none_is_expected_is_no_fault(
    simulated: SimulatedNode, expected: dict[str, Any]
) -> None:
    for index in range(8):
        simulated.port(index).present = False
    simulated.show()
    assert simulated.look("ib_link", expected=expected) == []


def test_no_port_where_eight_are_expected_never_skips(simulated: SimulatedNode) -> None:
    for index in range(8):
        simulated.port(index).present = False
    simulated.show()
    assert [one.fault for one in simulated.look("ib_link")] == ["ib_link.missing"]


@pytest.mark.parametrize(
    ("layer", "fault", "status"),
    [
        ("Ethernet", "ib_link.ethernet", "fail"),
        ("Unspecified", "ib_link", "unknown"),
        ("7", "ib_link", "unknown"),
    ],
)
def test_a_named_port_of_another_kind_is_called_what_it_is(
    simulated: SimulatedNode, layer: str, fault: str, status: str
) -> None:
    """`Unspecified` is what adapters with a transport of their own say, as Amazon's do."""
    (simulated.root / "sys/class/infiniband/mlx5_2/ports/1/link_layer").write_text(f"{layer}\n")
    found = simulated.look("ib_link", params={"ib_ports": ["mlx5_1/1", "mlx5_2/1"]})
    (simulated.root / "sys/class/infiniband/mlx5_2/ports/1/link_layer").write_text("InfiniBand\n")
    assert [(one.fault, one.device, one.status) for one in found] == [(fault, "mlx5_2/1", status)]
    assert layer in found[0].message


def test_a_good_port_has_nothing_to_say(simulated: SimulatedNode) -> None:
    simulated.look("ib_link", references={"ib_rate": [400, -0.05, None, "Gb/s"]})
    assert {one.message for one in simulated.result.findings} == {""}
