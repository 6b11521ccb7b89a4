"""What `sguard init` would do here: a configuration, links to the shims, lines for slurm.conf."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_guard.config import draft, host, slurm_conf
from slurm_guard.config.model import Config
from slurm_guard.core.errors import SetupError, SlurmError
from slurm_guard.core.outcome import PASS
from slurm_guard.doctor import programs, shims, timeouts
from slurm_guard.doctor import slurm_conf as slurm_conf_advice
from slurm_guard.doctor.subject import Subject
from slurm_guard.engine import files
from slurm_guard.slurm.command_gateway import CommandGateway

if TYPE_CHECKING:
    from slurm_guard.config.slurm_conf import SlurmConf
    from slurm_guard.core.paths import Places
    from slurm_guard.doctor.advice import Advice


class Setup:
    """Everything that would be written, and what the admin has to do by hand.

    `lines` are to be added to slurm.conf as they are: none of their keys is there yet. `advice` concerns
    keys that are there, which nobody but the admin should change.
    """

    def __init__(self, places: Places, node: str, conf_path: str = "") -> None:
        path = conf_path or host.find_conf(places)
        self.places = places
        self.conf: SlurmConf | None = slurm_conf.read(host.reach(places, path)) if path else None
        if self.conf:
            self.conf.path = path
        self.text = draft.draft(self.conf, self._groups(path))
        self.links = shims.links(Path(places.root))
        self.lines = missing_lines(self.conf) if self.conf and self.conf.files else []
        self.advice = self._advice(node)

    def _groups(self, path: str) -> list[draft.Group]:
        """Node classes from slurm.conf's node lines, else one of all nodes that the controller names."""
        found = draft.groups_of(self.conf) if self.conf else []
        if found or self.conf is None or not self.conf.files:
            return found
        try:
            gateway = CommandGateway(host.find_programs(self.places, Config()), path)
            return draft.group_of_all(node.name for node in gateway.nodes())
        except SlurmError:
            return []

    def _advice(self, node: str) -> list[Advice]:
        """What the doctor says about keys of slurm.conf that are there already."""
        if self.conf is None:
            return []
        subject = Subject(self.places, node)
        subject.slurm = self.conf
        found = [*slurm_conf_advice.examine(subject), *timeouts.examine(subject)]
        added = [line.partition("=")[0] for line in self.lines]
        return [one for one in found if one.status != PASS and not any(key in one.remedy for key in added)]

    def as_dict(self) -> dict[str, Any]:
        """The JSON answer of `sguard init`."""
        return {
            "config": {"path": self.places.config, "text": self.text, "exists": self.exists},
            "links": [link._asdict() for link in self.links],
            "slurm_conf": {"path": self.conf.path if self.conf else None, "add": self.lines},
            "advice": [one.as_dict() for one in self.advice],
        }

    @property
    def exists(self) -> bool:
        """True if there is a configuration already; it is never overwritten."""
        return os.path.lexists(self.places.config)

    def write(self) -> list[str]:
        """Write configuration and links; the paths that were made. Raises SetupError."""
        if self.exists:
            raise SetupError(
                f"{self.places.config} is there already; nothing was written: edit it, or move it away"
            )
        problems = [problem for problem in map(shims.problem_of, self.links) if problem]
        if problems:
            raise SetupError(
                f"{'; '.join(problems)}; nothing was written: remove or rename what is in the way"
            )
        try:
            Path(self.places.etc, "conf.d").mkdir(parents=True, exist_ok=True, mode=0o755)
            files.write_atomic(self.places.config, self.text.encode(), mode=0o644)
            made = [link.path for link in self.links if shims.make(link)]
        except OSError as error:
            raise SetupError(f"{error.filename or self.places.etc}: {error.strerror}; run as root") from error
        return [self.places.config, *made]


def missing_lines(conf: SlurmConf) -> list[str]:
    """Lines for keys that slurm.conf does not have at all; what is there is never replaced."""
    wanted = {key: shims.stable_path(hook) for hook, key in programs.SETTINGS.items()}
    wanted.update(PrologFlags="Alloc", SchedulerParameters="nohold_on_prolog_fail")
    lines = [f"{key}={value}" for key, value in wanted.items() if not conf.last(key)]
    if not conf.last("HealthCheckProgram"):
        for key, value in (("HealthCheckInterval", "300"), ("HealthCheckNodeState", "ANY,CYCLE")):
            if not conf.last(key):
                lines.append(f"{key}={value}")
    return lines
