"""Who uses the GPUs: nobody before a job starts, nobody's processes or memory after it has ended."""

from __future__ import annotations

from slurm_guard.core import gpus
from slurm_guard.core.check import Check, Fault, failed, passed, skipped, unknown, warned
from slurm_guard.core.plan import matches as name_matches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from slurm_guard.core.expectation import Expectation
    from slurm_guard.core.outcome import Finding

_MIB = 1 << 20
#: Less than any process with a CUDA context takes: below it a GPU is free, whoever cannot see processes.
_CONTEXT_MIB = 64


class GpuProcesses(Check):
    """See the module's docstring.

    Prolog and epilog look at the job's own GPUs; a healthcheck looks at all and only warns, since it cannot
    know jobs that started before the guard was installed. `allowed`: names of services that may use a GPU
    at any time; `*` at the end of a name stands for anything. `leftover_mib`: memory in MiB that may be in
    use without a process, above what the driver keeps for itself.
    """

    name = "gpu_processes"
    probe = "nvml"
    blame = "job"
    tier = "DRAIN"
    remedy = "End the process (`nvidia-smi`, `ps -o user,lstart,cmd -p PID`), then `sguard resume NODE`."
    params = {
        "allowed": ["nvidia-cuda-mps*", "nv-hostengine", "dcgm*", "nvidia-persiste*", "Xorg"],
        "leftover_mib": 500,
    }
    faults = {
        "foreign": Fault("DRAIN", "A process that belongs to no open allocation uses the GPU."),
        "leftover": Fault("DRAIN", "A process of the job still uses the GPU after the job has ended."),
        "memory": Fault(
            "WARN",
            "GPU memory is in use without a living process.",
            remedy="Reset the GPU when idle; a container or a frozen process may still hold it.",
        ),
    }

    def judge(self, nvml: Any, params: Any, expect: Expectation) -> Iterator[Finding]:
        """Yield findings on the job's GPUs, or on all in a healthcheck."""
        yield from gpus.not_judged(nvml, expect)
        view = _View(expect.run, params, bool(nvml.get("private_pids")))
        if view.hook in ("prolog", "epilog") and not view.tokens:
            yield skipped("the job has no GPUs")
            return
        for gpu in gpus.readable(nvml):
            if view.hook == "healthcheck" or any(gpus.matches(token, gpu) for token in view.tokens):
                yield from _gpu(gpu, view)


class _View:
    """The run: whose job it is, and what the other open allocations may use."""

    def __init__(self, run: Any, params: Any, is_blind: bool) -> None:
        self.is_blind = is_blind  # in a PID namespace of our own
        self.hook = run.hook
        self.tokens = list(run.get("job_gpus") or ())
        own = run.get("own") or run  # an epilog without a prolog has the job's numbers only
        self.job_id, self.uid = own.get("job_id"), own.get("uid")
        self.others = [one for one in run.get("allocations") or () if one.get("job_id") != self.job_id]
        self.allowed = params["allowed"]
        self.leftover = params["leftover_mib"] * _MIB

    def is_service(self, process: Any) -> bool:
        """True for a service that may be there; the job's own user cannot pass as one after the job."""
        if self.is_left_over(process) and process.uid != 0:
            return False
        return any(name_matches(pattern, process.name) for pattern in self.allowed)

    def is_left_over(self, process: Any) -> bool:
        """True in an epilog for a process of the job's own user."""
        return self.hook == "epilog" and process.uid is not None and process.uid == self.uid

    def concerns(self, process: Any, gpu: Any) -> bool:
        """False for a process in another job's MIG device of the same GPU."""
        here = [token for token in self.tokens if gpus.matches(token, gpu)]
        instances = {gpus.mig_instance(token, gpu) for token in here}
        return process.gi is None or None in instances or not instances or process.gi in instances

    def may_be_used(self, gpu: Any) -> bool:
        """True if another open allocation has this GPU too (MIG devices, shared GPUs)."""
        return any(gpus.owns(one, gpu) for one in self.others)


def _gpu(gpu: Any, view: _View) -> Iterator[Finding]:
    label, at = gpus.name(gpu), gpus.where(gpu)
    if gpu.processes is None:
        make = unknown if "processes" in gpu.errors else skipped
        yield make(f"{label}: the driver does not list processes", **at)
        return
    listed = [one for one in gpu.processes if view.concerns(one, gpu)]
    found: list[Finding] = []
    for process in () if view.is_blind else listed:  # the numbers mean other processes here
        if process.alive and not view.is_service(process):
            found += _process(process, gpu, view)
    found += _memory(gpu, view)
    yield from found or [passed(**at)]


def _process(process: Any, gpu: Any, view: _View) -> Iterator[Finding]:
    """Judge one living process that is no service."""
    theirs = [one for one in view.others if one.get("uid") == process.uid is not None]
    if any(gpus.owns(one, gpu) for one in theirs):
        return
    at = {**gpus.where(gpu), "metric": "pid", "value": process.pid}
    message = f"{gpus.name(gpu)}: {_describe(process)}"
    if theirs:
        ids = ", ".join(str(one.get("job_id")) for one in theirs)
        yield warned(f"{message}, whose job ({ids}) has other GPUs", code="foreign", **at)
    elif view.hook == "healthcheck":
        # Worth a look, no more: it may belong to a job that no prolog of ours has seen.
        yield warned(f"{message} belongs to no allocation that is known here", code="foreign", **at)
    elif view.is_left_over(process):
        yield failed(f"{message} is left over from job {view.job_id}", code="leftover", **at)
    else:
        yield failed(f"{message} belongs to no open allocation", code="foreign", **at)


def _describe(process: Any) -> str:
    owner = "an unknown user" if process.uid is None else f"uid {process.uid}"
    return f"process {process.pid} ({process.name or 'no name'}) of {owner}"


def _memory(gpu: Any, view: _View) -> Iterator[Finding]:
    """Memory without a living process; a GPU that another job has too, or in MIG mode, cannot be judged."""
    label, at = gpus.name(gpu), gpus.where(gpu)
    used = gpu["values"].get("memory_used")
    is_judged = used is not None and "memory_reserved" in gpu["values"]  # else it counts the driver's own
    is_judged = is_judged and not (gpu.mig or {}).get("devices") and not view.may_be_used(gpu)
    if not view.is_blind and any(process.alive for process in gpu.processes):
        return
    if view.is_blind and not (is_judged and used <= _CONTEXT_MIB * _MIB):
        message = f"{label}: processes are not visible from this PID namespace"
        if used is not None:
            message = f"{label}: {used // _MIB} MiB in use; processes are not visible from this PID namespace"
        yield unknown(message, metric="gpu_memory_used", value=used, unit="bytes", **at)
        return
    if not is_judged or used <= view.leftover:
        return
    dead = ", ".join(str(process.pid) for process in gpu.processes)
    message = (
        f"{label}: {used // _MIB} MiB in use without a process, at most {view.leftover // _MIB} expected"
    )
    if dead:
        message = f"{label}: leftover memory of a process already gone (pid {dead}), {used // _MIB} MiB"
    yield warned(message, code="memory", metric="gpu_memory_used", value=used, unit="bytes", **at)
