"""Sites to be examined: a root folder with slurm.conf, hook files, configuration and plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.config.apply import apply
from slurm_guard.core.paths import Places
from slurm_guard.doctor.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from slurm_guard.doctor.advice import Advice

NODE = "c7"
SHIM = "#!/bin/sh\n# sguard-{hook}\nexit 0\n"

GOOD_CONF = """\
ClusterName=atlas
SlurmUser=root
Prolog=/usr/lib/slurm-guard/prolog/sguard-prolog
Epilog=/usr/lib/slurm-guard/epilog/sguard-epilog
PrologFlags=Alloc
HealthCheckProgram=/usr/lib/slurm-guard/healthcheck/sguard-healthcheck
HealthCheckInterval=300
HealthCheckNodeState=ANY,CYCLE
SchedulerParameters=bf_continue,nohold_on_prolog_fail
PrologEpilogTimeout=120
"""

GOOD_CONFIG = """\
[[class]]
name = "k"
nodes = "c[1-9]"
[[class.mounts]]
path = "/scratch"
"""


def script(path: Path, text: str = "#!/bin/sh\nexit 0\n", mode: int = 0o755) -> Path:
    """An executable file with its folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def site(root: Path, slurm_conf: str = GOOD_CONF, config: str = GOOD_CONFIG) -> Subject:
    """A site where everything is in order, but for what the arguments say; the plan is applied."""
    for hook in ("prolog", "epilog", "healthcheck"):
        script(root / f"usr/lib/slurm-guard/{hook}/sguard-{hook}", SHIM.format(hook=hook))
    (root / "etc/slurm").mkdir(parents=True, exist_ok=True)
    (root / "etc/slurm/slurm.conf").write_text(slurm_conf)
    (root / "etc/slurm-guard").mkdir(parents=True, exist_ok=True)
    if "[slurm]" not in config:
        config += "[slurm]\nbin = '/no/slurm/here'\n"  # a test asks no controller that this host may have
    (root / "etc/slurm-guard/slurm-guard.toml").write_text(config)
    apply(Places(str(root)))
    return Subject(Places(str(root)), NODE)


def told(examine: Callable[[Subject], Iterator[Advice]], subject: Subject) -> list[tuple[str, str]]:
    """What is not in order, as (status, sentence)."""
    return [(one.status, one.what) for one in examine(subject) if one.status not in ("pass", "skip")]
