"""The node plan: one hashed JSON bundle for the cluster, from which a node picks its part by NodeName.

Shape (version 1, written by `sguard config apply`): see `docs/plan.md`. A missing, torn or foreign plan is
never a reason to stop a job: the built-in defaults take its place and the run says so.
"""

from __future__ import annotations

import json
import os
import stat
import time
import zlib

from slurm_guard.core import rules
from slurm_guard.core.paths import without_waiting, written_by_others

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Major version of the plan that this code writes; it reads this one and the one before.
MAJOR = 1
LARGEST = 16 << 20
#: How a plan file starts: the hash of its content, then the checksum of all that follows.
_HASH, _SEAL = b'{"hash":"', b'","seal":"'
_HASH_END = len(_HASH) + 32
_SEAL_END = _HASH_END + len(_SEAL) + 8

DEADLINES = {"prolog": 8.0, "epilog": 20.0, "healthcheck": 20.0}
DEFAULTS: dict[str, Any] = {
    "cluster": "",
    "owners": ["root", "slurm"],
    "programs": {},
    "slurm_conf": "",
    "nvml_library": None,
    "python_path": [],
    "deadlines": DEADLINES,
    "grace_s": 300,
    "stale_after_s": 30 * 86400,
    "spool": {"files": 2000, "bytes": 64 << 20, "age_s": 14 * 86400},
    "budget": {
        "nodes": 2,
        "percent": 10.0,
        "per_hour": 4,
        "shared_nodes": 1,
        "nodes_per_job": 2,
        "nodes_per_user": 2,
    },
    "return": {"clean_runs": 3, "clean_s": 300.0, "watch_s": 3600.0, "flaps": 3, "flap_window_s": 86400.0},
    "confirm": {"runs": 2, "of": 3},
    "new_check_s": 86400.0,
    "check_since": {},
    "tiers": {},
    "collector": {},
    "chain": {},
}


class Plan:
    """One node's part of the plan, complete with defaults.

    `state` is `ok`, `default` (no plan there), `torn`, `foreign` (a version or content this code cannot
    read) or `stale`; `problem` is the sentence for it. `checks` maps enabled checks to their parameters.
    `now` (unix seconds) tells which checks are still new; without it none is.
    """

    def __init__(
        self,
        bundle: dict[str, Any],
        node: str,
        state: str = "ok",
        problem: str = "",
        now: float | None = None,
    ) -> None:
        self.state = state
        self.problem = problem
        self.node = node
        self.hash: str = bundle.get("hash", "")
        self.built_at: float = bundle.get("built_at", 0.0)
        settings = {**DEFAULTS, **{k: v for k, v in bundle.items() if k in DEFAULTS}}
        self.cluster: str = settings["cluster"]
        self.owners: list[str] = settings["owners"]
        self.programs: dict[str, str] = settings["programs"]
        self.slurm_conf: str = settings["slurm_conf"]
        self.nvml_library: str | None = settings["nvml_library"]
        self.python_path: list[str] = settings["python_path"]
        self.deadlines: dict[str, float] = {**DEADLINES, **settings["deadlines"]}
        self.grace_s: float = settings["grace_s"]
        self.spool: dict[str, float] = {**DEFAULTS["spool"], **settings["spool"]}
        self.budget: dict[str, float] = {**DEFAULTS["budget"], **settings["budget"]}
        self.returning: dict[str, float] = {**DEFAULTS["return"], **settings["return"]}
        self.confirm: dict[str, int] = {**DEFAULTS["confirm"], **settings["confirm"]}
        #: Checks that the plan has not had for long, and until when (unix seconds) they are only observed.
        self.new_checks: dict[str, float] = {} if now is None else newcomers(settings, now)
        self.tiers: dict[str, str] = settings["tiers"]
        #: Where records are sent, by `engine.destination`; empty: nowhere.
        self.collector: dict[str, Any] = dict(settings["collector"])
        #: The site's own health program, by `engine.chain`; empty: none.
        self.chain: dict[str, Any] = dict(settings["chain"])
        self.all_nodes: list[str] = sorted(bundle.get("nodes", {}))
        self._take_profile(_profile(bundle, node))

    def _take_profile(self, profile: dict[str, Any]) -> None:
        self.node_class: str = profile.get("class", "")
        self.checks: dict[str, dict[str, Any]] | None = profile.get("checks")
        self.expected: dict[str, Any] = profile.get("expected", {})
        self.references: dict[str, list[Any]] = profile.get("references", {})
        self.modes: list[list[str]] = profile.get("modes", [])
        self.rules: list[dict[str, Any]] = [rules.checked(rule) for rule in profile.get("rules", [])]

    @property
    def longest_of(self) -> int:
        """N of the longest "M of N runs" that anything here asks for."""
        longest: int = max([self.confirm["of"], *(rule.get("of", 1) for rule in self.rules)])
        return longest

    def mode(self, check: str, action: str) -> str:
        """`off`, `observe` or `enforce` for an action that a check calls for; the last match counts.

        A mode is `[check pattern, action, mode]`, where a pattern may end with `*`. A check that is new to
        the plan is not enforced, but what was drained for it may be put back.
        """
        return "observe" if self.held_back_until(check, action) else self._set_mode(check, action)

    def held_back_until(self, check: str, action: str) -> float:
        """Until when (unix seconds) an action is only observed because its check is new; 0 if it is not."""
        until = 0.0 if action == "resume" else self.new_checks.get(check, 0.0)
        return until if until and self._set_mode(check, action) == "enforce" else 0.0

    def _set_mode(self, check: str, action: str) -> str:
        found = "observe"
        for pattern, of_action, mode in self.modes:
            if of_action in ("*", action) and matches(pattern, check):
                found = mode
        return found

    def tier(self, fault: str, default: str) -> str:
        """The tier of a fault: the site's own, by fault, then by check, else the default."""
        return self.tiers.get(fault) or self.tiers.get(fault.partition(".")[0]) or default

    @property
    def needs_sightings(self) -> bool:
        """True if a rule asks for how long, or how often, a fault was seen."""
        return any("minimum_s" in rule or "escalate" in rule for rule in self.rules)


