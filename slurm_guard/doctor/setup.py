"""What `sguard init` would do here: a configuration, links to the shims, lines for slurm.conf."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurm_guard.config import draft, host, load, slurm_conf
from slurm_guard.config.model import Config
from slurm_guard.core.errors import SetupError, SlurmError
from slurm_guard.core.outcome import PASS
from slurm_guard.doctor import conf_lines, place, shims, timeouts
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

    `lines` are to be added to slurm.conf as they are, `optional` ones if the admin likes: none of their keys
    is there yet. `advice` concerns keys that are there, which nobody but the admin should change.
    """

    def __init__(self, places: Places, node: str, conf_path: str = "") -> None:
        self.places = places
        self.conf_place = place.find(
            places, str(Path(conf_path).absolute()) if conf_path else "", configured(places)
        )
        self.conf: SlurmConf | None = self._read_conf()
        self.text = draft.draft(self.conf, self._groups(self.conf_place.path))
        self.links = shims.links(Path(places.root))
        self.lines = conf_lines.missing(self.conf) if self.conf else []
        self.optional = conf_lines.optional(self.conf) if self.conf else []
        self.advice = self._advice(node)

    def _read_conf(self) -> SlurmConf | None:
        """slurm.conf, if one is known. Raises SetupError if somebody named one that cannot be read."""
        path, source = self.conf_place
        if not path:
            return None
        found = slurm_conf.read(host.reach(self.places, path))
        if not found.files:
            name = f"${place.VARIABLE}" if source == "environment" else "slurm.conf"
            raise SetupError(f"{name}: {found.problems[0]}; expected a slurm.conf that can be read")
        found.path = path
        return found

    def _groups(self, path: str) -> list[draft.Group]:
        """Node classes from slurm.conf's node lines, else one of all nodes that the controller names."""
        found = draft.groups_of(self.conf) if self.conf else []
        if found or self.conf is None:
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
        subject.conf_place = self.conf_place._replace(source="given")  # the draft makes it a setting
        found = [*slurm_conf_advice.examine(subject), *timeouts.examine(subject), *_time_out(self.conf)]
        added = [line.partition("=")[0] for line in self.lines]
        return [one for one in found if one.status != PASS and not any(key in one.remedy for key in added)]

    def as_dict(self) -> dict[str, Any]:
        """The JSON answer of `sguard init`."""
        return {
            "config": {"path": self.places.config, "text": self.text, "exists": self.exists},
            "links": [link._asdict() for link in self.links],
            "slurm_conf": {
                "path": self.conf.path if self.conf else None,
                "source": self.conf_place.source or None,
                "add": self.lines,
                "optional": self.optional,
            },
            "advice": [one.as_dict() for one in self.advice],
        }

    @property
    def exists(self) -> bool:
        """True if there is a configuration already; it is never overwritten."""
        return os.path.lexists(self.places.config)

    def write(self) -> list[str]:
        """Write links and, unless there is one, the configuration; the paths that were made.

        Raises SetupError, and has written nothing then if something is in the way of a link.
        """
        problems = [problem for problem in map(shims.problem_of, self.links) if problem]
        if problems:
            raise SetupError(
                f"{'; '.join(problems)}; nothing was written: remove or rename what is in the way"
            )
        try:
            made = [] if self.exists else [self._write_config()]
            return made + [link.path for link in self.links if shims.make(link)]
        except OSError as error:
            raise SetupError(f"{error.filename or self.places.etc}: {error.strerror}; run as root") from error

    def _write_config(self) -> str:
        Path(self.places.etc, "conf.d").mkdir(parents=True, exist_ok=True, mode=0o755)
        files.write_atomic(self.places.config, self.text.encode(), mode=0o644)
        return self.places.config


def configured(places: Places) -> str | None:
    """The slurm.conf that the configuration names, if it has no errors and the file is there."""
    config = load.read(places).config
    path = config.slurm.conf if config else None
    return path if path and Path(host.reach(places, path)).is_file() else None


def _time_out(conf: SlurmConf) -> list[Advice]:
    """A time-out would end the site's own scripts too, so it is no line to be added blindly."""
    if not (conf_lines.lacks_time_out(conf) and conf_lines.has_own_scripts(conf)):
        return []
    what = "PrologEpilogTimeout is not set: slurmd waits for ever for a prolog or epilog that hangs"
    least = conf_lines.TIMEOUT_S
    return [
        timeouts.TOPIC.warn(what, conf.path, f"set it to {least} or more, above what your own scripts take")
    ]
