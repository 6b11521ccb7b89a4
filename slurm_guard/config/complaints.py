"""Turns what pydantic reports into our own words: found, expected, near miss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from slurm_guard.config.model import Config, keys_of
from slurm_guard.config.problems import Wrong, show, suggest

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "missing": "this key",
    "int_parsing_size": "a number that fits 64 bits",
}
_BOUNDS = {
    "greater_than": "more than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "too_short": "a list of at least {min_length}",
    "string_too_short": "at least {min_length} letter(s)",
    "string_too_long": "at most {max_length} letters",
}


def validate(settings: dict[str, Any]) -> tuple[Config | None, list[Wrong]]:
    """The model of these settings, or None and everything that is wrong with their shape."""
    try:
        return Config.model_validate(settings), []
    except ValidationError as error:
        return None, [_translate(one) for one in error.errors(include_url=False)]


def _translate(error: ErrorDetails) -> Wrong:
    path = tuple(error["loc"])
    if error["type"] == "extra_forbidden":
        return _unknown_key(path)
    found = "nothing" if error["type"] == "missing" else show(error["input"])
    return Wrong(path, found, _expected(error))


def _unknown_key(path: tuple[str | int, ...]) -> Wrong:
    table = tuple(part for part in path[:-1] if isinstance(part, str))
    return Wrong(path, "an unknown key", suggest(str(path[-1]), keys_of(table)))


def _expected(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind in _EXPECTED:
        return _EXPECTED[kind]
    if kind in _BOUNDS:
        return _BOUNDS[kind].format(**context)
    if kind == "literal_error":
        return _literal(error["input"], str(context["expected"]))
    if kind == "value_error":
        return str(context["error"])
    return error["msg"]


def _literal(given: Any, listed: str) -> str:
    """A near miss of one of the listed words, else all of them."""
    words = listed.replace(" or ", ", ").replace("'", "").split(", ")
    return suggest(given, words) if isinstance(given, str) else f"one of {', '.join(words)}"
