"""What every table of the settings has in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table: unknown keys and wrong types are errors, nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)
