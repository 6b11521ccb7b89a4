"""What `ib_errors` leaves for the record and the next run, and that its table is whole."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.checks import ib_errors
from slurm_guard.core.expectation import Expectation
from slurm_guard.core.outcome import Facts, Finding
from slurm_guard.probes import infiniband

COUNTERS = (*infiniband.COUNTERS, *infiniband.HW_COUNTERS)


def port(**counters: Any) -> Facts:
    return Facts(
        name="mlx5_5/1",
        device="mlx5_5",
        pci="",
        virtual=False,
        link_layer="InfiniBand",
        counters=Facts(counters),
    )


def judge(now: Facts, expect: Expectation) -> list[Finding]:
    check = ib_errors.IbErrors()
    return list(check.findings([now], Facts(check.params), expect))


def test_every_rule_reads_a_counter_that_the_probe_gives() -> None:
    assert {rule.counter for rule in ib_errors.RULES} <= set(COUNTERS)
    assert {rule.code for rule in ib_errors.RULES} == set(ib_errors.IbErrors.faults)
    assert {rule.param for rule in ib_errors.RULES} == set(ib_errors.IbErrors.params) - {"ignore"}


def test_all_counters_are_kept_for_the_next_run() -> None:
    expect = Expectation(before={"ib_port_xmit_wait mlx5_5/1": [100, 5.0]}, now=65.0)
    judge(port(port_xmit_wait=900, symbol_error=3, out_of_sequence=None), expect)
    assert expect.counters == {"ib_port_xmit_wait mlx5_5/1": 900, "ib_symbol_error mlx5_5/1": 3}
    assert expect.growths == {"ib_port_xmit_wait mlx5_5/1": 800}


@given(
    st.dictionaries(st.sampled_from(COUNTERS), st.integers(0, 2**64), min_size=1),
    st.dictionaries(st.sampled_from(COUNTERS), st.integers(0, 2**64)),
    st.floats(0, 1e7),
)
def test_only_growth_is_ever_judged(before: dict[str, int], now: dict[str, int], seconds: float) -> None:
    samples = {f"ib_{name} mlx5_5/1": [value, 0.0] for name, value in before.items()}
    found = judge(port(**now), Expectation(before=samples, now=seconds))
    grown = {name for name, value in now.items() if value > before.get(name, value)}
    told = {one.message.split(": ")[1].split(" ")[0] for one in found if one.status not in ("pass", "skip")}
    full = {name for name, value in now.items() if value == ib_errors.FULL.get(name)}
    assert told <= grown | full
    assert "link_downed" not in grown or "link_downed" in told


@pytest.mark.parametrize(("name", "most"), ib_errors.FULL.items())
@pytest.mark.parametrize("has_before", [True, False])
def test_a_counter_that_is_full_is_not_called_good(name: str, most: int, has_before: bool) -> None:
    before = {f"ib_{name} mlx5_5/1": [most, 0.0], "ib_out_of_sequence mlx5_5/1": [4, 0.0]}
    expect = Expectation(before=before if has_before else {}, now=300.0)
    (found,) = judge(port(**{name: most, "out_of_sequence": 4}), expect)
    assert found.status == "unknown"
    assert f"{name} stands at {most}" in found.message
    assert "`perfquery -C mlx5_5 -P 1 -R`" in found.message


@pytest.mark.parametrize(
    ("counters", "before", "statuses"),
    [
        ({"link_downed": 255}, {"link_downed": 250}, ["fail"]),  # it has just grown: that is told
        (
            {"link_downed": 255, "symbol_error": 65535},
            {"link_downed": 250, "symbol_error": 65535},
            ["fail", "unknown"],
        ),
        ({"symbol_error": 65535}, {"symbol_error": 65534}, ["unknown"]),
        ({"symbol_error": 65536}, {"symbol_error": 65536}, ["pass"]),  # a wider counter
        ({"port_xmit_wait": 65535}, {"port_xmit_wait": 65535}, ["pass"]),  # 32 bits
        ({"symbol_error": 0}, {"symbol_error": 65535}, ["pass"]),  # it was reset
    ],
)
def test_what_a_full_counter_hides_and_what_it_does_not(
    counters: dict[str, int], before: dict[str, int], statuses: list[str]
) -> None:
    samples = {
        f"ib_{name} mlx5_5/1": [value, 0.0] for name, value in {**before, "out_of_sequence": 4}.items()
    }
    found = judge(port(**counters, out_of_sequence=4), Expectation(before=samples, now=300.0))
    assert sorted(one.status for one in found) == statuses
