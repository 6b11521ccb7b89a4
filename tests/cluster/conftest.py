"""A real Slurm cluster with simulated hardware and the guard on every node."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT / "contrib/minicluster"))

from minicluster import Cluster  # noqa: E402  # found through the path above

from .guard_processes import at_work  # noqa: E402
from .own_folder import own_folder  # noqa: E402

SGUARD = CHECKOUT / ".venv/bin/sguard"
SCHEDULER = "sched_interval=1,bf_interval=1,sched_min_interval=0,batch_sched_delay=0,nohold_on_prolog_fail"

CONFIG = """\
cluster = "mini"
grace_s = 0

[slurm]
conf = "{conf}"
bin = "/usr/bin"

[nvml]
library = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"

[budget]
nodes = {budget}
percent = 100
per_hour = {per_hour}
shared_nodes = 1
nodes_per_job = {nodes_per_job}
nodes_per_user = {nodes_per_user}

[return]
clean_runs = {clean_runs}
clean_s = {clean_s}
watch_s = {watch_s}
flaps = {flaps}

[[class]]
name = "8xH100"
nodes = "n[1-{nodes}]"
gpus = 8
ib_ports = 8
mounts = [
    {{ path = "/scratch", type = "lustre", shared = true }},
    {{ path = "/local", type = "xfs", shared = false }},
]
[class.references]
ib_rate = {{ value = 400, lower = -0.05, unit = "Gb/s" }}

