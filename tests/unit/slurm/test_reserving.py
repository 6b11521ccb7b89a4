"""Reservations as `scontrol` tells them, and the argv by which they are made and used."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.errors import SlurmError, SlurmRefusedError
from slurm_guard.slurm import command
from slurm_guard.slurm.command import Reply
from slurm_guard.slurm.gateway import NodeState
from slurm_guard.slurm.reserving import ReservingGateway, parse

TAIL = "Features=(null) PartitionName=(null) Flags={flags} TRES=cpu=96 Users={users} Groups=(null) "
TAIL += "Accounts=(null) Licenses=(null) State={state} BurstBuffer=(null) "
WHEN = "StartTime=2031-03-04T05:06:07 EndTime=2032-03-03T05:06:07 Duration=365-00:00:00 "


def line(name: str, nodes: str, more: str, **fields: str) -> str:
    told = {"flags": "MAINT,IGNORE_JOBS,SPEC_NODES", "users": "root", "state": "ACTIVE", **fields}
    return f"ReservationName={name} {WHEN}Nodes={nodes} NodeCnt=1 CoreCnt=96 {TAIL.format(**told)}{more}\n"


#: What stands at the end of a line: the oldest and the newer versions.
ENDS = [
    "Watts=n/a MaxStartDelay=(null)",
    "MaxStartDelay=(null) ",
    "MaxStartDelay=(null) Comment=x Nodes=g9 Users=root State=INACTIVE",
]


@pytest.mark.parametrize("end", ENDS)
def test_every_field_that_counts(end: str) -> None:
    found = parse(
        line("dimm swap=1", "g[07-08],g11", end, users="ada,bob", flags="maint")
        + line("x", "(null)", end, users="(null)", state="INACTIVE")
    )
    assert [one.name for one in found] == ["dimm swap=1", "x"]
    assert found[0].nodes == {"g07", "g08", "g11"}
    assert (found[0].users, found[0].flags, found[0].state) == (("ada", "bob"), {"MAINT"}, "ACTIVE")
    assert (found[1].nodes, found[1].users, found[1].state) == (frozenset(), (), "INACTIVE")


@pytest.mark.parametrize("text", ["No reservations in the system\n", "", "\n"])
def test_none(text: str) -> None:
    assert parse(text) == []


@pytest.mark.parametrize(
    "text", ["slurm_load_reservations error", "NodeName=g1 State=IDLE", line("x", "g[", "")]
)
def test_what_cannot_be_read_is_an_error_and_not_none(text: str) -> None:
    with pytest.raises(SlurmError):
        parse(text)


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    try:
        found = parse(text)
    except SlurmError:
        return
    assert len(found) <= len(text.splitlines())


class Said:
    """Slurm's programs: argv as they were started, and what each answers."""

    def __init__(self, **answers: str | Reply) -> None:
        self.answers = answers
        self.argv: list[list[str]] = []

    def __call__(self, argv: list[str], conf: str, deadline: float, largest: int = 0) -> Reply:
        self.argv.append(argv)
        answer = self.answers.get(argv[0].rpartition("/")[2], "")
        if isinstance(answer, Reply):
            return answer
        return Reply(0, re.sub("@", argv[-1].rpartition(":")[2], answer).encode(), "")


def door(monkeypatch: pytest.MonkeyPatch, **answers: Any) -> tuple[ReservingGateway, Said]:
    said = Said(**answers)
    monkeypatch.setattr(command, "run", said)
    programs = {name: f"/opt/s/{name}" for name in ("scontrol", "sinfo", "squeue", "srun", "scancel")}
    return ReservingGateway(programs), said


def test_a_reservation_is_for_one_node_root_and_maintenance_and_has_no_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gateway, said = door(monkeypatch)
    gateway.reserve("sguard_verify/g1/0/SG:x%20y", "g1")
    assert said.argv[0][:3] == ["/opt/s/scontrol", "create", "reservation"]
    assert set(said.argv[0][3:]) == {
        "reservationname=sguard_verify/g1/0/SG:x%20y", "nodes=g1", "users=root", "flags=maint,ignore_jobs",
        "starttime=now", "duration=infinite",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["", "a b", "a,b", "a\nb", "x" * 401, "a=b", "-x;y"])
def test_no_other_name_reaches_slurm(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    gateway, said = door(monkeypatch)
    for act in (
        lambda: gateway.reserve(name, "g1"),
        lambda: gateway.unreserve(name),
        lambda: gateway.cancel_in(name),
    ):
        with pytest.raises(SlurmError):
            act()
    with pytest.raises(SlurmError):
        gateway.reserve("x", "g[1-9]")
    assert said.argv == []


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ("delete_reservation x: Requested reservation is invalid", None),
        ("delete_reservation x: Requested reservation is in use", SlurmError),
        ("delete_reservation x: Access/permission denied", SlurmRefusedError),
    ],
)
def test_a_reservation_that_is_gone_needs_no_removal(
    monkeypatch: pytest.MonkeyPatch, words: str, error: type[SlurmError] | None
) -> None:
    gateway, _ = door(monkeypatch, scontrol=Reply(1, b"", words))
    if error is None:
        gateway.unreserve("x")
        return
    with pytest.raises(error):
        gateway.unreserve("x")


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [
        ("gpu:h100:8", ["gpu:h100:8"]),
        ("gpu:a100_1g.5gb:14(S:0-1),gpu:4(S:1),nic:2", ["gpu:a100_1g.5gb:14", "gpu:4"]),
        ("shard:64,gpu_mem:80", []),
        ("(null)", []),
    ],
)
def test_the_gpus_of_a_node(monkeypatch: pytest.MonkeyPatch, gres: str, gpus: list[str]) -> None:
    gateway, _ = door(monkeypatch, sinfo=f"{gres}@\n{gres}@\n")
    assert gateway.gpus_of("g1") == gpus


def test_a_job_gets_the_whole_node_in_its_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, said = door(monkeypatch)
    monkeypatch.setattr(gateway, "node", lambda name: NodeState(name, "idle", partitions=("day", "night")))
    monkeypatch.setattr(gateway, "gpus_of", lambda name: ["gpu:h100:8"])
    gateway.run_in("x", "g1", ["/bin/true", "a b"], 20, 61)
    argv = said.argv[-1]
    assert argv[0] == "/opt/s/srun"
    assert argv[-2:] == ["/bin/true", "a b"]
    assert {"--reservation=x", "--nodelist=g1", "--partition=day,night", "--gres=gpu:h100:8"} <= set(argv)
    assert {"--exclusive", "--immediate=20", "--time=2", "--chdir=/"} <= set(argv)
