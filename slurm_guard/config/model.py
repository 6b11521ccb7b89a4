"""The settings of `slurm-guard.toml`, section by section; defaults are the plan's own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, model_validator

from slurm_guard.config.collect import Collect
from slurm_guard.config.fields import (
    AbsolutePath,
    Addresses,
    Count,
    Duration,
    Listen,
    Number,
    Seconds,
    Url,
    Word,
)
from slurm_guard.config.rule import Escalate, Rule, Tier
from slurm_guard.config.section import Section
from slurm_guard.core.plan import DEADLINES, DEFAULTS
from slurm_guard.engine.chain import LONGEST_S as LONGEST_CHAIN_S
from slurm_guard.engine.chain import SECONDS as CHAIN_S
from slurm_guard.engine.hook import LONGEST_S

Action = Literal["*", "drain", "refuse", "resume", "reset", "reboot"]
Mode = Literal["off", "observe", "enforce"]

LISTEN = "127.0.0.1:9427"
#: What nodes must know of the collector; the rest concerns the admin host alone.
_OF_NODES = ("url", "uids", "ca_file", "token_file", "munge_socket", "jitter_s", "acting")


class Programs(Section):
    """Absolute paths of Slurm's programs, where they are not beside each other."""

    scontrol: AbsolutePath | None = None
    sinfo: AbsolutePath | None = None
    squeue: AbsolutePath | None = None
    sacct: AbsolutePath | None = None


class Slurm(Section):
    """Where Slurm is."""

    conf: AbsolutePath | None = None
    bin: AbsolutePath | None = None
    programs: Programs = Programs()


class Nvml(Section):
    """Which NVML library and which Python binding the hooks use."""

    library: AbsolutePath | None = DEFAULTS["nvml_library"]
    python_path: list[AbsolutePath] | None = None


class Deadlines(Section):
    """Seconds after which a hook ends by itself; the shim's own limit comes a little later."""

    prolog: Annotated[float, Field(ge=1, le=LONGEST_S["prolog"])] = DEADLINES["prolog"]
    epilog: Annotated[float, Field(ge=1, le=LONGEST_S["epilog"])] = DEADLINES["epilog"]
    healthcheck: Annotated[float, Field(ge=1, le=LONGEST_S["healthcheck"])] = DEADLINES["healthcheck"]


class Spool(Section):
    """Bounds of the run records that wait on a node."""

    files: Annotated[int, Field(ge=10, le=1_000_000)] = DEFAULTS["spool"]["files"]
    bytes: Annotated[int, Field(ge=1 << 16, le=1 << 40)] = DEFAULTS["spool"]["bytes"]
    age_s: Seconds = DEFAULTS["spool"]["age_s"]


class Budget(Section):
    """How many nodes the guard may have drained at once, and per hour."""

    nodes: Count = DEFAULTS["budget"]["nodes"]
    percent: Annotated[float, Field(ge=0, le=100, allow_inf_nan=False)] = DEFAULTS["budget"]["percent"]
    per_hour: Count = DEFAULTS["budget"]["per_hour"]
    shared_nodes: Count = DEFAULTS["budget"]["shared_nodes"]
    nodes_per_job: Count = DEFAULTS["budget"]["nodes_per_job"]
    nodes_per_user: Count = DEFAULTS["budget"]["nodes_per_user"]


class Return(Section):
    """When a drained node comes back, and when it no longer does."""

    clean_runs: Annotated[int, Field(ge=1, le=1000)] = DEFAULTS["return"]["clean_runs"]
    clean_s: Duration = DEFAULTS["return"]["clean_s"]
    watch_s: Duration = DEFAULTS["return"]["watch_s"]
    flaps: Annotated[int, Field(ge=0, le=32)] = DEFAULTS["return"]["flaps"]
    flap_window_s: Seconds = DEFAULTS["return"]["flap_window_s"]


class Confirm(Section):
    """A fault that may be a fluke acts when seen in `runs` of `of` runs."""

    runs: Annotated[int, Field(ge=1, le=100)] = DEFAULTS["confirm"]["runs"]
    of: Annotated[int, Field(ge=1, le=100)] = DEFAULTS["confirm"]["of"]

    @model_validator(mode="after")
    def _runs_fit(self) -> Confirm:
        if self.runs > self.of:
            raise ValueError(f"`runs` of at most `of` ({self.of})")
        return self


