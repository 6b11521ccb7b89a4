"""The configuration reference: prose from a file, then the keys of each TOML table from the models."""

from __future__ import annotations

import inspect
import json
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from slurm_guard.config import model

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic.fields import FieldInfo

INTRODUCTION = Path(__file__).with_name("configuration-intro.md")


def title(table: tuple[str, ...]) -> str:
    """A table as it is written in TOML."""
    if not table:
        return "Top level"
    name = ".".join(table)
    return f"`[[{name}]]`" if table[-1] in ("class", "mode", "mounts") else f"`[{name}]`"


def constraints(metadata: list[Any]) -> Iterator[str]:
    """Bounds of a number, length of a list."""
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    for item in metadata:
        for name, sign in signs.items():
            bound = getattr(item, name, None)
            if bound is not None:
                yield f"{sign} {bound:,}"


def kind(annotation: Any) -> str:
    """A type in a reader's words."""
    if annotation is Any:
        return "any"
    origin = get_origin(annotation)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in get_args(annotation))
    if origin in (Union, types.UnionType):
        return " or ".join(kind(item) for item in get_args(annotation) if item is not type(None))
    if origin is list:
        return f"list of {kind(get_args(annotation)[0])}"
    if origin is dict:
        return f"table of {kind(get_args(annotation)[1])}"
    if origin is not None and hasattr(annotation, "__metadata__"):
        return kind(get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "table"
    names = {bool: "true or false", int: "whole number", float: "number", str: "text"}
    return names.get(annotation, str(annotation))


def default(field: FieldInfo) -> str:
    """The default as TOML would have it."""
    value = field.default
    if value is PydanticUndefined:
        return "required"
    if value is None:
        return "unset"
    if isinstance(value, BaseModel):
        return "see there"
    return f"`{json.dumps(value)}`"


def section(table: tuple[str, ...], cls: type[BaseModel]) -> str:
    """One table: what it is for, and its keys."""
    lines = [f"## {title(table)}\n", inspect.cleandoc(cls.__doc__ or "") + "\n"]
    lines += ["| key | type | default |", "| --- | --- | --- |"]
    for name, field in cls.model_fields.items():
        bounds = ", ".join(constraints(field.metadata))
        words = f"{kind(field.annotation)}{f' ({bounds})' if bounds else ''}"
        lines.append(f"| `{field.alias or name}` | {words} | {default(field)} |")
    return "\n".join(lines) + "\n"


def page(notice: str) -> str:
    """docs/configuration.md."""
    tables: dict[tuple[str, ...], type[BaseModel]] = {**model.TABLES}
    tables["class", "references", "METRIC"] = model.Reference
    return f"{notice}{INTRODUCTION.read_text()}\n" + "\n".join(
        section(table, cls) for table, cls in tables.items()
    )
