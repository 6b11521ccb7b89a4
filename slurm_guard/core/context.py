"""What Slurm tells a hook through its environment: which node, which job, which GPUs.

PATH and HOME are not set in Slurm's hooks, and HealthCheckProgram gets SLURMD_NODENAME alone.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

HOOKS = ("prolog", "epilog", "healthcheck")

_INDEX = re.compile(r"(\d{1,5})(?:-(\d{1,5}))?")
_UUID = re.compile(r"(?:MIG-)?GPU-[0-9A-Fa-f-]{8,36}(?:/\d+/\d+)?|MIG-[0-9A-Fa-f-]{8,36}")
_MOST_GPUS = 1024
#: What a run record keeps of a job.
_KEPT = (
    *("job_id", "restart", "start_time", "array_job_id", "array_task_id", "het_job_id"),
    *("uid", "user", "partition", "nodes", "gpus", "exit_code"),
)
_MOST_DIGITS = 18
_NO_GPUS = frozenset({"", "(null)", "none", "NoDevFiles", "void", "all"})


class Context:
    """The job and node of one hook run.

    `job_id` is None in a healthcheck. `gpus` are the tokens of the job's own GPUs: indices as text (`"3"`)
    or UUIDs, empty for a job without GPUs; `gpus_problem` says what could not be read. `restart` is the
    count that the environment claims: right in a prolog, wrong in the epilog of a requeued run.
    """

    def __init__(self, hook: str, env: Mapping[str, str]) -> None:
        self.hook = hook
        self.node = env.get("SLURMD_NODENAME", "")
        self.cluster = env.get("SLURM_CLUSTER_NAME", "")
        self.job_id = _number(env.get("SLURM_JOB_ID") or env.get("SLURM_JOBID"))
        self.restart = _number(env.get("SLURM_JOB_RESTART_COUNT") or env.get("SLURM_RESTART_COUNT")) or 0
        self.start_time = _number(env.get("SLURM_JOB_START_TIME"))
        self.array_job_id = _number(env.get("SLURM_ARRAY_JOB_ID"))
        self.array_task_id = _number(env.get("SLURM_ARRAY_TASK_ID"))
        self.het_job_id = _number(env.get("SLURM_HET_JOB_ID"))
        self.uid = _number(env.get("SLURM_JOB_UID") or env.get("SLURM_UID"))
        self.user = env.get("SLURM_JOB_USER", "")
        self.partition = env.get("SLURM_JOB_PARTITION", "")
        self.comment = env.get("SLURM_JOB_COMMENT", "")
        self.nodes = env.get("SLURM_JOB_NODELIST") or env.get("SLURM_NODELIST") or ""
        self.exit_code = env.get("SLURM_JOB_EXIT_CODE2", "")
        self.slurm_conf = env.get("SLURM_CONF", "")
        self.gpus: list[str] = []
        self.gpus_problem = ""
        try:
            self.gpus = parse_gpu_list(_gpu_variable(env))
        except ValueError as error:
            self.gpus_problem = str(error)

    def as_dict(self) -> dict[str, Any] | None:
        """The allocation as it stands in a run record; None without a job."""
        if self.job_id is None:
            return None
        found = {name: getattr(self, name) for name in _KEPT}
        return {name: value for name, value in found.items() if value not in (None, "")}


def parse_gpu_list(text: str) -> list[str]:
    """The tokens of a GPU list: `0,1`, `0-3`, `0-1,4`, UUIDs, MIG UUIDs, or nothing.

    Ranges are expanded, order is kept, repeats are dropped. Raises ValueError with the token that is
    neither an index, a range nor a UUID.
    """
    found: dict[str, None] = {}
    for token in (part.strip() for part in text.split(",")):
        if token in _NO_GPUS:
            continue
        for name in _expand(token):
            found[name] = None
    return list(found)


def _expand(token: str) -> list[str]:
    if _UUID.fullmatch(token):
        return [token]
    match = _INDEX.fullmatch(token)
    if match is None:
        raise ValueError(f"GPU list: {token[:60]!r} is not an index, a range or a UUID")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first or last - first >= _MOST_GPUS:
        raise ValueError(f"GPU list: the range {token!r} runs backwards or is longer than {_MOST_GPUS}")
    return [str(index) for index in range(first, last + 1)]


def _gpu_variable(env: Mapping[str, str]) -> str:
    """The variable that names the job's GPUs; CUDA's is a fallback, since it may count from 0 per job."""
    for name in ("SLURM_JOB_GPUS", "SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        if env.get(name):
            return env[name]
    return ""


def _number(text: str | None) -> int | None:
    """A Slurm number, or None where it is absent, garbage or one of Slurm's sentinels.

    All of them have 32 bits or (times) 64, so that the sentinels of 16 bits are plain numbers here: there is
    a job 65534, and uid 65534 is nobody.
    """
    if not text or not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        return None
    value = int(text)
    return None if value in (4294967294, 4294967295) else value
