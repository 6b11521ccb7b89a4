"""The gateway through Slurm's programs, here doubles that replay what real ones printed."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from slurm_guard.core.errors import SlurmError, SlurmRefusedError, SlurmUnreachableError
from slurm_guard.slurm.command_gateway import CommandGateway
from slurm_guard.slurm.gateway import plain_job_id, plain_node_name

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "slurm"
VERSIONS = sorted(folder.name for folder in GOLDEN.iterdir())
LONG = 60.0
PROGRAM = """#!{python} -IS
import json, re, sys
told = json.load(open(__file__ + ".json"))
with open(__file__ + ".log", "a") as log:
    print(json.dumps(sys.argv[1:]), file=log)
token = re.search("~[0-9a-f]{{16}}~", " ".join(sys.argv))
output = told["output"].replace("<TOKEN>", token.group() if token else "")
sys.stdout.write(output)
sys.stderr.write(told["problem"])
sys.exit(told["status"])
"""


class Programs:
    """Doubles of Slurm's programs in a folder; each replays what `says` gave it and logs its arguments."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("scontrol", "sinfo", "squeue", "sacct"):
            path = folder / name
            path.write_text(PROGRAM.format(python=sys.executable))
            path.chmod(0o755)
            self.says(name)

    def says(self, name: str, output: str = "", problem: str = "", status: int = 0) -> None:
        told = {"output": output, "problem": problem, "status": status}
        (self.folder / f"{name}.json").write_text(json.dumps(told))

    def log(self, name: str) -> list[list[str]]:
        path = self.folder / f"{name}.log"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def gateway(self, **options: bool) -> CommandGateway:
        paths = {name: str(self.folder / name) for name in ("scontrol", "sinfo", "squeue", "sacct")}
        return CommandGateway(paths, "/etc/slurm/slurm.conf", **options)


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("as_json", [False, True])
def test_nodes_come_from_one_call(programs: Programs, version: str, as_json: bool) -> None:
    programs.says("sinfo", (GOLDEN / version / ("sinfo.json" if as_json else "nodes.txt")).read_text())
    gateway = programs.gateway(json=as_json)
    assert sorted(node.name for node in gateway.nodes(deadline=LONG)) == ["n1", "n2", "n3", "n4"]
    assert gateway.node("n2", LONG).reason == "SG:ib_link.down mlx5_2/1"
    assert gateway.calls == len(programs.log("sinfo")) == 2
    assert "--local" in programs.log("sinfo")[0]
    assert programs.log("sinfo")[1][2:4] == ["-n", "n2"]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("as_json", [False, True])
def test_jobs(programs: Programs, version: str, as_json: bool) -> None:
    programs.says("squeue", (GOLDEN / version / ("squeue.json" if as_json else "jobs.txt")).read_text())
    gateway = programs.gateway(json=as_json)
    assert gateway.job(7, LONG) is not None
    assert len(gateway.jobs_on("n4", LONG)) >= 7
    assert "7" in programs.log("squeue")[0]
    assert "n4" in programs.log("squeue")[1]


def test_each_call_has_a_token_of_its_own(programs: Programs) -> None:
    programs.says("sinfo", (GOLDEN / "22.05" / "nodes.txt").read_text())
    gateway = programs.gateway()
    gateway.nodes(deadline=LONG)
    gateway.nodes(deadline=LONG)
    first, second = programs.log("sinfo")
    assert first[-1] != second[-1]


def test_accounting(programs: Programs) -> None:
    programs.says("sacct", (GOLDEN / "22.05" / "runs.txt").read_text())
    assert "REQUEUED" in {run.state for run in programs.gateway().accounting(5, LONG)}
    assert "-D" in programs.log("sacct")[0]
    programs.says("sacct")
    assert programs.gateway().accounting("5_2", LONG) == []
    programs.says("sacct", "", "Slurm accounting storage is disabled\n", 1)
    with pytest.raises(SlurmError, match="accounting storage is disabled"):
        programs.gateway().accounting(5, LONG)


