"""`config show --origin`: every value, and who said so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.config.shown import BUILT_IN, settings
from tests.unit.config.samples import FULL, read

if TYPE_CHECKING:
    from pathlib import Path


def test_each_value_names_its_file_or_the_default(tmp_path: Path) -> None:
    reading = read(tmp_path, FULL, later="[budget]\npercent = 1.5\n[[mode]]\nmode = 'off'\n")
    shown = {one.key: (one.value, one.origin) for one in settings(reading)}
    main, later = (
        str(tmp_path / "etc/slurm-guard" / name) for name in ("slurm-guard.toml", "conf.d/later.toml")
    )
    assert shown["budget.nodes"] == (7, f"{main}:26")
    assert shown["budget.percent"] == (1.5, f"{later}:2")
    assert shown["slurm.programs.sinfo"] == (None, BUILT_IN)
    assert shown["policy.link_log.79"] == ("DRAIN_RMA", f"{main}:46")
    assert shown["checks.fan_speed.lowest"] == (1200, f"{main}:50")
    assert shown["checks.fan_speed.ratio"] == (0.25, BUILT_IN)
    assert shown["checks.link_log.enabled"] == (False, f"{main}:52")
    assert shown["class[wide].fans"] == (6, f"{main}:59")
    assert shown["class[wide].mounts[/home].type"] == ("nfs4", f"{main}:62")
    assert "class[wide].mounts[/home].shared" not in shown  # by the type, unless it is said
    assert shown["mode[#4].mode"] == ("off", f"{later}:4")


def test_modes_and_rules_for_one_check_have_keys_of_their_own(tmp_path: Path) -> None:
    """By their number, as two may be for one check; a rule by its name where it has one."""
    twice = "[[mode]]\ncheck = 'fan_*'\nmode = 'off'\n" * 2
    rules = "[[rule]]\nfault = 'fan_speed'\ntier = 'NOTE'\n" * 2
    named = "[[rule]]\nname = 'slow fans'\nfault = 'fan_speed'\ntier = 'WARN'\n"
    keys = [one.key for one in settings(read(tmp_path, twice + rules + named))]
    modes = [key for key in keys if key.startswith("mode[") and key.endswith(".mode")]
    assert modes == ["mode[#1].mode", "mode[#2].mode"]
    tiers = [key for key in keys if key.startswith("rule[") and key.endswith(".tier")]
    assert tiers == ["rule[#1].tier", "rule[#2].tier", "rule[slow fans].tier"]
    assert len(keys) == len(set(keys))


def test_without_a_file_everything_is_a_default(tmp_path: Path) -> None:
    shown = settings(read(tmp_path))
    assert {one.origin for one in shown} == {BUILT_IN}
    assert ("checks.fan_count.enabled", True, BUILT_IN) in shown
