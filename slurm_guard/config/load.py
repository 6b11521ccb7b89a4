"""From files to checked settings, with every problem in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurm_guard.config import catalogue as catalogue_module
from slurm_guard.config import sources as sources_module
from slurm_guard.config.complaints import validate
from slurm_guard.config.rules import find_wrong
from slurm_guard.core.errors import ConfigError

if TYPE_CHECKING:
    from slurm_guard.config.catalogue import Catalogue
    from slurm_guard.config.model import Config
    from slurm_guard.config.problems import Problem
    from slurm_guard.config.sources import Sources
    from slurm_guard.core.paths import Places


class Reading:
    """What the files say: `config` if everything is right, else None and `problems`.

    `notes` are sentences about what could not be checked, or that there is no configuration at all.
    """

    def __init__(self, sources: Sources, catalogue: Catalogue) -> None:
        self.sources = sources
        self.catalogue = catalogue
        self.problems: list[Problem] = list(sources.problems)
        self.notes: list[str] = []
        self.config: Config | None = None

    @property
    def files(self) -> list[str]:
        """The files that were read, in order; a later one wins."""
        return self.sources.files


def read(places: Places, catalogue: Catalogue | None = None) -> Reading:
    """Read and check the configuration below a root; raises nothing for what the files hold."""
    sources = sources_module.read(places)
    reading = Reading(sources, catalogue or catalogue_module.load())
    sources.flatten("policy")
    config, wrong = validate(sources.settings)
    wrong += find_wrong(sources.settings, reading.catalogue)
    located = dict.fromkeys(sources.locate(one) for one in wrong)
    reading.problems += sorted(located, key=lambda one: (one.file, one.line or 0))
    reading.config = None if reading.problems else config
    reading.notes = _notes(places, reading)
    return reading


def _notes(places: Places, reading: Reading) -> list[str]:
    notes = [
        f"check {name} cannot be loaded ({why}): what the configuration says about it was not checked"
        for name, why in sorted(reading.catalogue.broken.items())
    ]
    if not reading.files and not reading.problems:
        notes.insert(0, f"no configuration at {places.config}: the built-in defaults apply")
    return notes


def require(reading: Reading) -> Config:
    """The settings; raises ConfigError with all problems, one a line."""
    if reading.config is None:
        count = len(reading.problems)
        lines = "\n".join(f"  {problem}" for problem in reading.problems)
        raise ConfigError(f"the configuration has {count} error{'s' * (count != 1)}:\n{lines}")
    return reading.config


def load(places: Places) -> Config:
    """The checked settings below a root. Raises ConfigError with everything that is wrong."""
    return require(read(places))
