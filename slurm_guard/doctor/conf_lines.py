"""Lines that a slurm.conf lacks: keys that it does not have at all; what is there is never replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.doctor import programs, shims

if TYPE_CHECKING:
    from slurm_guard.config.slurm_conf import SlurmConf

#: Above the longest limit of the shims for prolog and epilog (40 s).
TIMEOUT_S = 60
_TIMEOUTS = ("PrologEpilogTimeout", "PrologTimeout", "EpilogTimeout")


def missing(conf: SlurmConf) -> list[str]:
    """Lines to be added as they are."""
    wanted = {key: shims.stable_path(hook) for hook, key in programs.SETTINGS.items()}
    wanted.update(PrologFlags="Alloc", SchedulerParameters="nohold_on_prolog_fail")
    if not conf.last("HealthCheckProgram"):
        wanted.update(HealthCheckInterval="300", HealthCheckNodeState="ANY,CYCLE")
    if lacks_time_out(conf) and not has_own_scripts(conf):
        wanted["PrologEpilogTimeout"] = str(TIMEOUT_S)
    return [f"{key}={value}" for key, value in wanted.items() if not conf.last(key)]


def optional(conf: SlurmConf) -> list[str]:
    """Lines that a site may add: jobs do not need them. Not offered where a user could not run the file."""
    snippet = shims.source(shims.TASK_PROLOG)
    if conf.last("TaskProlog") or snippet is None or not shims.is_for_everybody(snippet):
        return []
    return [f"TaskProlog={shims.stable_path(shims.TASK_PROLOG)}"]


def lacks_time_out(conf: SlurmConf) -> bool:
    """True if slurmd ends no prolog and no epilog, however long it takes."""
    return not any(conf.last(key) for key in _TIMEOUTS)


def has_own_scripts(conf: SlurmConf) -> bool:
    """True if the site has prologs or epilogs already: nobody but the site knows how long those may take."""
    return bool(conf.last("Prolog") or conf.last("Epilog"))
