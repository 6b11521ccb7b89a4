"""`sguard init`: shows, writes only when told to, and never over anything."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from slurm_guard.cli.main import main

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

CONF = "ClusterName=atlas\nEpilog=/bin/true\nNodeName=n[1-2] Gres=gpu:2\n"


def run(root: Path, *words: str) -> int:
    conf = root / "etc/slurm/slurm.conf"
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text(CONF)
    return main(["init", "--root", str(root), *words])


def test_shows_the_files_and_the_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path) == 0
    out = capsys.readouterr().out
    assert f"# would write {tmp_path}/etc/slurm-guard/slurm-guard.toml:" in out
    assert "# would link" in out
    assert "\nProlog=/usr/lib/slurm-guard/prolog/sguard-prolog\n" in out
    assert "# Epilog does not call the guard" in out
    assert "nothing was written" in out
    assert not (tmp_path / "etc/slurm-guard").exists()


def test_writes_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--write") == 0
    assert f"wrote {tmp_path}/etc/slurm-guard/slurm-guard.toml\n" in capsys.readouterr().out
    assert run(tmp_path, "--write") == 0
    again = capsys.readouterr().out
    assert again.startswith(f"kept {tmp_path}/etc/slurm-guard/slurm-guard.toml:")
    assert "every link was there already" in again
    (tmp_path / "usr/lib/slurm-guard/epilog/sguard-epilog").unlink()
    assert run(tmp_path, "--write") == 0
    assert f"\nlinked {tmp_path}/usr/lib/slurm-guard/epilog/sguard-epilog -> /" in capsys.readouterr().out
    assert run(tmp_path) == 0
    assert "stays as it is" in capsys.readouterr().out


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--json") == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["kind"], answer["written"]) == ("init", [])
    assert answer["slurm_conf"]["path"] == "/etc/slurm/slurm.conf"
    assert "PrologFlags=Alloc" in answer["slurm_conf"]["add"]
    assert 'cluster = "atlas"' in answer["config"]["text"]


def test_another_slurm_conf(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.conf"
    other.write_text("ClusterName=boreas\n")
    assert run(tmp_path, "--slurm-conf", str(other), "--json") == 0
    assert json.loads(capsys.readouterr().out)["slurm_conf"]["path"] == str(other)


def test_a_slurm_conf_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "--slurm-conf", "/nope", "--write") == 21
    out, err = capsys.readouterr()
    assert (out, "/nope: No such file or directory" in err) == ("", True)
    assert not (tmp_path / "etc/slurm-guard").exists()


def test_the_environment_is_named_as_the_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.conf").write_text("ClusterName=boreas\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "s.conf"))
    assert main(["init", "--root", str(tmp_path)]) == 0
    assert "($SLURM_CONF)" in capsys.readouterr().out


def test_nothing_is_wider_than_80_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--write"]):
        assert run(tmp_path, *words) == 0
        lines = capsys.readouterr().out.splitlines()
        assert [line for line in lines if len(line) > 80 and str(tmp_path) not in line] == []


def test_no_slurm_conf(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLURM_CONF", raising=False)
    assert main(["init", "--root", str(tmp_path)]) == 0
    assert "no slurm.conf found" in capsys.readouterr().out