class Collector(Section):
    """One place for the records of all nodes; without a `url` every node keeps its own."""

    url: Url | None = None
    listen: Listen = LISTEN
    ca_file: AbsolutePath | None = None
    certificate: AbsolutePath | None = None
    key: AbsolutePath | None = None
    token_file: AbsolutePath | None = None
    uids: list[Annotated[int, Field(ge=0, lt=(1 << 32) - 2)]] = []
    admins: list[Word] = []
    munge_socket: AbsolutePath | None = None
    jitter_s: Annotated[float, Field(ge=0, le=300, allow_inf_nan=False)] = 5.0
    acting: bool = False
    silent_after: Annotated[Count, Field(ge=1)] = 3
    interval_s: Seconds = 300.0
    calls_per_s: Annotated[float, Field(gt=0, le=1000, allow_inf_nan=False)] = 10.0
    addresses: Addresses = {}

    @model_validator(mode="after")
    def _has_both(self) -> Collector:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` together, or neither of them")
        return self

    def for_nodes(self) -> dict[str, Any]:
        """What of this goes into the plan; nothing where nodes send nowhere."""
        return self.model_dump(include=set(_OF_NODES), exclude_none=True) if self.url else {}


class Chain(Section):
    """The site's own health program, run after the guard's healthcheck; without one, nothing is."""

    healthcheck: list[str] = []
    seconds: Annotated[float, Field(ge=1, le=LONGEST_CHAIN_S)] = CHAIN_S

    @model_validator(mode="after")
    def _is_absolute(self) -> Chain:
        if self.healthcheck and not self.healthcheck[0].startswith("/"):
            raise ValueError("`healthcheck` with an absolute path first, then its arguments")
        return self

    def for_nodes(self) -> dict[str, Any]:
        """What of this goes into the plan."""
        return self.model_dump() if self.healthcheck else {}


class Mount(Section):
    """A file system that a node class must have mounted."""

    path: AbsolutePath
    type: Word | None = None
    options: list[Word] = []
    shared: bool | None = None  # by the type of the file system, unless it is said


class Reference(Section):
    """An expected value; `lower` and `upper` are signed fractions of it."""

    value: Number
    lower: Annotated[float, Field(gt=-1, le=0)] | None = None
    upper: Annotated[float, Field(ge=0, lt=1)] | None = None
    unit: str = ""

    @model_validator(mode="after")
    def _is_bounded(self) -> Reference:
        if self.lower is None and self.upper is None:
            raise ValueError("`lower` or `upper` (or both), else nothing is judged")
        return self


class NodeClass(Section):
    """Nodes that are alike. Other keys are expected values that checks take, such as `gpus`."""

    model_config = ConfigDict(extra="allow")

    name: Annotated[str, Field(min_length=1, max_length=64)]
    nodes: str
    gpus: Count | None = None
    ib_ports: Count | None = None
    mounts: list[Mount] = []
    references: dict[str, Reference] = {}
    checks: dict[str, dict[str, Any]] = {}


class ModeRule(Section):
    """What the guard may do for which checks on which nodes; the last rule that fits counts."""

    check: str = "*"
    action: Action = "*"
    mode: Mode
    nodes: str | None = None


class Config(Section):
    """Everything that can be set."""

    cluster: str = DEFAULTS["cluster"]
    owners: Annotated[list[Word], Field(min_length=1)] = DEFAULTS["owners"]
    grace_s: Annotated[float, Field(ge=0, le=86400, allow_inf_nan=False)] = DEFAULTS["grace_s"]
    stale_after_s: Seconds = DEFAULTS["stale_after_s"]
    new_check_s: Duration = DEFAULTS["new_check_s"]
    slurm: Slurm = Slurm()
    nvml: Nvml = Nvml()
    deadlines: Deadlines = Deadlines()
    spool: Spool = Spool()
    budget: Budget = Budget()
    returning: Return = Field(default=Return(), alias="return")
    confirm: Confirm = Confirm()
    chain: Chain = Chain()
    collector: Collector = Collector()
    collect: Collect = Collect()
    policy: dict[str, Tier] = {}
    checks: dict[str, dict[str, Any]] = {}
    classes: list[NodeClass] = Field(default=[], alias="class")
    rules: list[Rule] = Field(default=[], alias="rule")
    modes: list[ModeRule] = Field(default=[], alias="mode")


#: The model of each table, by its keys without positions; for the near misses of unknown keys.
TABLES: dict[tuple[str, ...], type[Section]] = {
    (): Config,
    ("slurm",): Slurm,
    ("slurm", "programs"): Programs,
    ("nvml",): Nvml,
    ("deadlines",): Deadlines,
    ("spool",): Spool,
    ("budget",): Budget,
    ("return",): Return,
    ("confirm",): Confirm,
    ("chain",): Chain,
    ("collector",): Collector,
    ("collect",): Collect,
    ("class",): NodeClass,
    ("class", "mounts"): Mount,
    ("rule",): Rule,
    ("rule", "escalate"): Escalate,
    ("mode",): ModeRule,
}


def keys_of(table: tuple[str, ...]) -> list[str]:
    """The keys that a table may have."""
    if len(table) == 3 and table[:2] == ("class", "references"):
        return list(Reference.model_fields)
    model = TABLES.get(table)
    return [field.alias or name for name, field in model.model_fields.items()] if model else []
