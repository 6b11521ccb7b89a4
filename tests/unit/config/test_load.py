"""A configuration that is right: what it says, and what is noted about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from slurm_guard.config import load
from slurm_guard.config.model import Config
from tests.unit.config.samples import CATALOGUE, CLASS, FULL, places_with, read

if TYPE_CHECKING:
    from pathlib import Path


def test_a_full_configuration_is_read(tmp_path: Path) -> None:
    reading = read(tmp_path, FULL)
    assert [str(one) for one in reading.problems] == []
    assert reading.notes == [
        "mode[fan_speed].nodes: lone7 in no class: nothing is expected there, or a slip?"
    ]
    assert reading.config is not None
    assert reading.config.policy == {"fan_speed.slow": "JOB", "link_log.79": "DRAIN_RMA", "fan_count": "NOTE"}
    assert reading.config.classes[0].model_extra == {"fans": 6}


def test_without_a_file_the_defaults_apply_and_it_is_said(tmp_path: Path) -> None:
    reading = read(tmp_path)
    assert reading.config == Config()
    assert reading.files == []
    assert "the built-in defaults apply" in reading.notes[0]


def test_a_broken_check_does_not_break_the_configuration(tmp_path: Path) -> None:
    text = "[checks.half_baked]\nanything = 3\n[policy]\nhalf_baked.code = 'NOTE'\n"
    text += "[[mode]]\ncheck = 'half_*'\nmode = 'off'\n"
    reading = read(tmp_path, text + CLASS + "its_own = 4\n", catalogue=CATALOGUE)
    assert reading.problems == []
    (note,) = reading.notes
    assert note.startswith("check half_baked cannot be loaded (SyntaxError: invalid syntax)")
    assert note.endswith("was not checked")


def test_a_fault_number_of_a_check_with_numbers_need_not_be_listed(tmp_path: Path) -> None:
    assert read(tmp_path, "[policy]\nlink_log.999 = 'NOTE'\nlink_log.x_20034 = 'NOTE'\n").problems == []


def test_nodes_of_a_mode_that_no_class_has_are_told(tmp_path: Path) -> None:
    text = CLASS + "[[mode]]\nmode = 'off'\nnodes = 'k[3-6]'\n"
    reading = read(tmp_path, text)
    assert reading.problems == []
    assert reading.notes == ["mode[#1].nodes: k[5-6] in no class: nothing is expected there, or a slip?"]
    assert read(tmp_path, "[[mode]]\nmode = 'off'\nnodes = 'k[3-6]'\n").notes == []  # a site without classes


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[policy]\ngpu_xid.9999 = 'NOTE'\n", "policy.gpu_xid.9999"),
        ("[policy]\ngpu_xid.sxid_ = 'NOTE'\n", "policy.gpu_xid.sxid_"),
        ("[checks.gpu_temperature]\nfail_c = 80\n", "checks.gpu_temperature.fail_c"),
        (CLASS + "[class.references]\nib_rates = {value = 400, lower = 0}\n", "class[k].references.ib_rates"),
        (
            CLASS + "[class.references]\nib_rate = {value = 4, lower = 0, unit = 'GB/s'}\n",
            "class[k].references.ib_rate.unit",
        ),
    ],
)
def test_slips_that_the_built_in_checks_know(tmp_path: Path, text: str, key: str) -> None:
    assert [problem.key for problem in load.read(places_with(tmp_path, text)).problems] == [key]


def test_what_the_built_in_checks_take(tmp_path: Path) -> None:
    text = "[policy]\ngpu_xid.999 = 'NOTE'\ngpu_xid.sxid_20034 = 'WARN'\n" + CLASS
    text += "[class.references]\nib_symbol_errors_per_h = {value = 9, upper = 0.0, unit = 'errors per h'}\n"
    assert [str(problem) for problem in load.read(places_with(tmp_path, text)).problems] == []