def test_drain_and_resume_are_one_argument_each(programs: Programs) -> None:
    gateway = programs.gateway()
    gateway.drain("n3", 'SG:fs_mounts.hung "/x y"\n$(id)', LONG)
    gateway.resume("n3", LONG)
    assert programs.log("scontrol") == [
        ["update", "nodename=n3", "state=drain", "reason=SG:fs_mounts.hung /x y (id)"],
        ["update", "nodename=n3", "state=resume"],
    ]


@pytest.mark.parametrize(
    "name",
    [
        "n[1-3]",
        "n1,n2",
        "ALL",
        "all",
        "",
        " n1",
        "n1 ",
        "-n1",
        "n1 state=down",
        "n1\n",
        "n*",
        "@x",
        "n" * 300,
    ],
)
def test_what_is_not_one_plain_name_never_reaches_slurm(programs: Programs, name: str) -> None:
    gateway = programs.gateway()
    for act in (lambda: gateway.drain(name, "x"), lambda: gateway.resume(name), lambda: gateway.node(name)):
        with pytest.raises(SlurmError, match="not a single NodeName"):
            act()
    with pytest.raises(SlurmError):
        gateway.jobs_on(name)
    assert gateway.calls == 0


@pytest.mark.parametrize("job_id", ["", "12;id", "-1", "12_", "abc", "1 2", "12\n"])
def test_what_is_not_a_job_id_never_reaches_slurm(programs: Programs, job_id: str) -> None:
    gateway = programs.gateway()
    for act in (gateway.job, gateway.accounting):
        with pytest.raises(SlurmError, match="not a job id"):
            act(job_id)
    assert gateway.calls == 0


@pytest.mark.parametrize("job_id", [12, "12", "12_3", "12+1"])
def test_job_ids(job_id: int | str) -> None:
    assert plain_job_id(job_id) == str(job_id)


@pytest.mark.parametrize("name", ["n1", "gpu-node_01.example.org", "a:b", "x+y", "_q"])
def test_node_names(name: str) -> None:
    assert plain_node_name(name) == name


@pytest.mark.parametrize("reason", ["", "  ", '"', "\n", "ü"])
def test_no_drain_without_a_reason(programs: Programs, reason: str) -> None:
    with pytest.raises(SlurmError, match="without a reason"):
        programs.gateway().drain("n3", reason)
    assert not programs.log("scontrol")


def test_many_nodes_are_drained_in_one_call(programs: Programs) -> None:
    programs.gateway().drain_many(["n3", "n5"], "SG:gpu_xid.79 gpu1", LONG, "a note")
    (call,) = programs.log("scontrol")
    assert call[:3] == ["update", "nodename=n3,n5", "state=drain"]
    with pytest.raises(SlurmError, match="single NodeName"):
        programs.gateway().drain_many(["n3", "n[5-9]"], "SG:gpu_xid.79 gpu1", LONG)
    with pytest.raises(SlurmError, match="without a node"):
        programs.gateway().drain_many([], "SG:gpu_xid.79 gpu1", LONG)
    assert len(programs.log("scontrol")) == 1


def test_a_name_that_slurm_does_not_know_is_an_error_and_not_a_state(programs: Programs) -> None:
    """sinfo answers nothing, with exit status 0."""
    with pytest.raises(SlurmRefusedError, match=r"NodeName as in slurm\.conf"):
        programs.gateway().node("mem04.", LONG)
    with pytest.raises(SlurmError, match="no node at all"):
        programs.gateway().nodes(deadline=LONG)


def test_another_nodes_answer_is_not_this_nodes_state(programs: Programs) -> None:
    programs.says("sinfo", (GOLDEN / "22.05" / "nodes.txt").read_text())
    with pytest.raises(SlurmError, match="told nothing about node 'n9'"):
        programs.gateway().node("n9", LONG)


def test_no_names_no_call(programs: Programs) -> None:
    gateway = programs.gateway()
    assert gateway.nodes([]) == []
    assert gateway.calls == 0


REFUSALS = [line for path in sorted(GOLDEN.glob("*/refusals.txt")) for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    "says", [*REFUSALS, "slurm_update error: Invalid user id", "scontrol: Access/permission denied"]
)
def test_refusals(programs: Programs, says: str) -> None:
    programs.says("scontrol", "", says + "\n", 1)
    with pytest.raises(SlurmRefusedError, match="exit status 1"):
        programs.gateway().drain("n3", "x", LONG)


