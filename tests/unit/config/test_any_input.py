"""Whatever stands in the files is read or told as an error; nothing else is raised."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.config import load
from slurm_guard.core.errors import ConfigError
from tests.unit.config.samples import WHOLE, places_with

if TYPE_CHECKING:
    from pathlib import Path

KEYS = [
    "class",
    "mode",
    "checks",
    "policy",
    "nodes",
    "mounts",
    "references",
    "fan_speed",
    "name",
    "slurm",
    "x.y",
    "budget",
]
VALUES = st.recursive(
    st.one_of(
        st.integers(),
        st.floats(),
        st.booleans(),
        st.text(max_size=5),
        st.dates(),
        st.sampled_from(["a[1-3]", "k[", "/a"]),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(data=st.binary(max_size=200) | st.text(alphabet="[]=\n\"'{}.#,-0a\\_ ", max_size=80).map(str.encode))
def test_any_bytes_are_read_or_told_as_errors(tmp_path: Path, data: bytes) -> None:
    places = places_with(tmp_path)
    (tmp_path / "etc/slurm-guard/slurm-guard.toml").write_bytes(data)
    reading = load.read(places, WHOLE)
    assert (reading.config is None) == bool(reading.problems)
    assert all(str(one) for one in reading.problems)


@given(settings=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6))
def test_any_toml_values_are_read_or_told_as_errors(tmp_path: Path, settings: dict[str, object]) -> None:
    places = places_with(
        tmp_path, "\n".join(f"{_toml(key)} = {_toml_value(value)}" for key, value in settings.items())
    )
    reading = load.read(places, WHOLE)
    assert not any("syntax error" in one.found for one in reading.problems), reading.problems
    if reading.config is None:
        with pytest.raises(ConfigError):
            load.require(reading)


def _toml(text: str) -> str:
    escaped = "".join(
        letter if letter.isalnum() and letter.isascii() else f"\\U{ord(letter):08x}" for letter in text
    )
    return f'"{escaped}"'


def _toml_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _toml(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml_value(inner)}" for key, inner in value.items()) + "}"
    return str(value)
