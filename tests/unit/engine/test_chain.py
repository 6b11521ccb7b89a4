"""The site's own health program: run after ours, in its own time, its output and its exit handed through."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core import plan as plans
from slurm_guard.core.paths import Places
from slurm_guard.engine import chain, child, files

from .conftest import CHECKOUT

if TYPE_CHECKING:
    from .conftest import NodeRoot


def program(node: NodeRoot, text: str, mode: int = 0o755) -> str:
    path = node.root / "site-health"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return str(path)


def name_it(node: NodeRoot, content: Any) -> None:
    """In node.json: what the plan says is tried below."""
    folder = node.root / "etc/slurm-guard"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "node.json").write_text(json.dumps({"chain": content}))


def test_it_is_run_after_ours_with_its_arguments_and_slurmd_s_environment(node: NodeRoot) -> None:
    runs = f"ls {node.spool} | wc -l"
    name_it(node, {"healthcheck": [program(node, f'echo "$SLURMD_NODENAME $*" $({runs})'), "-q", "a  b;x"]})
    done = node.run("healthcheck", SLURMD_NODENAME="n7")
    assert (done.returncode, done.stdout) == (0, "n7 -q a  b;x 1\n")


@pytest.mark.parametrize("code", [0, 1, 3, 62, 63])
def test_its_exit_is_handed_through(node: NodeRoot, code: int) -> None:
    name_it(node, {"healthcheck": [program(node, f"echo said; exit {code}")]})
    done = node.run("healthcheck")
    assert (done.returncode, done.stdout) == (code, "said\n")
    assert code == 0 or node.said(f"site-health ended with status {code}")


@pytest.mark.parametrize(
    ("text", "how"), [("exit 75", "status 75"), ("exit 255", "status 255"), ("kill -9 $$", "signal 9")]
)
def test_an_exit_that_no_code_is_left_for_is_told_in_words(node: NodeRoot, text: str, how: str) -> None:
    name_it(node, {"healthcheck": [program(node, text)]})
    done = node.run("healthcheck")
    assert done.returncode == 63
    assert done.stdout.endswith(f"site-health ended with {how}\n")


def test_its_time_is_bounded_and_nothing_of_a_pipeline_stays(node: NodeRoot) -> None:
    mark = node.root / "pids"
    text = f"sleep 300 & echo $! > {mark}; echo $$ >> {mark}; sleep 300 | cat"
    name_it(node, {"healthcheck": [program(node, text)], "seconds": 1})
    done = node.run("healthcheck")
    assert done.returncode == 1
    assert "took longer than 1 s and was ended" in done.stdout
    for pid in mark.read_text().split():
        assert child.describe(int(pid))[0] in ("", "Z")


def test_what_it_leaves_in_the_background_ends_with_it(node: NodeRoot) -> None:
    mark = node.root / "pid"
    name_it(node, {"healthcheck": [program(node, f"sleep 300 & echo $! > {mark}")]})
    assert node.run("healthcheck", timeout=30).returncode == 0
    assert child.describe(int(mark.read_text()))[0] in ("", "Z")


def test_slurmd_s_time_out_ends_it_too(node: NodeRoot) -> None:
    mark = node.root / "pid"
    name_it(node, {"healthcheck": [program(node, f"echo $$ > {mark}; sleep 300"), "-q"]})
    with subprocess.Popen(
        [CHECKOUT / "healthcheck/sguard-healthcheck", "--root", str(node.root)],
        env={"SLURMD_NODENAME": "n1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as hook:
        while not (mark.exists() and mark.read_text().strip()):
            assert hook.poll() is None
            time.sleep(0.01)
        os.killpg(hook.pid, signal.SIGTERM)
    pid = int(mark.read_text())
    end = time.monotonic() + 20
    while child.describe(pid)[0] not in ("", "Z"):
        assert time.monotonic() < end
        time.sleep(0.01)


UNFIT = {
    "not there": (["/nonexistent/nhc"], "No such file"),
    "relative": (["nhc", "-q"], "'nhc' is no absolute path"),
    "a folder": (["/tmp"], "no file that can be executed"),
    "no list": ("/usr/sbin/nhc", "expected a list of words"),
    "empty": ([], "expected a list of words"),
    "numbers": ([1], "expected a list of words"),
}


@pytest.mark.parametrize("name", UNFIT)
def test_what_cannot_be_run_is_said_and_costs_ours_nothing(node: NodeRoot, name: str) -> None:
    argv, said = UNFIT[name]
    name_it(node, {"healthcheck": argv})
    assert node.run("healthcheck").returncode == 0
    assert node.said(said)
    assert len(node.records()) == 1


@pytest.mark.parametrize(("mode", "uid"), [(0o757, 0), (0o755, 65534)])
def test_a_program_that_others_may_change_is_not_run(node: NodeRoot, mode: int, uid: int) -> None:
    path = program(node, f"touch {node.root}/owned", mode)
    os.chown(path, uid, uid)
    name_it(node, {"healthcheck": [path]})
    assert node.run("healthcheck").returncode == 0
    assert node.said("can be changed by others than root")
    assert not (node.root / "owned").exists()


def test_a_script_without_an_interpreter_is_said(node: NodeRoot) -> None:
    path = Path(program(node, ""))
    path.write_text("#!/no/interpreter\n")
    name_it(node, {"healthcheck": [str(path)]})
    assert node.run("healthcheck").returncode == 0
    assert node.said("the chained program was not run")


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_no_job_s_hook_runs_it(node: NodeRoot, hook: str) -> None:
    name_it(node, {"healthcheck": [program(node, f"touch {node.root}/ran")]})
    assert node.run(hook, job=4).returncode == 0
    assert not (node.root / "ran").exists()


def test_the_plan_names_it_and_node_json_wins(node: NodeRoot) -> None:
    folder = node.root / "var/lib/slurm-guard"
    folder.mkdir(parents=True)
    path = program(node, "exit 4")
    bundle = {"schema": "1.0", "built_at": time.time(), "chain": {"healthcheck": [path]}, "hash": ""}
    files.write_json(str(folder / "plan.json"), {**bundle, "hash": plans.digest(bundle)})
    assert node.run("healthcheck").returncode == 4
    name_it(node, {})
    assert node.run("healthcheck").returncode == 0


def test_it_is_run_although_our_own_run_breaks(node: NodeRoot, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker told of it before it was killed."""
    name_it(node, {"healthcheck": [program(node, f"touch {node.root}/ran; exit 2")]})
    from slurm_guard.engine import hook, run_once

    monkeypatch.setattr(run_once, "run_checks", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    assert hook.main(["healthcheck", "--root", str(node.root)]) == chain.HANDED_ON + 2
    assert (node.root / "ran").exists()


def test_without_time_left_it_is_not_started(node: NodeRoot) -> None:
    argv = [program(node, f"touch {node.root}/ran")]
    wanted = {"argv": argv, "seconds": 20.0}
    assert chain.run(wanted, Places(str(node.root)), time.monotonic() + 0.5) == 0
    assert node.said("no time is left")
    assert not (node.root / "ran").exists()


def test_the_kill_switch_leaves_it_out(node: NodeRoot) -> None:
    name_it(node, {"healthcheck": [program(node, "exit 4")]})
    (node.root / "etc/slurm-guard/disabled").touch()
    assert node.run("healthcheck").returncode == 0


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["healthcheck", "seconds", "x"]), inner, max_size=3)
        ),
        max_leaves=8,
    )
)
def test_any_chain_is_a_program_nothing_or_a_problem(content: Any) -> None:
    places = Places("/nonexistent")
    places.node = {"chain": content}
    found = chain.wanted(places, plans.Plan({}, "n1"))
    if "argv" in found:
        assert found["argv"]
        assert chain.LEAST_S <= found["seconds"] <= chain.LONGEST_S
    else:
        assert set(found) <= {"problem"}