[[mode]]
mode = "{mode}"
"""


class Guarded:
    """A cluster whose nodes run the guard; what a test asks of it most."""

    def __init__(self, cluster: Cluster, directory: Path, nodes: int) -> None:
        self.cluster = cluster
        self.directory = directory
        self.names = [f"n{number}" for number in range(1, nodes + 1)]

    def root(self, node: str) -> Path:
        return self.directory / "nodes" / node

    def configure(self, **settings: Any) -> None:
        """Write the configuration, compile it with `sguard`, and give every node the plan."""
        settings = {
            "budget": 2,
            "per_hour": 1000,
            "nodes_per_job": 2,
            "nodes_per_user": 2,
            "clean_runs": 2,
            "clean_s": 0,
            "watch_s": 0,
            "flaps": 0,
            "mode": "enforce",
            **settings,
        }
        text = CONFIG.format(conf=self.cluster.conf_path, nodes=len(self.names), **settings)
        first = self.root(self.names[0])
        (first / "etc/slurm-guard").mkdir(parents=True, exist_ok=True)
        (first / "etc/slurm-guard/slurm-guard.toml").write_text(text)
        command = [str(SGUARD), "config", "apply", "--root", str(first)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        plan = (first / "var/lib/slurm-guard/plan.json").read_bytes()
        for node in self.names[1:]:
            path = self.root(node) / "var/lib/slurm-guard/plan.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(plan)

    @contextmanager
    def configured(self, **settings: Any) -> Iterator[None]:
        """Other settings for a part of a test, or all of it; none of them reaches the next test."""
        try:
            self.configure(**settings)
            yield
        finally:
            self.configure()

    def slurm(self, *argv: str, check: bool = True) -> str:
        """The output of a Slurm client program."""
        return str(self.cluster.run(list(argv), timeout=30, check=check).stdout).strip()

    def submit(self, *options: str, script: str = "sleep 0.2") -> int:
        """Submit a batch job; its id."""
        return int(self.slurm("sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", script))

    def job(self, job_id: int) -> dict[str, str]:
        """The fields of `scontrol show job`."""
        words = self.slurm("scontrol", "show", "job", "-o", str(job_id)).split(" ")
        return dict(word.partition("=")[::2] for word in words if "=" in word)

    def unfinished(self, jobs: list[int]) -> set[int]:
        """Those of some jobs that still wait or run."""
        left = {int(job) for job in self.slurm("squeue", "-h", "-t", "PD,CF,R,CG", "-o", "%i").split()}
        return left & set(jobs)

    def reason(self, node: str) -> str:
        """The node's reason as Slurm has it, empty without one."""
        return self.slurm("sinfo", "-h", "-N", "-n", node, "-o", "%E").splitlines()[0].replace("none", "")

    def state(self, node: str) -> str:
        return str(self.cluster.states()[node])

    def wait(self, condition: Callable[[], Any], seconds: float = 90) -> None:
        """Wait until a condition holds; fail with what the cluster looks like if it never does."""
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(
                    f"not within {seconds} s:\n{self.slurm('sinfo', '-N', '-o', '%N %T %E')}"
                    f"\n{self.slurm('squeue', '-o', '%i %T %r %N')}"
                )
            time.sleep(0.05)

    def hook(
        self, node: str, hook: str, job: int | None = None, **env: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a hook by hand, as slurmd would."""
        found = {"SLURMD_NODENAME": node, **env}
        if hook != "healthcheck":
            found.update(SLURM_CONF=str(self.cluster.conf_path), SLURM_CLUSTER_NAME="mini")
            found.update(SLURM_JOB_ID=str(job), SLURM_JOB_UID="0", SLURM_JOB_USER="root")
        return subprocess.run(
            [str(CHECKOUT / hook / f"sguard-{hook}"), "--root", str(self.root(node))],
            env=found,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=90,
            check=False,
        )

    def healthcheck(self, node: str) -> None:
        """One healthcheck, and all that its detached child does."""
        self.hook(node, "healthcheck")
        self.settled(node)

    def settled(self, node: str) -> None:
        """Wait until neither a hook nor a detached child of a node is at work."""
        self.wait(lambda: not at_work(self.root(node)))

    def records(self, node: str) -> list[dict[str, Any]]:
        """The records in a node's spool, oldest first."""
        spool = self.root(node) / "var/lib/slurm-guard/spool"
        return [
            json.loads(path.read_text()) for path in sorted(spool.glob("*.json"), key=lambda p: p.name[2:])
        ]

    def runs(self, node: str, job: int) -> list[dict[str, Any]]:
        """The run records of a job on a node."""
        of_job = (one for one in self.records(node) if (one.get("allocation") or {}).get("job_id") == job)
        return list(of_job)

    def actions(self, node: str) -> list[tuple[str, str, str]]:
        """What was done on a node: (action, outcome, reason), oldest first."""
        found = (action for one in self.records(node) for action in one["actions"])
        return [(one["action"], one["outcome"], one.get("reason", "")) for one in found]


@contextmanager
def guarded(
    nodes: int = 4,
    health_interval: int = 3600,
    conf: dict[str, str] | None = None,
    settings: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[Guarded]:
    """A running cluster with the guard configured on every node."""
    directory = Path(tempfile.mkdtemp(prefix="sguard-"))
    directory.chmod(0o755)
    conf = {"SchedulerParameters": SCHEDULER, "SlurmdTimeout": "20", **(conf or {})}
    cluster = Cluster(
        directory, nodes=nodes, hooks=str(CHECKOUT), conf=conf, health_interval=health_interval, **options
    )
    found = Guarded(cluster, directory, nodes)
    try:
        cluster.start()
        found.configure(**(settings or {}))
        yield found
    finally:
        cluster.stop()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a cluster that the test starts itself."""
    with own_folder() as path:
        yield path


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Guarded]:
    """One cluster of four nodes for all tests of a module."""
    with guarded() as found:
        yield found


@pytest.fixture
def cluster(shared_cluster: Guarded) -> Iterator[Guarded]:
    """The module's cluster, made healthy and idle again after each test."""
    yield shared_cluster
    for job in shared_cluster.slurm("squeue", "-h", "-o", "%i").split():
        shared_cluster.slurm("scancel", job, check=False)
    for name in shared_cluster.names:
        shared_cluster.cluster.node(name).clear()
        shared_cluster.settled(name)
        for folder in ("var/lib/slurm-guard/spool", "var/lib/slurm-guard/requests", "run/slurm-guard"):
            shutil.rmtree(shared_cluster.root(name) / folder, ignore_errors=True)
        (shared_cluster.root(name) / "var/lib/slurm-guard/faults.json").unlink(missing_ok=True)
        shared_cluster.slurm("scontrol", "update", f"nodename={name}", "state=resume", check=False)
        shared_cluster.slurm("scontrol", "update", f"nodename={name}", "comment=")
    shared_cluster.wait(lambda: set(shared_cluster.cluster.states().values()) == {"idle"}, 60)


def soak(small: int, whole: int) -> int:
    """The size of a campaign: small in `make test`, whole in `make soak`."""
    return whole if os.environ.get("SOAK") else small
