"""Drains and resumes by hand: whose node it is, and what stays on record."""

from __future__ import annotations

import json
import os
import pwd
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard import actions
from slurm_guard.core import plan as plans
from slurm_guard.core import reason as reasons
from slurm_guard.core.errors import OwnershipError, SlurmRefusedError, SlurmUnreachableError
from slurm_guard.core.paths import Places
from slurm_guard.core.plan import Plan
from slurm_guard.engine import faults, files
from tests.unit.cli.slurm_stub import StubGateway, drained, idle

CHECKS = ("gpu_xid", "ib_link", "fs_mounts", "nvml")


@pytest.mark.parametrize(
    ("words", "device", "expected"),
    [
        (["gpu_xid.79"], "gpu3", ("SG:gpu_xid.79 gpu3", "gpu_xid.79", "gpu3")),
        (["fs_mounts.hung"], "/scratch", ("SG:fs_mounts.hung /scratch", "fs_mounts.hung", "/scratch")),
        (["ib_link"], "", ("SG:ib_link", "ib_link", "")),
        (["replace", "fan", "2"], "", ("replace fan 2", "", "")),
        (['$(reboot) "now"\n'], "", ("(reboot) now", "", "")),
        (["maintenance"], "", ("maintenance", "", "")),
        (["ib_link.", "is", "down"], "", ("ib_link. is down", "", "")),
        (["ib_link", "is", "down"], "", ("ib_link is down", "", "")),
        (["nvml", "hangs"], "", ("nvml hangs", "", "")),
        (["gpu_xid.79"], "gpu33", ("SG:gpu_xid.79 gpu33", "gpu_xid.79", "gpu33")),
        (["gpu_xid.998"], "gpu0", ("SG:gpu_xid.998 gpu0", "gpu_xid.998", "gpu0")),
    ],
)
def test_what_a_command_line_means(words: list[str], device: str, expected: tuple[str, str, str]) -> None:
    found = actions.wanted(words, device, CHECKS)
    assert (found.reason, found.fault, found.device) == expected


@pytest.mark.parametrize(
    ("words", "device", "said"),
    [
        ([""], "", "the reason is empty"),
        (["\n\t"], "", "the reason is empty"),
        (["SG:gpu_xid.79", "gpu3"], "", "without its mark"),
        (["sgj:ib_link"], "", "without its mark"),
        (["gpu_xdi.79"], "", "no check has that name"),
        (["gpu_xid.7999"], "gpu3", "gpu_xid has no fault '7999'; "),
        (["fs_mounts.hugn"], "/scratch", "did you mean fs_mounts.hung?"),
        (["ib_link.frobnicated", "again"], "", "`sguard check show ib_link` lists them"),
        (["replace", "fan"], "gpu3", "has no device"),
        (["fs_mounts.hung", "scratch"], "", "`fs_mounts.hung --device scratch`"),
        (["gpu_xid.79 gpu3 since noon"], "", "`gpu_xid.79 --device gpu3`"),
        (["ib_link", "mlx5_0/1"], "", "`ib_link --device mlx5_0/1`"),
        (["gpu_xid.79"], "gpu33", "gpu0 to gpu7"),
        (["gpu_xid.79"], "gpu8/mig1", "gpu0 to gpu7"),
        (["fs_mounts.hung"], "scratch", "expected the path of a mount, e.g. /scratch"),
        (["fs_mounts.hung"], "/scrtach", "no such mount; /scratch, /local"),
    ],
)
def test_what_is_refused_before_slurm_is_asked(words: list[str], device: str, said: str) -> None:
    expected = {"gpus": 8, "mounts": [{"path": "/scratch"}, {"path": "/local"}]}
    with pytest.raises(ValueError, match=re.escape(said)):
        actions.wanted(words, device, CHECKS, expected)


@given(st.lists(st.text(max_size=60), max_size=4), st.text(max_size=20))
def test_a_text_is_never_taken_for_a_reason_of_ours(words: list[str], device: str) -> None:
    try:
        found = actions.wanted(words, device, CHECKS)
    except ValueError:
        return
    assert found.reason.isascii()
    assert "\n" not in found.reason
    assert (reasons.parse(found.reason) is not None) == bool(found.fault)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(str(tmp_path))


def records(places: Places) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(Path(places.spool).glob("*.json"))]


def test_drain_writes_to_slurm_and_to_the_spool(places: Places) -> None:
    slurm = StubGateway(idle("n2"))
    done = actions.drain(slurm, places, Plan({}, "n1"), "n2", actions.wanted(["gpu_xid.79"], "gpu3", CHECKS))
    actions.ensure(done.outcome)
    assert slurm.written == [("drain", "n2", "SG:gpu_xid.79 gpu3")]
    assert done.unrecorded == ""
    (record,) = records(places)
    assert (record["kind"], record["by"], record["node"], record["machine"]) == ("action", "cli", "n2", {})
    assert record["user"] == actions.person()
    (action,) = record["actions"]
    assert (action["action"], action["fault"], action["device"]) == ("drain", "gpu_xid.79", "gpu3")
    assert (action["outcome"], action["reason"], action["calls"]) == ("done", "SG:gpu_xid.79 gpu3", 2)


