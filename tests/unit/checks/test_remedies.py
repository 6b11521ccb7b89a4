"""A remedy asks for no more than the fault's tier does."""

from __future__ import annotations

import pytest

from slurm_guard.core import check as registry
from slurm_guard.core.policy import DRAIN_TIERS

FAULTS = [
    (f"{name}.{code}", fault.tier, fault.remedy or cls.remedy)
    for name in registry.names()
    for cls in (registry.load(name),)
    for code, fault in cls.faults.items()
]


@pytest.mark.parametrize(("fault", "tier", "remedy"), FAULTS, ids=[one[0] for one in FAULTS])
def test_what_is_never_drained_for_asks_for_no_drain(fault: str, tier: str, remedy: str) -> None:
    assert remedy, fault
    if tier not in DRAIN_TIERS:
        assert not remedy.lower().startswith("drain")
