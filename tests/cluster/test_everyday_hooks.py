"""How sites call hooks, on real daemons: prolog.d, a chained program, configless, other users, a boot."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurm_guard.core import plan as plans

from .conftest import CHECKOUT, SGUARD, guarded

if TYPE_CHECKING:
    from .conftest import Guarded

LOST = "SG:gpu_count.lost gpu0"


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def shim(cluster: Guarded, hook: str) -> str:
    """A line of shell that runs the guard's hook on the node that slurmd names."""
    return f'exec {CHECKOUT}/{hook}/sguard-{hook} --root "{cluster.directory}/nodes/$SLURMD_NODENAME"'


def reconfigure(cluster: Guarded, **settings: str) -> None:
    """Other lines in slurm.conf, and daemons that have read them."""
    path = cluster.cluster.conf_path
    kept = [line for line in path.read_text().splitlines() if line.partition("=")[0] not in settings]
    lines = [f"{key}={value}" for key, value in settings.items()]
    path.write_text("\n".join([*lines, *kept, ""]))
    cluster.slurm("scontrol", "reconfigure")


def test_a_site_s_own_prologs_run_before_ours_and_a_refusal_skips_none_of_them(cluster: Guarded) -> None:
    """slurmd takes prolog.d in reverse order of the names and stops at the first that fails."""
    folder, ran = cluster.directory / "prolog.d", cluster.directory / "ran"
    for name in ("10-scratch", "90-quota"):
        script(folder / name, f"echo {name} >> {ran}")
    script(folder / "00-sguard-prolog", f"echo ours >> {ran}\n{shim(cluster, 'prolog')}")
    before = cluster.cluster.conf_path.read_text()
    reconfigure(cluster, Prolog=f"{folder}/*")
    try:
        cluster.wait(lambda: cluster.state("n1") == "idle")
        done = cluster.cluster.run(["srun", "-w", "n1", "true"], timeout=60)
        assert done.returncode == 0
        assert ran.read_text().split() == ["90-quota", "10-scratch", "ours"]
        cluster.wait(lambda: cluster.records("n1")[-1].get("hook") == "epilog")
        ran.unlink()
        cluster.cluster.node("n1").fault("gpu_count.lost", "gpu0")
        job = cluster.submit("-w", "n1", "--gres=gpu:8")
        cluster.wait(lambda: cluster.reason("n1") == LOST)
        cluster.wait(lambda: cluster.job(job)["Restarts"] == "1")
        assert ran.read_text().split() == ["90-quota", "10-scratch", "ours"]
    finally:
        cluster.cluster.conf_path.write_text(before)
        cluster.slurm("scontrol", "reconfigure")


def test_the_site_s_health_program_is_run_by_slurmd_after_ours(cluster: Guarded) -> None:
    """At slurmd's start, as all health programs are; what it says when it fails is in slurmd's log."""
    ran = cluster.directory / "site-health"
    spool = cluster.root("n3") / "var/lib/slurm-guard/spool"
    text = f'ls {spool} | wc -l > {ran}.$1\nmv {ran}.$1 {ran}\necho "site says no"; exit 3'
    site = script(cluster.directory / "nhc", text)
    place = cluster.root("n3") / "etc/slurm-guard/node.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps({"chain": {"healthcheck": [str(site), "-q"]}}))
    node = cluster.cluster.node("n3")
    try:
        node.stop_slurmd()
        node.start_slurmd()
        cluster.wait(ran.exists)
        log = cluster.directory / "log/slurmd.n3.log"
        cluster.wait(lambda: "site says no" in log.read_text())
        assert "rc:3" in log.read_text()
        assert int(ran.read_text()) == len(cluster.records("n3"))
        cluster.wait(lambda: cluster.state("n3") == "idle")
    finally:
        place.unlink()


def test_configless_slurmd_finds_the_guard_by_its_absolute_path_and_from_its_cache(cluster: Guarded) -> None:
    """slurmd runs a copy in its conf-cache, as Slurm from 23.02 on makes one, and knows no SLURM_CONF."""
    layout, directory = cluster.cluster.layout, cluster.directory
    cache = directory / "spool/n4/conf-cache"
    root = cluster.root("n4")
    link = root / "usr/lib/slurm-guard/prolog/sguard-prolog"
    link.parent.mkdir(parents=True)
    link.symlink_to(CHECKOUT / "prolog/sguard-prolog")
    before = cluster.cluster.conf_path.read_text()
    reconfigure(cluster, SlurmctldParameters="enable_configless", Prolog=f"{cache}/sguard-prolog")
    cluster.cluster.stop_controller()
    cluster.cluster.start_controller()
    node = cluster.cluster.node("n4")
    node.stop_slurmd()
    start = (
        "mount -t tmpfs tmpfs /run && mkdir -p /run/munge && "  # a mount namespace's own /run
        f"ln -s {layout.munge_socket} /run/munge/munge.socket.2 && unset SLURM_CONF && "
        f"exec /usr/sbin/slurmd -D -N n4 --conf-server 127.0.0.1:{layout.port}"
    )
    try:
        argv = ["/usr/bin/unshare", "-m", "/bin/sh", "-c", start]
        cluster.cluster.daemons.start("slurmd.n4", argv, {"MINICLUSTER_NODE": "n4"})
        cluster.wait((cache / "slurm.conf").exists)
        copy = cache / "sguard-prolog"
        head, rest = (CHECKOUT / "prolog/sguard-prolog").read_text().split("\n", 1)
        copy.write_text(f"{head}\nset -- --root {root}\n{rest}")
        copy.chmod(0o755)
        cluster.wait(lambda: cluster.state("n4") == "idle")
        job = cluster.submit("-w", "n4", script="true")
        cluster.wait(lambda: cluster.job(job)["JobState"] == "COMPLETED")
        (run,) = [one for one in cluster.runs("n4", job) if one["hook"] == "prolog"]
        assert run["node"] == "n4"
    finally:
        node.stop_slurmd()
        cluster.cluster.conf_path.write_text(before)
        cluster.cluster.stop_controller()
        cluster.cluster.start_controller()
        node.start_slurmd()
        cluster.wait(lambda: set(cluster.cluster.states().values()) == {"idle"})
        cluster.slurm("scontrol", "reconfigure")
        shutil.rmtree(root / "usr/lib/slurm-guard")


