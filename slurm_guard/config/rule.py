"""The `[[rule]]` table: which fault, when and where, is treated how (core/rules.py applies it)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from slurm_guard.config.fields import Seconds, Word
from slurm_guard.config.section import Section
from slurm_guard.core.policy import DRAIN_TIERS
from slurm_guard.core.rules import minutes

Tier = Literal["NOTE", "WARN", "JOB", "DRAIN", "DRAIN_RESET", "DRAIN_REBOOT", "DRAIN_RMA"]
DrainTier = Literal["DRAIN", "DRAIN_RESET", "DRAIN_REBOOT", "DRAIN_RMA"]
Hook = Literal["prolog", "epilog", "healthcheck"]

#: What a rule may say of a fault; without any of it, it says nothing.
EFFECTS = ("tier", "action", "runs", "minimum_s", "escalate", "quiet")
#: The longest "M of N runs"; a node keeps that many runs of each fault that it sees.
_MOST_RUNS = 100


def _window(text: str) -> str:
    try:
        start, end = text.split("-")
        minutes(start), minutes(end)
    except ValueError:
        raise ValueError('times such as "22:00-06:00"') from None
    return text.replace(" ", "")


Window = Annotated[str, AfterValidator(_window)]


class Escalate(Section):
    """A fault that begins `after` times within `within_s` has another tier."""

    after: Annotated[int, Field(ge=2, le=32)]
    within_s: Annotated[Seconds, Field(le=30 * 86400)] = 86400.0
    tier: DrainTier


class Rule(Section):
    """One rule: conditions, which must all fit, and effects, of which the last fitting rule's counts."""

    fault: str
    name: Annotated[str, Field(max_length=64)] = ""
    hooks: Annotated[list[Hook], Field(min_length=1)] | None = None
    node: Literal["idle", "allocated"] | None = None
    nodes: str | None = None
    classes: Annotated[list[str], Field(min_length=1)] | None = None
    partitions: Annotated[list[Word], Field(min_length=1)] | None = None
    tier: Tier | None = None
    action: Literal["none", "tell", "drain", "refuse"] | None = None
    runs: Annotated[int, Field(ge=1, le=_MOST_RUNS)] | None = None
    of: Annotated[int, Field(ge=1, le=_MOST_RUNS)] | None = None
    minimum_s: Annotated[float, Field(ge=0, le=30 * 86400, allow_inf_nan=False)] | None = None
    escalate: Escalate | None = None
    quiet: list[Window] | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Rule:
        if all(getattr(self, name) is None for name in EFFECTS):
            raise ValueError(f"an effect: {', '.join(EFFECTS)}")
        if self.of is not None and (self.runs is None or self.runs > self.of):
            raise ValueError(f"`runs` of at most `of` ({self.of})")
        if self.action in ("drain", "refuse") and self.tier is not None and self.tier not in DRAIN_TIERS:
            raise ValueError(f"a drain tier: with tier {self.tier} nothing ever does {self.action}")
        if self.node is not None and self.hooks is not None and "healthcheck" not in self.hooks:
            raise ValueError('"healthcheck" among `hooks`: prologs and epilogs run for a job, never idle')
        return self

    def compiled(self, position: int) -> dict[str, Any]:
        """The rule as it stands in a plan; where it applies is settled by whose plan it is in."""
        effects = self.model_dump(include={"hooks", "node", *EFFECTS, "of"}, exclude_none=True)
        if self.runs is not None:
            effects["of"] = self.of or self.runs
        return {"fault": self.fault, **effects, "source": self.label(position)}

    def label(self, position: int) -> str:
        """What the rule is called: by its name, else by its place among the rules, from 1."""
        return f"rule {self.name}" if self.name else f"rule #{position + 1}"
