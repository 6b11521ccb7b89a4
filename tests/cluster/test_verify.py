"""`sguard resume --verify` on a real Slurm: proven nodes come back, others stay, nothing is left behind."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from slurm_guard.slurm.reserving import ReservingGateway
from slurm_guard.verify import fence

from .conftest import SGUARD, Guarded, guarded
from .ssh_nodes import SshNodes, ssh_nodes

LINK = "SG:ib_link.down mlx5_0/1"
PORT = "mlx5_0/1"


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Guarded]:
    with guarded(nodes=2) as found:
        yield found


@pytest.fixture
def door(cluster: Guarded) -> ReservingGateway:
    return ReservingGateway({}, str(cluster.cluster.conf_path))


@pytest.fixture(autouse=True)
def drained_node(cluster: Guarded) -> Iterator[None]:
    """n1 is drained for a link that is down; afterwards no reservation is left."""
    cluster.cluster.node("n1").fault("ib_link.down", PORT)
    for _ in range(2):
        cluster.healthcheck("n1")
    assert cluster.reason("n1") == LINK
    yield
    left = reservations(cluster)
    for name in left:
        cluster.slurm("scontrol", "delete", f"reservationname={name}", check=False)
    assert left == []


def command(cluster: Guarded, *options: str) -> list[str]:
    return [str(SGUARD), "resume", "n1", "--verify", "--root", str(cluster.root("n1")), *options]


def verify(cluster: Guarded, *options: str) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [*command(cluster, "--json"), *options], capture_output=True, text=True, timeout=200, check=False
    )
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def reservations(cluster: Guarded) -> list[str]:
    door = ReservingGateway({}, str(cluster.cluster.conf_path))
    return [one.name for one in door.reservations(30)]


def assert_stays(cluster: Guarded) -> None:
    """Drained for what it was; the job that was to prove it may still be ending."""
    assert cluster.reason("n1") == LINK
    assert cluster.state("n1").startswith("drain")
    cluster.wait(lambda: cluster.state("n1") == "drained")


@contextmanager
def reserved(cluster: Guarded, name: str, *changes: str) -> Iterator[None]:
    """Somebody else's reservation."""
    what = {
        "starttime": "now",
        "duration": "30",
        "users": "root",
        "nodes": "n1",
        "flags": "maint,ignore_jobs",
    }
    what.update(dict(change.split("=") for change in changes))
    words = [f"{key}={value}" for key, value in what.items()]
    cluster.slurm("scontrol", "create", "reservation", f"reservationname={name}", *words)
    try:
        yield
        assert name in reservations(cluster)
    finally:
        cluster.slurm("scontrol", "delete", f"reservationname={name}", check=False)
        cluster.wait(lambda: "maint" not in cluster.state("n1"))


def test_a_node_that_is_proven_comes_back_and_the_proof_is_told(cluster: Guarded) -> None:
    cluster.cluster.node("n1").clear()
    code, answer, said = verify(cluster)
    assert (code, answer.get("written")) == (0, True), (answer, said)
    assert "ib_link" in answer["proof"]["passed"]
    assert "gpu_count" in answer["proof"]["passed"]  # the job was given all GPUs
    cluster.wait(lambda: cluster.state("n1") == "idle")
    assert ("resume", "done", LINK) in cluster.actions("n1")
    job = cluster.submit("-w", "n1", script="true")
    cluster.wait(lambda: not cluster.unfinished([job]))


def test_a_node_that_is_not_clean_stays_drained_with_its_reason(cluster: Guarded) -> None:
    code, answer, _ = verify(cluster)
    assert (code, answer["written"], answer["proof"]["clean"]) == (1, False, False)
    assert f"ib_link.down {PORT}" in answer["why"]
    assert_stays(cluster)
    assert ("resume", "held", LINK) in cluster.actions("n1")