@pytest.mark.parametrize(
    "reason", ["waiting for parts", "SG:gpu_xid.79 gpu3 T-4711", "", "Not responding", "Prolog error"]
)
def test_nobody_elses_reason_is_overwritten(places: Places, reason: str) -> None:
    slurm = StubGateway(drained("n2", reason, user="alice"))
    order = actions.wanted(["ib_link.down"], "mlx5_0/1", CHECKS)
    done = actions.drain(slurm, places, Plan({}, "n1"), "n2", order)
    assert slurm.written == []
    with pytest.raises(OwnershipError, match="nothing was written"):
        actions.ensure(done.outcome)
    assert records(places)[0]["actions"][0]["outcome"] == "held"


@pytest.mark.parametrize("reason", ["SG:gpu_xid.79 gpu3", "look at its fans"])
def test_the_same_reason_again_is_done_and_not_on_record(places: Places, reason: str) -> None:
    slurm = StubGateway(drained("n2", reason, user="root"))
    done = actions.drain(slurm, places, Plan({}, "n1"), "n2", actions.Wanted(reason))
    actions.ensure(done.outcome)
    assert done.outcome.why.startswith(
        f"n2 is drained already, by root since 2026-09-21T14:13:20.000Z, with '{reason}'"
    )
    assert (slurm.written, records(places)) == ([], [])


def test_another_reason_does_not_replace_our_own_on_record_either(places: Places) -> None:
    """Else `resume` would compare the node's reason with one that was never written."""
    slurm = StubGateway(drained("n2", "SG:gpu_xid.79 gpu3"))
    done = actions.drain(slurm, places, Plan({}, "n1"), "n2", actions.Wanted("please look"))
    with pytest.raises(
        OwnershipError, match=r"drained already, by root .* with 'SG:gpu_xid.79 gpu3'; .*sguard resume"
    ):
        actions.ensure(done.outcome)
    assert slurm.written == []
    assert [one["outcome"] for one in records(places)[0]["actions"]] == ["held"]


def test_a_node_that_slurm_does_not_know_is_not_put_on_record(places: Places) -> None:
    done = actions.drain(StubGateway(idle("n2")), places, Plan({}, "n1"), "nope", actions.Wanted("text"))
    with pytest.raises(SlurmRefusedError):
        actions.ensure(done.outcome)
    assert (done.unrecorded, records(places)) == ("", [])


@pytest.mark.parametrize("error", [SlurmUnreachableError("no answer"), SlurmRefusedError("Invalid user id")])
def test_slurms_errors_are_on_record_and_raised(places: Places, error: Exception) -> None:
    slurm = StubGateway(idle("n2"))
    slurm.error = error  # type: ignore[assignment]
    done = actions.drain(slurm, places, Plan({}, "n1"), "n2", actions.Wanted("text"))
    with pytest.raises(type(error)):
        actions.ensure(done.outcome)
    action = records(places)[0]["actions"][0]
    assert (action["outcome"], action["answer"]) == ("failed", str(error))


def test_resume_of_our_own_drain(places: Places) -> None:
    slurm = StubGateway(drained("n2", "SG:gpu_xid.79 gpu3"))
    done = actions.resume(slurm, places, Plan({}, "n1"), "n2", "SG:gpu_xid.79 gpu3")
    actions.ensure(done.outcome)
    assert slurm.written == [("resume", "n2", "")]
    action = records(places)[0]["actions"][0]
    assert (action["action"], action["fault"], action["device"]) == ("resume", "gpu_xid.79", "gpu3")


def test_an_edited_reason_is_not_resumed(places: Places) -> None:
    slurm = StubGateway(drained("n2", "SG:gpu_xid.79 gpu4"))
    done = actions.resume(slurm, places, Plan({}, "n1"), "n2", "SG:gpu_xid.79 gpu3")
    assert not done.outcome
    assert slurm.written == []


def test_resume_on_the_node_itself_closes_its_open_faults(places: Places) -> None:
    Path(places.var).mkdir(parents=True)
    files.write_json(places.faults, {"version": 1, "open": {"a": {"check": "a"}}, "drained": {"reason": "x"}})
    slurm = StubGateway(drained("n2", "SG:gpu_xid.79 gpu3"))
    actions.resume(slurm, places, Plan({}, "n2"), "n2")
    found = faults.load(places)
    assert (found.open, found.drained) == ({}, None)


def test_a_drain_without_a_record_says_so(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(actions.spool, "write", refuse)
    done = actions.drain(StubGateway(idle("n2")), places, Plan({}, "n1"), "n2", actions.Wanted("text"))
    assert done.outcome
    assert done.unrecorded.startswith(f"not on record: {places.spool}: Permission denied")


@pytest.mark.parametrize(
    ("login", "expected"), [("1", 1), (str(0xFFFFFFFF), None), ("garbage", None), (None, None)]
)
def test_the_person_behind_sudo(
    login: str | None, expected: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(*_: Any, **__: Any) -> str:
        if login is None:
            raise FileNotFoundError
        return login

    monkeypatch.setattr(actions.Path, "read_text", read)
    uid = os.getuid() if expected is None else expected
    assert actions.person() == pwd.getpwuid(uid).pw_name


def test_a_plan_without_owners_knows_root() -> None:
    assert "root" in plans.DEFAULTS["owners"]
