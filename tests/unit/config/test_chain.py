"""`[chain]`: the site's own health program, what is taken and what goes into the plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.config.samples import assert_told
from tests.unit.config.test_compile import bundle_of

# name: (text, line, key, part of what was found, part of what was expected)
WRONG = {
    "relative": ("[chain]\nhealthcheck = ['nhc']\n", 1, "chain", "a table", "absolute path first"),
    "one text": ("[chain]\nhealthcheck = '/usr/sbin/nhc -q'\n", 2, "chain.healthcheck", "nhc -q", "a list"),
    "no time": ("[chain]\nseconds = 0\n", 2, "chain.seconds", "0", "at least 1"),
    "too long": ("[chain]\nseconds = 60\n", 2, "chain.seconds", "60", "at most 45"),
    "prolog": ("[chain]\nprolog = ['/bin/true']\n", 2, "chain.prolog", "unknown key", "healthcheck"),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_mistake_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    assert_told(tmp_path, *WRONG[name])


def test_a_chained_program_goes_into_the_plan_with_its_time(tmp_path: Path) -> None:
    text = "[chain]\nhealthcheck = ['/usr/sbin/nhc', '-q']\nseconds = 12\n"
    assert bundle_of(tmp_path, text)["chain"] == {"healthcheck": ["/usr/sbin/nhc", "-q"], "seconds": 12.0}
    assert bundle_of(tmp_path, "[chain]\nseconds = 12\n")["chain"] == {}
