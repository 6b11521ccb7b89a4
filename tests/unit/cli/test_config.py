"""`sguard config`: exit codes, what is on stdout and what on stderr, JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from slurm_guard.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

MODE = "[[mode]]\naction = 'drain'\nmode = 'enforce'\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc/slurm-guard").mkdir(parents=True)
    (tmp_path / "etc/slurm-guard/slurm-guard.toml").write_text("cluster = 'atlas'\n" + MODE)
    return tmp_path


def run(root: Path, *words: str) -> int:
    return main(["config", *words, "--root", str(root)])


def test_check_says_ok(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root, "check") == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("ok: 1 file, 0 classes, 1 mode rule\n", "")


def test_every_error_is_a_line_and_the_code_is_the_configurations(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = root / "etc/slurm-guard/slurm-guard.toml"
    path.write_text("[budget]\nnodes = 'x'\n[budgets]\n")
    assert run(root, "check") == 11
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"sguard: the configuration in {path.parent} has 2 errors:",
        'sguard:   slurm-guard.toml:2: budget.nodes: found "x"; expected a whole number',
        'sguard:   slurm-guard.toml:3: budgets: found an unknown key; expected "budget"',
        "sguard:       (did you mean that?)",
    ]
    assert run(root, "apply") == 11
    assert run(root, "show") == 11
    assert not (root / "var").exists()


def test_check_as_json(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (root / "etc/slurm-guard/slurm-guard.toml").write_text("a = 1\n")
    assert run(root, "check", "--json") == 11
    answer = json.loads(capsys.readouterr().out)
    assert (answer["schema"], answer["kind"]) == ("1.0", "config_check")
    (problem,) = answer["problems"]
    assert (problem["line"], problem["key"], problem["found"]) == (1, "a", "an unknown key")


def test_show_with_origin(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root, "show", "--origin") == 0
    lines = capsys.readouterr().out.splitlines()
    assert 'cluster = "atlas"  # slurm-guard.toml:1' in lines
    assert lines[0] == f"# files in {root}/etc/slurm-guard"
    assert "budget.nodes = 2  # built-in default" in lines
    assert run(root, "show", "--json") == 0
    settings = json.loads(capsys.readouterr().out)["settings"]
    assert {"key": "budget.nodes", "value": 2, "origin": "built-in default"} in settings


def test_what_has_no_value_is_said_to_have_none(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root, "show") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "# slurm.programs.sinfo is not set" in lines
    assert not any("(none)" in line or "null" in line for line in lines)


def test_without_a_configuration_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "show") == 0
    assert "the built-in defaults apply" in capsys.readouterr().err


def test_apply_says_what_it_did(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root, "apply") == 0
    first = capsys.readouterr().out
    assert " written: 0 nodes in 0 classes,\n  " in first
    assert run(root, "apply") == 0
    assert " unchanged, marked as fresh: " in capsys.readouterr().out
    (root / "etc/slurm-guard/slurm-guard.toml").write_text("cluster = 'boreas'\n" + MODE)
    assert run(root, "apply") == 0
    assert '  cluster: "atlas" -> "boreas"' in capsys.readouterr().out.splitlines()
    assert run(root, "apply", "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["kind"], answer["changed"], answer["changes"]) == ("config_apply", False, [])


def test_new_checks_are_told_with_the_time_until_which_they_observe(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = root / "etc/slurm-guard/slurm-guard.toml"
    settings.write_text("[checks.ib_link]\nenabled = false\n" + MODE)
    assert run(root, "apply") == 0
    settings.write_text(MODE)
    capsys.readouterr()
    assert run(root, "apply") == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "ib_link is new to the plan: its drains and refusals are only observed until 20" in said
    assert main(["policy", "show", "-w", "n1", "--root", str(root), "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["new_checks"]) == ["ib_link"]
    assert main(["policy", "show", "-w", "n1", "--root", str(root)]) == 0
    page = capsys.readouterr().out
    assert "ib_link is new to the plan" in page
    assert max(len(line) for line in page.splitlines()) <= 80
    assert run(root, "apply", "--approve-new", "--json") == 0
    assert json.loads(capsys.readouterr().out)["new_checks"] == {}
    assert run(root, "apply") == 0
    assert "unchanged" in capsys.readouterr().out


def test_a_root_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path / "gone", "apply") == 21
    assert not (tmp_path / "gone").exists()
    assert "no such folder" in capsys.readouterr().err


def test_nothing_is_wider_than_80_columns(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    etc = root / "etc/slurm-guard"
    (etc / "conf.d").mkdir()
    options = ", ".join(f"'option{number}=value'" for number in range(12))
    wide = f"[[class]]\nname = 'k'\nnodes = 'n1'\nmounts = [{{path = '/a', options = [{options}]}}]\n"
    (etc / "conf.d/a-file-with-a-name-of-some-length.toml").write_text(wide + MODE + "nodes = 'n[1-9]'\n")
    for words in (["check"], ["show"], ["show", "--origin"]):
        assert run(root, *words) == 0
        narrow(root, *capsys.readouterr())
    (etc / "slurm-guard.toml").write_text("[checks.gpu_xidd]\n[policy]\ngpu_xid.79x = 'DRAIN_REBOOOT'\n")
    assert run(root, "check") == 11
    narrow(root, *capsys.readouterr())


def narrow(root: Path, *texts: str) -> None:
    wide = [line for text in texts for line in text.splitlines() if len(line) > 80 and str(root) not in line]
    assert wide == []
