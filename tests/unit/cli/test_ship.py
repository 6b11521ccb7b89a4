"""`sguard ship` against a collector on loopback: what it says, and what it ends with."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.cli import ship as command
from slurm_guard.cli.main import main
from slurm_guard.core import plan as plans
from slurm_guard.core.paths import Places
from slurm_guard.engine import ship_state, spool
from tests.unit.engine.collector import Collector, token_file

CHECKOUT = Path(__file__).resolve().parents[3]
SPOOL = {"files": 100, "bytes": 1 << 20, "age_s": 86400}


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.stop()
    assert found.problems == []


@pytest.fixture
def root(tmp_path: Path, collector: Collector) -> Path:
    token_file(tmp_path)
    settings = {"url": collector.url, "token_file": "/etc/slurm-guard/token"}
    (tmp_path / "etc/slurm-guard/node.json").write_text(json.dumps({"node": "n1", "collector": settings}))
    return tmp_path


def record(root: Path, letter: str) -> str:
    run_id = letter * 32
    spool.write(Places(str(root)), {"run_id": run_id, "hook": "prolog"}, SPOOL)
    return run_id


def run(root: Path, capsys: pytest.CaptureFixture[str], *options: str) -> tuple[int, str, str]:
    code = main(["ship", "--root", str(root), *options])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_records_that_were_sent(root: Path, collector: Collector, capsys: pytest.CaptureFixture[str]) -> None:
    record(root, "a")
    record(root, "b")
    assert run(root, capsys) == (0, f"2 records sent to {collector.url} and acknowledged.\n", "")
    assert len(collector.store) == 2
    assert run(root, capsys) == (0, f"Nothing waits to be sent to {collector.url}.\n", "")


def test_refused_records(root: Path, collector: Collector, capsys: pytest.CaptureFixture[str]) -> None:
    record(root, "a")
    bad = record(root, "b")
    collector.refuse[bad] = "no \x1b[31mcluster of ours"
    code, out, err = run(root, capsys)
    assert (code, out) == (1, f"1 record sent to {collector.url} and acknowledged, 1 refused.\n")
    assert err == f"sguard: refused and set aside: {bad}: no  [31mcluster of ours\n"


def test_a_collector_that_takes_nothing(
    root: Path, collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    """And the pause that a hook would keep is not kept for a person."""
    record(root, "a")
    collector.script.append((503, {"Retry-After": "600"}))
    code, out, err = run(root, capsys)
    assert (code, out) == (23, f"0 records sent to {collector.url} and acknowledged.\n")
    assert err == "sguard: 1 record still here: the collector took no record: HTTP 503: told by the test\n"
    assert run(root, capsys)[0] == 0


def test_a_plan_that_was_taken_and_one_that_was_not(
    root: Path, collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle: dict[str, Any] = {"schema": "1.0", "built_at": 2e9, "cluster": "mine", "nodes": {}}
    bundle["hash"] = collector.plan_hash = plans.digest(bundle)
    collector.plan = plans.encode(bundle)
    code, out, _ = run(root, capsys)
    assert (code, out) == (
        0,
        f"Nothing waits to be sent to {collector.url}.\nThe plan is now {bundle['hash']}.\n",
    )
    record(root, "a")
    collector.plan, collector.plan_hash = b"{}", "0" * 32
    code, _, err = run(root, capsys)
    assert code == 1
    assert err.startswith("sguard: the collector's plan was not taken, the one that is here stays: ")


def test_json(root: Path, collector: Collector, capsys: pytest.CaptureFixture[str]) -> None:
    record(root, "a")
    bad = record(root, "b")
    collector.refuse[bad] = "no"
    code, out, err = run(root, capsys, "--json")
    assert (code, err) == (1, "")
    found = json.loads(out)
    assert (found["kind"], found["collector"], found["node"]) == ("ship", collector.url, "n1")
    assert (found["sent"], found["acknowledged"], found["left"]) == (2, 1, 0)
    assert found["refused"] == [{"run_id": bad, "why": "no"}]
    assert (found["plan"], found["plan_why"], found["why"], found["takes_over"]) == ("", "", "", [])


def test_no_collector_says_where_to_name_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(tmp_path, capsys)
    assert (code, out) == (21, "")
    assert "no collector is configured here" in err
    assert "node.json" in err


def test_the_name_that_hooks_ship_as_is_used(
    root: Path, collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    """Slurm tells a hook its NodeName; a person's shell does not know it."""
    path = root / "etc/slurm-guard/node.json"
    path.write_text(json.dumps({"collector": json.loads(path.read_text())["collector"]}))
    state = ship_state.ShipState({"node": "gpu-n17"})
    ship_state.save(Places(str(root)), state)
    record(root, "a")
    assert json.loads(run(root, capsys, "--json")[1])["node"] == "gpu-n17"


def test_one_that_is_under_way_is_waited_for_and_told(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "PATIENCE_S", 0.1)
    program = "import sys; from slurm_guard.engine import files\nheld = files.try_lock(sys.argv[1])\n"
    program += "print(1, flush=True); sys.stdin.read()"
    lock = Places(str(root)).lock("ship")
    with subprocess.Popen(
        [sys.executable, "-c", program, lock], cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        code, _, err = run(root, capsys)
        holder.communicate()
    assert (code, "another shipment of this node is under way" in err) == (23, True)


def test_other_users_are_told_who_may(root: Path) -> None:
    record(root, "a")
    for folder in (root, *root.parents):
        if folder.owner() == "root" and folder not in (Path("/"), Path("/tmp")):
            folder.chmod(0o755)
    (root / "var/lib/slurm-guard").chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "slurm_guard.cli.main", "ship", "--root", str(root)],
        cwd=CHECKOUT, user=65534, group=65534, extra_groups=[], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (21, "")
    assert "only root may send and remove records; run as root" in done.stderr