def newcomers(bundle: dict[str, Any], now: float) -> dict[str, float]:
    """Which checks a bundle has had for less than `new_check_s`, and until when each is only observed."""
    window = float(bundle.get("new_check_s", DEFAULTS["new_check_s"]))
    ends = {check: float(since) + window for check, since in (bundle.get("check_since") or {}).items()}
    return {check: until for check, until in ends.items() if now < until and window > 0}


def matches(pattern: str, name: str) -> bool:
    """True if a name equals a pattern, or starts with a pattern that ends with `*`."""
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def digest(bundle: dict[str, Any]) -> str:
    """The hash of a bundle's content, without `hash`, `seal` and `built_at`: equal content, equal hash."""
    import hashlib  # 3 ms, and no hook needs it for a sealed plan

    content = {k: v for k, v in bundle.items() if k not in ("hash", "seal", "built_at")}
    return hashlib.sha256(_canonical(content)).hexdigest()[:32]


def encode(bundle: dict[str, Any]) -> bytes:
    """A bundle with its hash as it lies on disk: sealed, so that a node sees damage without the hash.

    The hash needs the content in canonical form, which costs a node as much as reading the plan itself.
    """
    content = {k: v for k, v in bundle.items() if k not in ("hash", "seal")}
    named, rest = bundle["hash"].encode(), b'",' + _canonical(content)[1:]
    return b"".join((_HASH, named, _SEAL, _checksum(named, rest), rest))


def _canonical(content: dict[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _checksum(named: bytes, rest: bytes) -> bytes:
    return b"%08x" % zlib.crc32(rest, zlib.crc32(named))


def is_whole(raw: bytes, bundle: dict[str, Any]) -> bool:
    """True if a plan file's bytes are those that were written; one without a seal is compared by its hash."""
    if raw.startswith(_HASH) and raw.startswith(_SEAL, _HASH_END):
        return raw[_SEAL_END - 8 : _SEAL_END] == _checksum(raw[len(_HASH) : _HASH_END], raw[_SEAL_END:])
    return bool(bundle.get("hash") == digest(bundle))


def load(path: str, node: str, now: float | None = None) -> Plan:
    """Read the plan of a node; never raises: whatever is wrong is told by `state` and `problem`."""
    try:
        with open(path, "rb", opener=without_waiting) as file:
            problem = _unfit(os.fstat(file.fileno()))
            if problem:
                return Plan({}, node, "foreign", f"{path}: {problem}; run `sguard config apply`")
            raw = file.read()
        bundle = json.loads(raw)
    except FileNotFoundError:
        return Plan(
            {}, node, "default", f"no plan at {path}: the built-in defaults apply; run `sguard config apply`"
        )
    except (OSError, ValueError, RecursionError) as error:
        return Plan({}, node, "torn", f"{path}: {error}; run `sguard config apply`")
    problem = _foreign(bundle, raw)
    if problem:
        return Plan({}, node, "foreign", f"{path}: {problem}; run `sguard config apply` with this version")
    return _checked(bundle, path, node, time.time() if now is None else now)


def _unfit(status: os.stat_result) -> str:
    """Why a file cannot be our plan: it names programs and libraries, so only its owners may write it."""
    if not stat.S_ISREG(status.st_mode):
        return "is no regular file"
    others = written_by_others(status)
    if others:
        return others
    return f"larger than {LARGEST} bytes" if status.st_size > LARGEST else ""


def _checked(bundle: dict[str, Any], path: str, node: str, now: float) -> Plan:
    try:
        age = now - float(bundle.get("built_at", 0))
        if age > float(bundle.get("stale_after_s", DEFAULTS["stale_after_s"])):
            return Plan(
                bundle, node, "stale", f"{path}: {age / 86400:.0f} days old; run `sguard config apply`", now
            )
        return Plan(bundle, node, now=now)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        return Plan(
            {}, node, "foreign", f"{path}: {type(error).__name__}: {error}; run `sguard config apply`"
        )


def _foreign(bundle: Any, raw: bytes) -> str:
    if not isinstance(bundle, dict):
        return f"expected a JSON object, found {type(bundle).__name__}"
    major = str(bundle.get("schema", "")).partition(".")[0]
    if major not in (str(MAJOR), str(MAJOR - 1)):
        return f"plan version {bundle.get('schema')!r}, this guard reads {MAJOR - 1} and {MAJOR}"
    return "" if is_whole(raw, bundle) else "its content does not match its hash"


def _profile(bundle: dict[str, Any], node: str) -> dict[str, Any]:
    profiles = bundle.get("profiles", [])
    index = bundle.get("nodes", {}).get(node)
    found = profiles[index] if isinstance(index, int) else bundle.get("default_profile", {})
    return found if isinstance(found, dict) else {}