def test_a_refusing_prolog_refutes_the_proof(cluster: Guarded) -> None:
    cluster.cluster.node("n1").clear()
    cluster.cluster.node("n1").fault("gpu_count.lost", "gpu0")
    code, answer, _ = verify(cluster)
    assert (code, answer["written"]) == (1, False)
    # The prolog drains by itself where it runs before Slurm marks the node as in maintenance.
    assert cluster.reason("n1") in {LINK, "SG:gpu_count.lost gpu0"}
    cluster.wait(lambda: cluster.state("n1") == "drained")


def test_a_node_that_an_admin_holds_is_left_alone(cluster: Guarded) -> None:
    cluster.slurm("scontrol", "update", "nodename=n1", "reason=DIMM swap")
    code, answer, said = verify(cluster)
    assert (code, answer) == (16, {})
    assert "'DIMM swap'" in said
    assert cluster.reason("n1") == "DIMM swap"


def test_running_jobs_are_waited_for(cluster: Guarded) -> None:
    cluster.slurm("scontrol", "update", "nodename=n1", "state=resume")
    job = cluster.submit("-w", "n1", script="sleep 60")
    cluster.wait(lambda: cluster.job(job)["JobState"] == "RUNNING")
    cluster.slurm("scontrol", "update", "nodename=n1", "state=drain", f"reason={LINK}")
    code, _, said = verify(cluster)
    assert code == 16
    assert "jobs still run there" in said
    assert cluster.job(job)["JobState"] == "RUNNING"
    cluster.slurm("scancel", str(job))
    cluster.wait(lambda: cluster.state("n1") == "drained")


