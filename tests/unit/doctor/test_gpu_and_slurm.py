"""NVML and the controller: asked with deadlines, as the hooks ask."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.errors import SlurmError
from slurm_guard.doctor import controller, gpu
from slurm_guard.doctor.words import one_sentence
from slurm_guard.engine import child
from tests.unit.doctor.sites import NODE, script, site, told

if TYPE_CHECKING:
    from collections.abc import Callable

FACTS = {
    "state": "ok",
    "error": "",
    "binding": True,
    "driver_version": "570.11",
    "count": 4,
    "library": "/l.so",
}
GPUS = "[[class]]\nname = 'k'\nnodes = 'c[1-9]'\ngpus = 4\n"


def answer(**changes: Any) -> Callable[[Any, Any], dict[str, Any]]:
    return lambda places, request: {**FACTS, **changes}


# name: (configuration, what NVML says, status and start of the sentence, part of the remedy)
CASES = {
    "all there": (GPUS, {}, ("pass", "NVML loads, driver 570.11: 4 GPUs"), ""),
    "one is gone": (
        GPUS,
        {"count": 3},
        ("fail", "NVML loads, driver 570.11: 3 of 4 GPUs"),
        "sguard check run",
    ),
    "one cannot be read": (
        GPUS,
        {"gpus": [{"index": 2, "error": "GpuIsLost"}, {"index": 1, "error": None}]},
        ("fail", "NVML loads, driver 570.11, but cannot read gpu2 (GpuIsLost)"),
        "sguard check run",
    ),
    "no library, none expected": (
        "",
        {"state": "no_library", "error": "e"},
        ("skip", "NVML: no_library: e"),
        "",
    ),
    "no library": (GPUS, {"state": "no_library", "error": "e"}, ("fail", "NVML: no_library: e"), "`library`"),
    "library named": (
        "",
        {"state": "no_library", "library_named": True},
        ("fail", "NVML: no_library"),
        "install the driver",
    ),
    "no driver": (GPUS, {"state": "no_driver"}, ("fail", "NVML: no_driver: no further word"), "modprobe"),
    "mismatch": ("", {"state": "mismatch"}, ("fail", "NVML: mismatch"), "reload the module"),
    "no binding": (
        GPUS,
        {"state": "no_library", "binding": False},
        ("fail", "NVML: no_library"),
        "nvidia-ml-py",
    ),
    "something else": ("", {"state": "error", "error": "E99"}, ("fail", "NVML: error: E99"), "nvidia-smi"),
}


@pytest.mark.parametrize("name", CASES)
def test_what_nvml_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    config, changes, expected, remedy = CASES[name]
    monkeypatch.setattr(gpu.nvml, "read", answer(**changes))
    (found,) = gpu.examine(site(tmp_path, config=config))
    assert found.status == expected[0]
    assert found.what.startswith(expected[1])
    assert remedy in found.remedy


def hang(places: Any, request: Any) -> None:
    signal.pause()


def die(places: Any, request: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("misbehave", [hang, die])
def test_nvml_that_hangs_or_dies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, misbehave: Callable[[Any, Any], None]
) -> None:
    monkeypatch.setattr(gpu.nvml, "read", misbehave)
    monkeypatch.setattr(gpu, "DEADLINE_S", 0.3)
    assert told(gpu.examine, site(tmp_path)) == [("fail", "NVML gave no answer within 0.3 s")]


def test_nvml_that_hangs_already_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subject = site(tmp_path)
    me = {"probe": "nvml", "key": "", "pid": os.getpid(), "start_time": child.start_time(os.getpid())}
    Path(subject.places.run).mkdir(parents=True)
    Path(subject.places.state).write_text(json.dumps({"left_behind": [me]}))
    monkeypatch.setattr(gpu, "ask", lambda subject: pytest.fail("NVML was asked again"))
    ((status, _),) = told(gpu.examine, subject)
    assert status == "unknown"


def cluster(root: Path, program: str) -> Any:
    """A site whose Slurm programs are all the same script."""
    for name in ("scontrol", "sinfo", "squeue", "sacct"):
        script(root / "bin" / name, program)
    return site(root, config=f"[slurm]\nbin = '{root}/bin'\n")


def test_a_controller_that_is_down(tmp_path: Path) -> None:
    program = "#!/bin/sh\necho 'slurm_load_node error: Unable to contact slurm controller' >&2\nexit 1\n"
    ((status, what),) = told(controller.examine, cluster(tmp_path, program))
    assert status == "fail"
    assert what.startswith("the controller does not answer")


def test_a_controller_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller, "DEADLINE_S", 0.3)
    ((status, what),) = told(controller.examine, cluster(tmp_path, "#!/bin/sh\nexec sleep 30\n"))
    assert status == "fail"
    assert what.startswith("the controller does not answer")


def test_a_node_that_slurm_does_not_know(tmp_path: Path) -> None:
    program = "#!/bin/sh\necho 'error: Invalid node name specified' >&2\nexit 1\n"
    found = [one for one in controller.examine(cluster(tmp_path, program)) if one.status != "pass"]
    assert [one.status for one in found] == ["warn"]
    assert "node.json" in found[0].remedy


def test_a_controller_that_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from slurm_guard.slurm.gateway import NodeState

    monkeypatch.setattr(
        controller.CommandGateway, "node", lambda self, name, deadline: NodeState(name, "idle", ["DRAIN"])
    )
    found = list(controller.examine(cluster(tmp_path, "#!/bin/sh\nexit 0\n")))
    assert [one.status for one in found] == ["pass", "pass"]
    assert found[1].what == f"the controller answers: node {NODE} is IDLE+DRAIN"


def test_programs_that_are_missing(tmp_path: Path) -> None:
    subject = site(tmp_path, config=f"[slurm]\nbin = '{tmp_path}/nothing'\n")
    subject.plan.programs = {"sinfo": "/nowhere/sinfo"}
    assert told(controller.examine, subject) == [
        ("fail", "the plan names no scontrol, squeue, sacct"),
        ("fail", "/nowhere/sinfo cannot be executed"),
    ]


def test_without_a_plan_only_what_apply_cannot_find_is_told(tmp_path: Path) -> None:
    subject = site(tmp_path, config=f"[slurm]\nbin = '{tmp_path}/bin'\n")
    subject.plan.state, subject.plan.programs = "default", {}
    assert told(controller.examine, subject) == [
        ("fail", "scontrol, sinfo, squeue, sacct: not in the usual places")
    ]
    for name in ("scontrol", "sinfo", "squeue", "sacct"):
        script(tmp_path / "bin" / name, "#!/bin/sh\nexit 1\n")
    assert not any("usual places" in what for _, what in told(controller.examine, subject))


# what the gateway says: what a person reads
SAID = {
    "scontrol: slurm_load_node error: Unable to contact slurm controller (exit status 1)": (
        "scontrol: Unable to contact slurm controller"
    ),
    "sinfo: sinfo: error: fetch_config: DNS SRV lookup failed sinfo: error: _init_config: no config "
    "sinfo: fatal: Could not establish a configuration source (exit status 1)": (
        "sinfo: Could not establish a configuration source"
    ),
    "sinfo: error: s_p_parse_file: cannot stat file /x: No such file sinfo: error: again (exit status 1)": (
        "sinfo: cannot stat file /x: No such file"
    ),
    "sinfo gave no answer within 3 s; is slurmctld up?": "sinfo gave no answer within 3 s; is slurmctld up?",
    "no node n1, or it is in no partition; expected its NodeName as in slurm.conf": (
        "no node n1, or it is in no partition; expected its NodeName as in slurm.conf"
    ),
    f"sinfo: {'x' * 300}": f"sinfo: {'x' * 92}…",
    "": "",
}


@pytest.mark.parametrize("said", SAID)
def test_slurms_own_words_become_one_sentence(said: str) -> None:
    assert one_sentence(SlurmError(said)) == SAID[said]


@given(st.text(max_size=300))
def test_any_words_become_one_short_line(said: str) -> None:
    sentence = one_sentence(SlurmError(said))
    assert len(sentence) <= 100
    assert len(sentence.splitlines()) <= 1
