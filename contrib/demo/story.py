"""The story: a healthy job, a GPU that falls off the bus, a mount that hangs, and the way back.

Every beat is checked: StoryError if the cluster, Slurm or the guard does anything else.
"""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stage import Stage

HEALTH_INTERVAL_S = 12
MOUNTS = ("/local", "/scratch")

CONFIG = """\
cluster = "mini"
grace_s = 0                     # a simulated machine boots in no time

[slurm]
conf = "{conf}"

[nvml]
library = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"

[budget]                        # 4 nodes: the guard may take out 2 of them
nodes = 2
percent = 50

[return]
clean_runs = 2
clean_s = 0                     # a real cluster waits some minutes

[[class]]
name = "8xH100"
nodes = "n[1-{nodes}]"
gpus = 8
ib_ports = 8
mounts = [
    {{ path = "/scratch", type = "lustre", shared = true }},
    {{ path = "/local", type = "xfs" }},
]
[class.references]
ib_rate = {{ value = 400, lower = -0.05, unit = "Gb/s" }}

[[mode]]
mode = "enforce"                # without this line the guard only observes
"""

TRAINING = """\
#!/bin/sh
echo "epoch 1"
while [ ! -e gpu-is-gone ]; do sleep 0.1; done
echo "RuntimeError: CUDA error: unspecified launch failure"
exit 1
"""


@dataclass
class Draw:
    """What the seed decides: which node Slurm fills first, second, …, which GPU dies, which mount hangs."""

    order: list[str]
    gpu: str
    mount: str


def draw(seed: int, names: list[str]) -> Draw:
    """The same seed draws the same story."""
    chance = random.Random(seed)  # noqa: S311 - a story, no secret
    return Draw(chance.sample(names, len(names)), f"gpu{chance.randrange(8)}", chance.choice(MOUNTS))


def tell(stage: Stage, drawn: Draw) -> None:
    """Tell the whole story."""
    set_up(stage, drawn)
    healthy = healthy_job(stage, drawn)
    broken = gpu_falls_off_the_bus(stage, drawn)
    refused = mount_hangs(stage, drawn)
    the_way_back(stage, drawn)
    reports(stage, healthy, broken, refused)


def set_up(stage: Stage, drawn: Draw) -> None:
    """Cluster, configuration, plan."""
    stage.act("A Slurm cluster with simulated hardware and slurm_guard's hooks")
    stage.up(HEALTH_INTERVAL_S)
    head = stage.directory / "head/etc/slurm-guard"
    head.mkdir(parents=True)
    jobs = stage.directory / "jobs"
    jobs.mkdir()
    jobs.chmod(0o1777)
    (jobs / "training.sh").write_text(TRAINING)
    config = CONFIG.format(conf=stage.directory / "etc/slurm.conf", nodes=len(stage.names))
    (head / "slurm-guard.toml").write_text(config)
    stage.say("The admin's configuration: what a node has, and what the guard may do.")
    stage.show("cat head/etc/slurm-guard/slurm-guard.toml")
    stage.show("sguard config apply --root head")
    stage.say("Every node gets a copy of the plan on its local disk.")
    for name in stage.names:
        folder = stage.directory / "nodes" / name / "var/lib/slurm-guard"
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        shutil.copy(stage.directory / "head/var/lib/slurm-guard/plan.json", folder)
    stage.say(f"Weights make Slurm fill the nodes in the order {', '.join(drawn.order)}.")
    for weight, name in enumerate(drawn.order, 1):
        stage.ask("scontrol", "update", f"nodename={name}", f"weight={weight}")
    first_look = "every node had its first healthcheck under this plan"
    stage.until(first_look, lambda: all(_healthchecks(stage, name) for name in stage.names))
    stage.show("sinfo -N -o '%N %T %G'")


def healthy_job(stage: Stage, drawn: Draw) -> int:
    """Job 1: nothing to see."""
    stage.act("A healthy job")
    node = drawn.order[-1]  # none of the others: a fault right after a job's end would be in its report
    job = stage.submit(f"-J healthy -w {node} --gres=gpu:4 --wrap 'echo all is well; sleep 1'")
    stage.until("the job completed", lambda: stage.is_in(job, "COMPLETED"))
    stage.until("its epilog is on record", lambda: "epilog" in _hooks(stage, node, job))
    stage.show(_squeue(job))
    return job


def gpu_falls_off_the_bus(stage: Stage, drawn: Draw) -> int:
    """Job 2 loses a GPU; the job that is queued behind it must not start on that node."""
    node = drawn.order[0]
    stage.act(f"{drawn.gpu} of {node} falls off the bus during a job")
    job = stage.submit("-J training --gres=gpu:8 training.sh")
    queued = stage.submit(f"-J next --gres=gpu:8 --dependency=afterany:{job} --wrap 'sleep 1'")
    stage.until("the training runs", lambda: stage.is_in(job, "RUNNING"))
    stage.expect(stage.job(job).get("NodeList") == node, f"the training runs on {node}")
    stage.until("its prolog is on record", lambda: "prolog" in _hooks(stage, node, job))
    stage.show(f"minicluster fault {node} gpu_count.lost {drawn.gpu}")
    stage.say("The training notices, and dies.")
    (stage.directory / "jobs/gpu-is-gone").touch()
    stage.until("the training failed", lambda: stage.is_in(job, "FAILED"))
    stage.until("the next job completed", lambda: stage.is_in(queued, "COMPLETED"))
    stage.show(f"tail -n 2 jobs/slurm-{job}.out")
    stage.say("The epilog drained the node before it returned, so the queued job started elsewhere.")
    stage.show("sinfo -R -o '%40E %10u %N'")
    stage.show(_squeue(job, queued))
    stage.expect(stage.reason(node) == f"SG:gpu_count.lost {drawn.gpu}", f"{node} is drained for its GPU")
    stage.expect(stage.job(queued).get("NodeList") == drawn.order[1], f"job {queued} ran on {drawn.order[1]}")
    return job