FOREIGN = {
    "care": [],
    "sguard_verify/n1/00aabbcc/DIMM%20swap": [],  # no reason of ours
    "sguard_verify/n1/00aabbcc/SG:ib_link.down": ["nodes=n[1-2]"],
    "sguard_verify/n1/00aabbcd/SG:ib_link.down": ["users=nobody"],
    "sguard_verify/n1/00aabbce/SG:ib_link.down": ["flags=ignore_jobs"],
    "sguard_verify_n1": [],
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_reservation_is_never_touched(cluster: Guarded, name: str) -> None:
    with reserved(cluster, name, *FOREIGN[name]):
        code, _, said = verify(cluster)
        assert code == 16
        assert "reservation" in said
        assert cluster.reason("n1") == LINK


def test_another_node_s_fence_is_left_where_it_is(cluster: Guarded) -> None:
    cluster.cluster.node("n1").clear()
    with reserved(cluster, "sguard_verify/n2/00aabbcc/SG:ib_link.down", "nodes=n2"):
        assert verify(cluster)[0] == 0
    cluster.wait(lambda: cluster.state("n2") == "idle")


@pytest.fixture
def by_ssh(cluster: Guarded) -> Iterator[SshNodes]:
    """A real sshd for n1 that runs what it is asked for, and n1's configuration with the way there."""
    root = cluster.root("n1")
    settings = root / "etc/slurm-guard/slurm-guard.toml"
    whole = settings.read_text()
    with ssh_nodes(1, {"n1": '/bin/sh -c "$SSH_ORIGINAL_COMMAND"'}) as nodes:
        for name in ("user", "known_hosts"):
            shutil.copy(nodes.head / name, root / name)
        settings.write_text(whole + nodes.settings())
        yield nodes
        settings.write_text(whole)


@pytest.mark.parametrize("mended", [True, False])
def test_by_ssh_the_node_stays_drained_until_it_is_proven(
    cluster: Guarded, by_ssh: SshNodes, mended: bool
) -> None:
    if mended:
        cluster.cluster.node("n1").clear()
    code, answer, said = verify(cluster, "--ssh")
    assert (code, answer.get("written")) == ((0, True) if mended else (1, False)), said
    assert ("ib_link" in answer["proof"]["passed"]) is mended
    assert reservations(cluster) == []
    if mended:
        cluster.wait(lambda: cluster.state("n1") == "idle")
    else:
        assert_stays(cluster)


def test_a_node_without_a_known_key_is_not_asked(cluster: Guarded, by_ssh: SshNodes) -> None:
    (cluster.root("n1") / "known_hosts").write_text("")
    code, _, said = verify(cluster, "--ssh")
    assert code == 24
    assert "known" in said
    assert_stays(cluster)


def at_reservation(cluster: Guarded) -> bool:
    return bool(reservations(cluster))


def at_opening(cluster: Guarded) -> bool:
    return not cluster.state("n1").startswith("drain")


def in_its_job(cluster: Guarded) -> bool:
    return bool(cluster.slurm("squeue", "-h", "-n", "sguard_verify", "-o", "%i"))


@pytest.mark.parametrize("mended", [True, False])
@pytest.mark.parametrize("moment", [at_reservation, at_opening, in_its_job])
def test_kill_9_leaves_a_fence_that_the_next_call_finds(
    cluster: Guarded, moment: Callable[[Guarded], bool], mended: bool
) -> None:
    if mended:
        cluster.cluster.node("n1").clear()
    process = subprocess.Popen(command(cluster), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        cluster.wait(lambda: moment(cluster) or process.poll() is not None)
    finally:
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    (left,) = reservations(cluster)
    assert left.startswith("sguard_verify/n1/")
    job = cluster.submit("-w", "n1", script="true")  # unproven, so nobody else gets on it
    code, answer, said = verify(cluster)
    assert left in said
    assert code == (0 if mended else 1), (answer, said)
    if mended:
        cluster.wait(lambda: not cluster.unfinished([job]))
    else:
        assert cluster.unfinished([job]) == {job}
        assert_stays(cluster)


def test_two_at_once_on_one_host_do_not_meet(cluster: Guarded) -> None:
    cluster.cluster.node("n1").clear()
    process = subprocess.Popen(command(cluster), stdout=subprocess.PIPE, text=True)
    try:
        cluster.wait(lambda: at_reservation(cluster) or process.poll() is not None)
        process.send_signal(signal.SIGSTOP)  # so that it is still at it, however slow the second one is
        (standing,) = reservations(cluster)
        code, _, said = verify(cluster)
        assert (code, "by another process" in said) == (16, True), said
        assert reservations(cluster) == [standing]
        process.send_signal(signal.SIGCONT)
        assert process.communicate(timeout=120)[0].startswith("n1: resumed")
        assert process.returncode == 0
    finally:
        process.kill()
        process.communicate()


def test_reservations_as_slurm_tells_them(cluster: Guarded, door: ReservingGateway) -> None:
    assert door.reservations(30) == []
    with reserved(cluster, "a b=c", "nodes=n[1-2]", "users=root,nobody", "flags=ignore_jobs"):
        (one,) = door.reservations(30)
        assert (one.name, sorted(one.nodes), one.users, one.state) == (
            "a b=c", ["n1", "n2"], ("root", "nobody"), "ACTIVE",
        )  # fmt: skip
        assert fence.reason_of(one, "n1") is None
    name = fence.new_name("n2", "SG:fs_mounts.hung /scratch")
    door.reserve(name, "n2", 30)
    (one,) = door.reservations(30)
    assert fence.reason_of(one, "n2") == "SG:fs_mounts.hung /scratch"
    assert fence.reason_of(one, "n1") is None
    assert door.gpus_of("n2", 30) == ["gpu:h100:8"]
    reply = door.run_in(
        name, "n2", ["/bin/sh", "-c", "id -u; pwd; echo $CUDA_VISIBLE_DEVICES; exit 4"], 30, 30
    )
    assert (reply.status, reply.output.decode().split()) == (4, ["0", "/", "0,1,2,3,4,5,6,7"])
    door.unreserve(name, 30)
    door.unreserve(name, 30)  # gone is gone
    cluster.wait(lambda: cluster.state("n2") == "idle")
