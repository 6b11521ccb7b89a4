"""`sguard doctor`: quiet about what is in order, a remedy for the rest, exit code 1."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from slurm_guard.cli.main import main
from slurm_guard.doctor import examine
from slurm_guard.doctor.advice import Advice
from tests.unit.doctor.sites import NODE, site

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

GOOD = Advice("pass", "plan", "the plan is fresh", "/p")
BAD = Advice("fail", "hooks", "not\nexecutable", "/x", "`chmod 755 /x`")


def run(root: Path, *words: str) -> int:
    return main(["doctor", "--root", str(root), "-w", NODE, *words])


def test_only_what_needs_a_person_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(examine, "examine", lambda places, node: [GOOD, BAD])
    assert run(tmp_path) == 1
    assert capsys.readouterr().out.splitlines() == [
        "fail    hooks: not executable [/x]",
        "        -> `chmod 755 /x`",
        f"{NODE}: 1 fail, 1 pass",
    ]
    assert run(tmp_path, "-v") == 1
    assert "pass    plan: the plan is fresh [/p]" in capsys.readouterr().out


def test_long_advice_is_wrapped_and_names_its_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    what = f"/opt/x/sguard-prolog {'is not what it should be, ' * 8}"
    long = Advice("warn", "hooks", what, "/opt/x/sguard-prolog", "do this and that, " * 9)
    monkeypatch.setattr(examine, "examine", lambda places, node: [long])
    assert run(tmp_path) == 1
    out = capsys.readouterr().out
    assert out.count("/opt/x/sguard-prolog") == 1
    assert max(map(len, out.splitlines())) <= 80


def test_all_in_order_is_exit_code_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(examine, "examine", lambda places, node: [GOOD])
    assert run(tmp_path) == 0
    assert capsys.readouterr().out == f"{NODE}: 1 pass\n"


def test_json_of_a_real_examination(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site(tmp_path)
    assert run(tmp_path, "--json") == 1
    answer = json.loads(capsys.readouterr().out)
    assert (answer["schema"], answer["kind"], answer["node"]) == ("1.0", "doctor", NODE)
    assert {"status", "topic", "what", "where", "remedy"} == set(answer["advice"][0])
    assert all(one["remedy"] for one in answer["advice"] if one["status"] in ("warn", "fail"))