def test_the_gate_waits_for_mounts_after_a_boot_and_a_hung_one_is_touched_once(cluster: Guarded) -> None:
    node = cluster.cluster.node("n2")
    node.reboot()
    node.fault("fs_mounts.missing", "/scratch")
    command = [str(SGUARD), "ready", "-w", "n2", "--root", str(node.root)]
    assert subprocess.run(command, capture_output=True, check=False, timeout=60).returncode == 1
    with subprocess.Popen(
        [*command, "--wait", "60"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as gate:
        assert gate.stderr is not None
        assert "n2 waits for: fs_mounts.missing /scratch" in gate.stderr.readline()
        node.clear()
        out, _ = gate.communicate(timeout=60)
    assert (gate.returncode, out.startswith("n2: ready after")) == (0, True)
    node.fault("fs_mounts.hung", "/scratch")
    done = subprocess.run([*command, "--wait", "12"], capture_output=True, text=True, check=False, timeout=90)
    assert done.returncode == 1
    state = json.loads((node.root / "run/slurm-guard/state.json").read_text())
    assert [one["key"] for one in state["left_behind"]] == ["/scratch"]


def test_a_fresh_boot_gets_grace_and_drains_nothing_that_is_still_on_its_way(cluster: Guarded) -> None:
    node = cluster.cluster.node("n1")
    cluster.healthcheck("n1")
    path = cluster.root("n1") / "var/lib/slurm-guard/plan.json"
    kept = path.read_bytes()
    bundle = {**json.loads(kept), "grace_s": 300.0}
    path.write_bytes(plans.encode({**bundle, "hash": plans.digest(bundle)}))
    try:
        node.reboot()
        node.fault("ib_link.down", "mlx5_0")
        for _ in range(3):
            cluster.healthcheck("n1")
        run = [one for one in cluster.records("n1") if one["kind"] == "run"][-1]
        assert run["plan"]["state"] == "ok"
        (link,) = [one for one in run["results"] if one["check"] == "ib_link"]
        assert link["status"] == "unknown"
        assert cluster.reason("n1") == ""
    finally:
        path.write_bytes(kept)


def test_on_the_first_day_old_xids_are_history(cluster: Guarded) -> None:
    node = cluster.cluster.node("n1")
    node.machine.kernel_says(
        "NVRM: Xid (PCI:0000:5d:00): 79, pid=8, name=train, GPU has fallen off the bus.", priority=3
    )
    cluster.healthcheck("n1")
    job = cluster.submit("-w", "n1", "--gres=gpu:8", script="true")
    cluster.wait(lambda: len(cluster.runs("n1", job)) == 2)
    assert {one["status"] for one in cluster.records("n1")} == {"pass"}
    assert cluster.reason("n1") == ""


def test_a_node_without_gpus_passes_and_a_job_on_it_costs_no_more(cluster: Guarded) -> None:
    """CPU-only: neither driver nor library nor card, and none expected."""
    root = cluster.root("n3")
    library = next(root.rglob("libnvidia-ml.so.1"))
    plan = root / "var/lib/slurm-guard/plan.json"
    kept, away = plan.read_bytes(), library.with_name("away")
    library.rename(away)
    plan.unlink()
    try:
        cluster.healthcheck("n3")
        (run,) = [one for one in cluster.records("n3") if one["kind"] == "run"]
        assert {"gpu_ecc", "gpu_temperature", "gpu_remap"} <= set(run["skipped"])
        assert not [one for one in run["results"] if one["status"] in ("fail", "timeout")]
        job = cluster.submit("-w", "n3", script="true")
        cluster.wait(lambda: cluster.job(job)["JobState"] == "COMPLETED")
        assert cluster.reason("n3") == ""
    finally:
        away.rename(library)
        plan.write_bytes(kept)


@pytest.mark.timeout(300)
def test_slurm_runs_as_a_user_of_its_own() -> None:
    """SlurmUser=slurm: hooks are root's, drains are root's, refusals that slurmd tells are still ours."""
    with guarded(nodes=2, slurm_user="slurm", settings={"clean_runs": 1}) as cluster:
        cluster.healthcheck("n1")
        cluster.cluster.node("n1").fault("gpu_remap.failure", "gpu0")
        job = cluster.submit("-N1", "--gres=gpu:8", "--exclude=n2")
        cluster.wait(lambda: cluster.state("n1") == "drained")
        cluster.wait(lambda: cluster.reason("n1").startswith("SG:gpu_remap.failure"))
        cluster.wait(lambda: cluster.job(job)["Restarts"] == "1")
        cluster.slurm("scancel", str(job))
        cluster.cluster.node("n1").clear()
        cluster.cluster.node("n1").reboot()
        cluster.wait(lambda: not cluster.unfinished([job]))
        cluster.healthcheck("n1")
        cluster.wait(lambda: cluster.state("n1") == "idle")
        assert os.stat(cluster.directory / "state").st_uid != 0
