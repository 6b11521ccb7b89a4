"""A check that breaks, in whatever way, is `unknown` and costs the other checks nothing (law 1)."""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.core import check as registry
from slurm_guard.core.check import Check, failed, passed
from slurm_guard.core.expectation import Expectation
from slurm_guard.core.outcome import Facts, Finding
from slurm_guard.core.plan import Plan
from slurm_guard.engine import judge
from slurm_guard.engine.reading import Reading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

EXPECT = Expectation({}, {}, run=Facts(in_grace=False, uptime_s=1e6))


@pytest.fixture
def a_check(monkeypatch: pytest.MonkeyPatch) -> Callable[..., type[Check]]:
    """Define a check named `odd`, for this test alone."""

    def define(findings: Callable[[], Iterable[Any]], **attributes: Any) -> type[Check]:
        body = {"name": "odd", "probe": "procfs", "judge": lambda *_: findings(), **attributes}
        monkeypatch.setitem(registry.CHECKS, "odd", Check)
        monkeypatch.delitem(registry.CHECKS, "odd")
        return type("Odd", (Check,), body)

    return define


def judged(check: Check) -> Any:
    reading = Reading()
    reading.facts["procfs"] = {}
    (result,) = judge.judge_all([check], reading, Plan({}, "n1"), EXPECT)
    return result


@pytest.mark.parametrize(
    "findings",
    [
        lambda: ["mlx5_0 is down"],
        lambda: [passed(), None],
        lambda: [Finding("broken", "a status that does not exist")],
        lambda: [Finding(["fail"], "not even a word")],  # type: ignore[arg-type]
        lambda: 7,
        lambda: [1 / 0],
    ],
)
def test_what_is_no_finding_breaks_its_check_alone(
    a_check: Callable[..., type[Check]], findings: Callable[[], Any]
) -> None:
    result = judged(a_check(findings)())
    assert (result.check, result.status) == ("odd", "unknown")
    assert result.findings[0].message.startswith("the check broke: ")


def test_a_check_that_finds_for_ever_is_cut_off(a_check: Callable[..., type[Check]]) -> None:
    result = judged(a_check(lambda: repeat(failed("down", code="down", device="mlx5_0/1")))())
    assert len(result.findings) == judge.MOST_FINDINGS + 1
    assert result.findings[-1].message == f"more than {judge.MOST_FINDINGS} findings: the rest was left out"
    assert result.status == "fail"
    assert judge.judged([result]) == set()  # what was left out proves nothing gone


def no_object(_: object) -> None:
    raise RuntimeError("half an upgrade")


@pytest.mark.parametrize("attributes", [{"__init__": no_object}, {"hooks": None}])
def test_a_check_that_cannot_be_made_is_unknown(
    a_check: Callable[..., type[Check]], attributes: dict[str, Any]
) -> None:
    a_check(list, **attributes)
    checks, broken = judge.enabled(
        Plan({"profiles": [{"checks": {"odd": {}, "memory_size": {}}}], "nodes": {"n1": 0}}, "n1"), "prolog"
    )
    assert [one.name for one in checks] == ["memory_size"]
    assert [(one.check, one.status) for one in broken] == [("odd", "unknown")]