@pytest.mark.parametrize(
    "says",
    [
        "slurm_load_node error: Unable to contact slurm controller (connect failure)",
        "slurm_update error: Unable to contact slurm controller (connect failure)",
        "slurm_load_jobs error: Socket timed out on send/recv operation",
        "sinfo: error: Munge encode failed: Failed to access a socket: No such file or directory",
        "sinfo: fatal: Could not establish a configuration source",
    ],
)
@pytest.mark.parametrize("status", [0, 1])
def test_unreachable_even_if_the_program_ends_with_zero(programs: Programs, says: str, status: int) -> None:
    programs.says("sinfo", "", says + "\n", status)
    with pytest.raises(SlurmUnreachableError):
        programs.gateway().nodes(deadline=LONG)


@pytest.mark.parametrize(("problem", "status"), [("", 1), ("slurm_update error: Gremlins", 1), ("", 139)])
def test_any_other_failure(programs: Programs, problem: str, status: int) -> None:
    programs.says("scontrol", "", problem, status)
    with pytest.raises(SlurmError, match=f"exit status {status}") as caught:
        programs.gateway().resume("n3", LONG)
    assert type(caught.value) is SlurmError


def test_a_warning_beside_an_answer_is_no_error(programs: Programs) -> None:
    warning = "sinfo: error: Duplicated NodeHostName vm in config file\n"
    programs.says("sinfo", (GOLDEN / "26.05" / "nodes.txt").read_text(), warning)
    assert len(programs.gateway().nodes(deadline=LONG)) == 4


def test_a_hanging_controller_costs_the_deadline_and_no_more(tmp_path: Path) -> None:
    path = tmp_path / "scontrol"
    path.write_text("#!/bin/sh\nexec sleep 300\n")
    path.chmod(0o755)
    gateway = CommandGateway({"scontrol": str(path)})
    with pytest.raises(SlurmUnreachableError, match=r"within 0\.1 s"):
        gateway.drain("n3", "x", 0.1)
    assert gateway.calls == 1


def test_a_job_that_slurm_forgot_is_none(programs: Programs) -> None:
    programs.says("squeue", "", "slurm_load_jobs error: Invalid job id specified\n", 1)
    assert programs.gateway().job(4711, LONG) is None
    programs.says("squeue", "", "slurm_load_jobs error: Access/permission denied\n", 1)
    with pytest.raises(SlurmRefusedError):
        programs.gateway().job(4711, LONG)


def job_line(admin_comment: str) -> str:
    fields = [
        "31",
        "31",
        "N/A",
        "N/A",
        "RUNNING",
        "eve",
        "4001",
        "(null)",
        "gpu",
        "N/A",
        "N/A",
        "N/A",
        "0",
        "0:0",
    ]
    return "".join(f"{field}<TOKEN>" for field in [*fields, "n1", "cpu=1", "None", admin_comment, "x"]) + "\n"


def test_the_admin_comment_is_set_only_if_it_is_empty(programs: Programs) -> None:
    programs.says("squeue", job_line("(null)"))
    gateway = programs.gateway()
    assert gateway.set_admin_comment(31, "n1 refused:\n`ib_link.down`", LONG)
    assert programs.log("scontrol") == [["update", "jobid=31", "admincomment=n1 refused: ib_link.down"]]
    assert gateway.calls == 2
    programs.says("squeue", job_line("billing: project X"))
    assert not gateway.set_admin_comment(31, "n1 refused", LONG)
    assert len(programs.log("scontrol")) == 1


def test_a_program_that_the_plan_does_not_name_is_looked_for_in_fixed_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_guard.slurm.command_gateway.FOLDERS", (str(tmp_path),))
    with pytest.raises(SlurmUnreachableError, match=r"slurm\.programs"):
        CommandGateway().nodes()
    Programs(tmp_path).says("sinfo", (GOLDEN / "24.11" / "nodes.txt").read_text())
    assert len(CommandGateway().nodes(deadline=LONG)) == 4
