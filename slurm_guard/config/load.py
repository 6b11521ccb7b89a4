"""From files to checked settings, with every problem in one go."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

from slurm_guard.config import catalogue as catalogue_module
from slurm_guard.config import sources as sources_module
from slurm_guard.config.complaints import validate
from slurm_guard.config.rules import find_wrong, find_wrong_partitions
from slurm_guard.core.errors import ConfigError
from slurm_guard.slurm.hostlist import expand, fold

if TYPE_CHECKING:
    from slurm_guard.config.catalogue import Catalogue
    from slurm_guard.config.model import Config
    from slurm_guard.config.problems import Problem
    from slurm_guard.config.sources import Sources
    from slurm_guard.core.paths import Places

#: Columns of a line of an error; `sguard: ` comes before it.
_WIDTH = 72


class Reading:
    """What the files say: `config` if everything is right, else None and `problems`.

    `notes` are sentences about what could not be checked, what is odd, or that there is no configuration at
    all; `folder` is where the files lie.
    """

    def __init__(self, sources: Sources, catalogue: Catalogue, folder: str) -> None:
        self.folder = folder
        self.sources = sources
        self.catalogue = catalogue
        self.problems: list[Problem] = list(sources.problems)
        self.notes: list[str] = []
        self.config: Config | None = None

    @property
    def files(self) -> list[str]:
        """The files that were read, in order; a later one wins."""
        return self.sources.files


def read(places: Places, catalogue: Catalogue | None = None, sources: Sources | None = None) -> Reading:
    """Read and check the configuration below a root; raises nothing for what the files hold.

    With `sources` it is what they hold, and no file is read.
    """
    sources = sources_module.read(places) if sources is None else sources
    reading = Reading(sources, catalogue or catalogue_module.load(), places.etc)
    sources.flatten("policy")
    config, wrong = validate(sources.settings)
    wrong += find_wrong(sources.settings, reading.catalogue)
    located = dict.fromkeys(sources.locate(one) for one in wrong)
    reading.problems += sorted(located, key=lambda one: (one.file, one.line or 0))
    reading.config = None if reading.problems else config
    reading.notes = _notes(places, reading)
    return reading


def check_partitions(reading: Reading, partitions: dict[str, list[str]]) -> None:
    """Hold the partitions of rules against slurm.conf's; if one is wrong, `reading` has no `config`."""
    wrong = find_wrong_partitions(reading.sources.settings, partitions)
    if wrong and reading.config is not None:
        reading.problems += dict.fromkeys(reading.sources.locate(one) for one in wrong)
        reading.config = None


def _notes(places: Places, reading: Reading) -> list[str]:
    notes = [
        f"check {name} cannot be loaded ({why}): what the configuration says about it was not checked"
        for name, why in sorted(reading.catalogue.broken.items())
    ]
    if not reading.files and not reading.problems:
        notes.insert(0, f"no configuration at {places.config}: the built-in defaults apply")
    return notes + (_strangers(reading.config, reading.sources) if reading.config else [])


def _strangers(config: Config, sources: Sources) -> list[str]:
    """Nodes that a mode rule names and no class has: nothing is expected of them, or they are a slip."""
    known = {name for one in config.classes for name in expand(one.nodes)}
    notes = []
    for position, rule in enumerate(config.modes):
        others = [name for name in expand(rule.nodes) if name not in known] if rule.nodes and known else []
        if others:
            key = sources.key(("mode", position, "nodes"))
            notes.append(f"{key}: {fold(others)} in no class: nothing is expected there, or a slip?")
    return notes


def require(reading: Reading) -> Config:
    """The settings; raises ConfigError with all problems, one a line."""
    if reading.config is None:
        count = len(reading.problems)
        lines = "\n".join(_wrapped(problem.beside(reading.folder)) for problem in reading.problems)
        raise ConfigError(
            f"the configuration in {reading.folder} has {count} error{'s' * (count != 1)}:\n{lines}"
        )
    return reading.config


def _wrapped(text: str) -> str:
    return textwrap.fill(
        text,
        _WIDTH,
        initial_indent="  ",
        subsequent_indent="      ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def load(places: Places) -> Config:
    """The checked settings below a root. Raises ConfigError with everything that is wrong."""
    return require(read(places))
