"""`sguard collect`: what it asks of whom, and what it says; the SSH itself is tested on a real sshd."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from slurm_guard.cli.pulled import Into
from slurm_guard.remote import pull
from slurm_guard.remote.pull import Pulled
from slurm_guard.remote.target import Access, Target
from slurm_guard.store import open_store
from tests.unit.cli.asking import answer, run
from tests.unit.cli.slurm_stub import put_plan, run_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from slurm_guard.remote.pull import Commit

CONFIG = """
[collect]
user = "guard"
port = 2222
key = "/etc/slurm-guard/key"
known_hosts = "/etc/slurm-guard/known"
command = "/opt/guard/send --all"
parallel = 8
[collect.hosts]
n2 = "10.0.0.2"
"""


class Asked:
    """Takes the place of `pull_all`: keeps how it was asked, answers what it was given."""

    def __init__(self, *answers: Pulled) -> None:
        self.answers = list(answers)
        self.access: Access | None = None
        self.targets: list[Target] = []

    def __call__(self, targets: Sequence[Target], access: Access, _commit: Commit) -> list[Pulled]:
        self.targets, self.access = list(targets), access
        return self.answers or [Pulled(one) for one in targets]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    made = Asked()
    monkeypatch.setattr(pull, "pull_all", made)
    return made


def test_the_configuration_says_how(root: Path, asked: Asked) -> None:
    (root / "etc/slurm-guard").mkdir(parents=True)
    (root / "etc/slurm-guard/slurm-guard.toml").write_text(CONFIG)
    assert run(root, "collect", "-w", "n[1-2],n1") == 0
    assert asked.targets == [Target("n1", "n1"), Target("n2", "10.0.0.2")]
    access = asked.access
    assert access is not None
    assert (access.user, access.port, access.parallel) == ("guard", 2222, 8)
    assert access.command == "/opt/guard/send --all"
    assert (access.key, access.known_hosts) == (
        root / "etc/slurm-guard/key",
        (root / "etc/slurm-guard/known",),
    )


def test_without_any_it_is_root_the_usual_files_and_the_command_of_this_host(
    root: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert run(root, "collect", "-w", "n1") == 0
    access = asked.access
    assert access is not None
    assert (access.user, access.port, access.key) == ("root", 22, None)
    assert [str(path) for path in access.known_hosts] == [
        "/etc/ssh/ssh_known_hosts",
        "/home/ada/.ssh/known_hosts",
    ]
    python, *options, script = access.command.split(" ")
    assert Path(python).is_absolute()
    assert (options, Path(script).name) == (["-I", "-S"], "send.py")


def test_without_w_it_is_the_plan_s_nodes(tmp_path: Path, asked: Asked) -> None:
    put_plan(tmp_path, nodes={"n4": 0, "n3": 0}, profiles=[{}])
    assert run(tmp_path, "collect") == 0
    assert [one.node for one in asked.targets] == ["n3", "n4"]


def test_no_nodes_and_bad_patterns_are_errors(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(root, "collect") == 21
    assert "expected -w HOSTLIST" in capsys.readouterr().err
    assert run(root, "collect", "-w", "n[1-") == 2


def _done(node: str, **told: object) -> Pulled:
    return Pulled(Target(node, f"a-{node}"), **told)  # type: ignore[arg-type]


def test_failures_are_folded_by_their_reason(
    root: Path, asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    asked.answers = [
        _done("n1", taken=3, known=1),
        _done("n2", why="no SSH", remedy="look"),
        _done("n3", why="no SSH", remedy="look"),
        _done("n4", taken=1, refused=2, reasons=[("ab", "torn\x1b"), (None, "odd")]),
        _done("n5", why="its host key has changed", detail="n5 shows SHA256:x"),
    ]
    assert run(root, "collect", "-w", "n[1-5]") == 1
    out, err = capsys.readouterr()
    assert out == "4 records of 2 nodes taken, 1 known already, 2 refused\n"
    assert err.splitlines() == [
        "sguard: n[2-3]: no SSH; look",
        "sguard: n5: its host key has changed",
        "sguard: n4: refused, set aside there: ab: torn",
        "sguard: n4: refused, set aside there: a record: odd",
        "sguard: n5: n5 shows SHA256:x",
    ]
    found = answer(capsys, root, 1, "collect", "-w", "n[1-5]")
    assert (found["taken"], found["known"], found["refused"], found["failed"]) == (4, 1, 2, "n[2-3,5]")
    assert found["nodes"][3]["reasons"][1] == {"run_id": None, "why": "odd"}


def test_each_line_of_a_node_gets_its_answer(tmp_path: Path) -> None:
    good, other, annex = run_record("n1"), run_record("n2"), run_record("n1", cluster="annex")
    changed = {**good, "elapsed_ms": 31.0}
    lines = [json.dumps(one).encode() for one in (good, other, annex, changed)]
    torn = b'{"schema": "1.0", "run_id": "' + b"ab" * 16 + b'"'
    with open_store(tmp_path / "store.sqlite") as store:
        into = Into(store, "lab")
        done = into.commit(Target("n1", "n1"), [*lines, torn, b"", lines[0]])
        assert done.acknowledged == [good["run_id"]] * 2
        assert done.known == 1
        assert sorted(done.foreign) == ["cluster annex", "node n2"]
        refused = [(number, run_id) for number, run_id, _ in done.refused]
        assert sorted(refused) == [(4, good["run_id"]), (5, "ab" * 16), (6, None)]
        assert into.commit(Target("n1", "n1"), []) == ([], 0, [], [])
