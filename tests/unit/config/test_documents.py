"""The example files are valid, and the page about the configuration names every key."""

from __future__ import annotations

import re
import shutil
from typing import TYPE_CHECKING

from slurm_guard.config import load, model
from slurm_guard.core.paths import Places

if TYPE_CHECKING:
    from pathlib import Path


def test_the_examples_are_valid_together(repository: Path, tmp_path: Path) -> None:
    etc = tmp_path / "etc/slurm-guard"
    (etc / "conf.d").mkdir(parents=True)
    shutil.copy(repository / "contrib/slurm-guard.toml.example", etc / "slurm-guard.toml")
    for example in (repository / "contrib/conf.d").glob("*.toml.example"):
        shutil.copy(example, etc / "conf.d" / example.stem)
    reading = load.read(Places(str(tmp_path)))
    assert [str(one) for one in reading.problems] == []
    assert len(reading.files) == 2


def test_the_examples_enforce_nothing_and_their_modes_are_valid(repository: Path, tmp_path: Path) -> None:
    """Whoever copies an example starts in observe, as the README says."""
    (tmp_path / "etc/slurm-guard").mkdir(parents=True)
    text = (repository / "contrib/slurm-guard.toml.example").read_text()
    for is_shown in (False, True):
        shown = re.sub(r"(?m)^# ?(?=\[\[mode|(?:action|check|mode|nodes) = )", "", text) if is_shown else text
        (tmp_path / "etc/slurm-guard/slurm-guard.toml").write_text(shown)
        found = load.load(Places(str(tmp_path))).modes
        assert [one.action for one in found if one.mode == "enforce"] == ["drain", "refuse"] * is_shown


def test_defaults_in_comments_of_the_example_are_the_built_in_ones(repository: Path, tmp_path: Path) -> None:
    text = (repository / "contrib/slurm-guard.toml.example").read_text()
    shown = re.sub(r"(?m)^# (\w+ = (?:\d|\[\"root).*)$", r"\1", text)
    assert shown != text
    (tmp_path / "etc/slurm-guard").mkdir(parents=True)
    (tmp_path / "etc/slurm-guard/slurm-guard.toml").write_text(shown)
    config = load.load(Places(str(tmp_path)))
    plain = model.Config()
    for name in ("owners", "grace_s", "stale_after_s", "deadlines", "spool", "returning", "confirm"):
        assert getattr(config, name) == getattr(plain, name), name


def test_every_key_is_documented(repository: Path) -> None:
    page = (repository / "docs/configuration.md").read_text()
    keys = {key for table in model.TABLES for key in model.keys_of(table)} - {"programs"}
    missing = [key for key in sorted(keys) if not re.search(rf"[`\[.]{re.escape(key)}[`\].:(=]", page)]
    assert missing == []
