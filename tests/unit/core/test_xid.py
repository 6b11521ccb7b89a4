"""The Xid catalogue is complete and consistent: every tier has an action, unknown codes are warnings."""

from __future__ import annotations

import pytest

from slurm_guard.checks.gpu_xid import GpuXid
from slurm_guard.core import xid
from slurm_guard.core.policy import DRAIN_TIERS, TIERS


@pytest.mark.parametrize("code", sorted(xid.CATALOGUE))
def test_every_code_has_a_known_tier_and_a_remedy(code: int) -> None:
    tier, kind, text = xid.CATALOGUE[code]
    assert tier in TIERS
    assert tier in xid.REMEDIES
    assert kind in {"app", "software", "hardware", "firmware", "link", "config", "test", "info"}
    assert text
    assert GpuXid.fault(str(code)).event


@pytest.mark.parametrize("code", [1, 14, 57, 108, 138, 173, 999])
def test_unknown_codes_are_warnings(code: int) -> None:
    assert code not in xid.CATALOGUE
    assert xid.tier(code) == "WARN"
    assert xid.meaning(code) == xid.UNKNOWN_TEXT


def test_what_a_user_can_cause_never_drains() -> None:
    for code in (8, 11, 13, 25, 31, 32, 43, 45, 68, 69, 94, 137):
        assert xid.tier(code) not in DRAIN_TIERS


def test_what_breaks_a_gpu_drains_and_may_refuse_a_job() -> None:
    for code in xid.UNUSABLE:
        assert xid.tier(code) in DRAIN_TIERS
        assert GpuXid.fault(str(code)).refuse


def test_application_faults_blame_the_job_and_hardware_the_node() -> None:
    blames = {code: GpuXid.fault(str(code)).blame for code in (13, 31, 43, 45, 79, 94, 109)}
    assert blames == {13: "job", 31: "job", 43: "job", 45: "unknown", 79: "node", 94: "node", 109: "node"}


@pytest.mark.parametrize("tier", sorted(set(xid.RECOVERY.values())))
def test_every_recovery_action_maps(tier: str) -> None:
    assert tier in TIERS
    assert tier in xid.REMEDIES


@pytest.mark.parametrize("code", sorted(xid.CATALOGUE))
def test_no_remedy_blames_the_application_for_hardware(code: int) -> None:
    """A code of tier JOB can still be the hardware's (94: contained, the GPU wants a reset when idle)."""
    tier, kind, _ = xid.CATALOGUE[code]
    if kind == "hardware":
        assert "application's fault" not in xid.remedy(code, tier)
    assert xid.remedy(code, tier)
