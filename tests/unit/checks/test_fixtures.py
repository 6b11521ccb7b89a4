"""Every folder tests/fixtures/<check>/<case> is a test: real probes read it, the check judges.

root/           the node's files, read through `--root`
nvml-state.ini  what the NVML double answers (without it there is no NVML library)
facts.json      {probe: facts} for what cannot come from files; null: the probe failed
params.json     params, expected, references, run, before, now, request (all optional)
before.json     {"metric device": [value, monotonic seconds]}, if there are many
expect.json     status, and the findings that neither pass nor skip, exactly; `message~` is a pattern
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from minicluster import nvml_library
from slurm_guard.core import check as checks
from slurm_guard.core.expectation import Expectation
from slurm_guard.core.outcome import CheckResult, Facts, Finding
from tests.unit.checks.reading import in_child

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
CASES = sorted(file.parent for file in FIXTURES.glob("*/*/expect.json"))
RUN = {"hook": "healthcheck", "in_grace": False, "uptime_s": 86400.0, "first_run": False}
NO_JOB: dict[str, Any] = {"job_gpus": [], "allocations": [], "own": None}


def load(path: Path) -> Any:
    return json.loads(path.read_text(), object_hook=Facts) if path.exists() else Facts()


@pytest.fixture(scope="session")
def nvml_double() -> Path:
    return nvml_library.build()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_fixture(case: Path, tmp_path: Path, nvml_double: Path) -> None:
    given, wanted = load(case / "params.json"), load(case / "expect.json")
    check = checks.load(case.parent.name)()
    facts = gather(case, check.sources(), given.get("request", Facts()), tmp_path, nvml_double)
    before = given.get("before") or load(case / "before.json")
    run = Facts({**RUN, **NO_JOB, **given.get("run", {})})
    expect = Expectation(
        given.get("references"), given.get("expected"), before=before, now=given.get("now", 0.0), run=run
    )
    params = Facts({**check.params, **given.get("params", {})})
    found = list(check.findings(facts, params, expect))
    compare(found, wanted)
    assert CheckResult(check.name, found).status == wanted.status


@pytest.mark.parametrize("check", sorted({case.parent for case in CASES}), ids=lambda folder: folder.name)
def test_fixtures_name_only_known_faults(check: Path) -> None:
    known = checks.load(check.name).faults
    for case in check.glob("*/expect.json"):
        for finding in load(case).findings:
            code = finding.fault.partition(".")[2]
            is_number = code.removeprefix("sxid_").isdigit()  # Xid and SXid codes of the future
            assert not code or code in known or is_number, f"{case}: {finding.fault}"


def compare(found: list[Finding], wanted: Facts) -> None:
    """Each wanted finding is there, in any order, and no other that neither passes nor skips."""
    left = list(found)
    for expected in wanted.findings:
        match = next((one for one in left if agrees(one, expected)), None)
        assert match, f"expected {dict(expected)}, found:\n" + "\n".join(str(one.as_dict()) for one in left)
        left.remove(match)
    surplus = [one.as_dict() for one in left if one.status not in ("pass", "skip")]
    assert not surplus, f"findings that were not expected: {surplus}"


def agrees(finding: Finding, expected: Facts) -> bool:
    for key, value in expected.items():
        if key == "message~":
            if not re.search(value, finding.message):
                return False
        elif (getattr(finding, key) or None) != (value or None):
            return False
    return True


def gather(case: Path, sources: tuple[str, ...], request: Facts, scratch: Path, double: Path) -> Any:
    """The facts as the engine hands them over: by probe where there are several, with `problems`."""
    given = load(case / "facts.json")
    root = node_root(case, scratch, double)
    facts, problems = Facts(), Facts()
    for source in sources:
        if source in given:
            facts[source] = given[source]
            if given[source] is None:
                problems[source] = f"{source}: no answer"
            continue
        answer = in_child(source, root, request)
        facts[source] = answer.get("facts")
        if "problem" in answer:
            problems[source] = answer.problem
    facts["problems"] = problems
    return facts if len(sources) > 1 else facts[sources[0]]


def node_root(case: Path, scratch: Path, double: Path) -> Path:
    """The case's root; with an NVML state, a copy of it that has the double installed."""
    state = case / "nvml-state.ini"
    if not state.exists():
        return case / "root"
    root = scratch / "root"
    if (case / "root").exists():
        shutil.copytree(case / "root", root, symlinks=True)
    library = nvml_library.install(double, root)
    shutil.copyfile(state, library.with_name("nvml-state.ini"))
    return root