def mount_hangs(stage: Stage, drawn: Draw) -> int:
    """Job 3 meets a node whose mount hangs; it is refused there and runs on the next one."""
    node, peer = drawn.order[1], drawn.order[2]
    stage.act(f"{drawn.mount} of {node} hangs; its peers answer")
    stage.show(f"minicluster fault {node} fs_mounts.hung {drawn.mount}")
    stage.until("a healthcheck noticed", lambda: _hung(stage, node))
    stage.say("A healthcheck noticed. One hang is no proof, so the node is still in service:")
    stage.show(f"sinfo -N -n {node} -o '%N %T %E'")
    stage.expect(not stage.state(node).startswith("drain"), f"{node} is still in service")
    # At once: the next healthcheck would be the proof, and the job would not be sent here any more.
    job = stage.submit(
        "-J unlucky --gres=gpu:2 --wrap 'hostname >/dev/null; echo done on $SLURM_JOB_NODELIST'"
    )
    stage.until("the job was refused", lambda: stage.job(job).get("Restarts") == "1")
    stage.until("it is back in the queue", lambda: stage.is_in(job, "PENDING"))
    stage.until(
        "its owner was told", lambda: "slurm_guard:" in stage.ask("scontrol", "show", "job", str(job))
    )
    stage.say(
        f"The prolog on {node} saw it again and refused: {node} is drained, the job is back in the queue."
    )
    stage.show("sinfo -R -o '%40E %10u %N'")
    stage.show(_squeue(job))
    stage.expect(stage.reason(node) == f"SG:fs_mounts.hung {drawn.mount}", f"{node} is drained for its mount")
    stage.say(f"On its peer {peer} the same mount answers:")
    stage.show(f"sguard check run fs_mounts -w {peer} --root nodes/{peer}")
    stage.say("Slurm lets a refused job wait for 2 minutes; the admin does not.")
    stage.show(f"scontrol update jobid={job} starttime=now")
    stage.until("the job completed", lambda: stage.is_in(job, "COMPLETED"))
    stage.expect(stage.job(job).get("NodeList") == peer, f"job {job} ran on {peer}")
    stage.say("Its owner finds this in the job's output (the first line is from the TaskProlog):")
    output = stage.show(f"cat jobs/slurm-{job}.out")
    stage.expect("slurm_guard: this job was requeued" in output, "the owner was told in the job's output")
    return job


def the_way_back(stage: Stage, drawn: Draw) -> None:
    """Repair, and the nodes return when they are proven good."""
    lost, hung = drawn.order[:2]
    stage.act("Repair, and the way back")
    _ingest(stage)
    stage.show("sguard drains --root head", codes=[1])
    stage.say("The mount is repaired; the GPU needs a reboot of its node.")
    stage.show(f"minicluster clear {hung}")
    stage.show(f"minicluster clear {lost}")
    stage.show(f"minicluster reboot {lost} --restart-slurmd")
    stage.expect(stage.state(hung).startswith("drain"), f"{hung} is not back before it is proven good")
    stage.say(f"Two clean healthchecks are asked for; slurmd runs one every {HEALTH_INTERVAL_S} s.")
    for name in (hung, lost):
        stage.until(f"{name} is back", lambda name=name: stage.state(name) == "idle", 180)  # type: ignore[misc]
    stage.show("sinfo -N -o '%N %T %E'")
    _ingest(stage)
    stage.show("sguard drains --root head")
    history = stage.show("sguard drains --history --root head")
    for word in ("drain", "refuse", "resume"):
        stage.expect(word in history, f"the history tells of a {word}")


def reports(stage: Stage, healthy: int, broken: int, refused: int) -> None:
    """What was wrong with each job."""
    stage.act("What was wrong with these jobs?")
    stage.show(f"sguard job {healthy} --root head")
    page = stage.show(f"sguard job {broken} --root head", codes=[1])
    stage.expect("gpu_count.lost" in page, f"the report of job {broken} names the lost GPU")
    page = stage.show(f"sguard job {refused} --root head", codes=[1])
    stage.expect("fs_mounts.hung" in page, f"the report of job {refused} names the hung mount")
    stage.show("sguard nodes --root head")


def _ingest(stage: Stage) -> None:
    spools = " ".join(f"nodes/{name}/var/lib/slurm-guard/spool" for name in stage.names)
    stage.show(f"sguard ingest --root head {spools}")


def _squeue(*jobs: int) -> str:
    return f"squeue -t all -j {','.join(map(str, jobs))} -o '%5i %10j %11T %8N %r'"


def _hooks(stage: Stage, node: str, job: int) -> list[str]:
    records = [one for one in stage.records(node) if (one.get("allocation") or {}).get("job_id") == job]
    return [str(one["hook"]) for one in records]


def _healthchecks(stage: Stage, node: str) -> int:
    """How many healthchecks ran on a node under the current plan."""
    found = [one for one in stage.records(node) if one.get("hook") == "healthcheck"]
    return sum(one["plan"]["state"] == "ok" for one in found)


def _hung(stage: Stage, node: str) -> bool:
    found = [one for one in stage.records(node) if one.get("hook") == "healthcheck"]
    return any(result["check"] == "fs_mounts" for one in found for result in one["results"])
