"""`sguard check`: against a node's root that has nothing, and with a check of the test's own."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from slurm_guard.cli import check_run
from slurm_guard.cli.host import Host
from slurm_guard.cli.main import main
from slurm_guard.core import plan as plans
from slurm_guard.core.check import CHECKS, Check, Fault, failed, names, passed, unknown, warned

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A node's root with a readable boot and no hardware."""
    (tmp_path / "proc/sys/kernel/random").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/random/boot_id").write_text("b6a7\n")
    (tmp_path / "proc/uptime").write_text("9000.00 1.00\n")
    return tmp_path


@pytest.fixture
def lamp(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Check]]:
    """A check that the registry knows for the length of a test."""

    class Lamp(Check):
        """The lamp burns."""

        name = "lamp"
        probe = "procfs"
        params = {"colour": "red", "ports": None}  # noqa: RUF012 - as in the real checks
        faults = {"off": Fault("DRAIN", "The lamp is off.", remedy="Switch it on.", sure=True, refuse=True)}  # noqa: RUF012

        def judge(self, facts: Any, params: Any, expect: Any) -> Any:
            expect.values["lux lamp0"] = 2
            yield failed(f"off ({params.colour})", code="off", device="lamp0")
            yield warned("dim", device="lamp1")

    monkeypatch.setattr("slurm_guard.core.check.names", lambda: ["lamp"])
    yield Lamp
    del CHECKS["lamp"]


def write_plan(root: Path, **bundle: Any) -> None:
    content = {"schema": "1.0", "built_at": 4e9, "stale_after_s": 1e12, **bundle}
    content["hash"] = plans.digest(content)
    folder = root / "var/lib/slurm-guard"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps(content))


def answer(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> dict[str, Any]:
    assert main([*arguments, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert found["schema"] == "1.0"
    return found


def test_list_names_every_built_in_check(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, 0, "check", "list", "--root", str(root))
    assert found["kind"] == "checks"
    assert [one["check"] for one in found["checks"]] == names()
    assert all(one["text"] and one["hooks"] and one["enabled"] for one in found["checks"])


def test_list_as_text(root: Path, lamp: type[Check], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "list", "--root", str(root)]) == 0
    header, row, *more = capsys.readouterr().out.splitlines()
    assert header.split() == ["CHECK", "HOOKS", "UP", "TO", "TIER", "HERE", "SAYS"]
    assert row.split()[:4] == ["lamp", "all", "DRAIN", "on"]
    assert all(line.startswith(" ") for line in more)


def test_nothing_is_wider_than_80_columns(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "list", "--root", str(root)]) == 0
    for name in names():
        assert main(["check", "show", name, "--root", str(root)]) == 0
    assert max(len(line) for line in capsys.readouterr().out.splitlines()) <= 80


def test_a_long_message_wraps_in_its_column(
    root: Path, lamp: type[Check], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "the lamp of the entrance is dim, at 2 lux where 200 were expected, since yesterday"
    monkeypatch.setattr(lamp, "judge", lambda *_: [failed(said, code="off", device="lamp0")])
    assert main(["check", "run", "lamp", "-w", "n7", "--root", str(root)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert max(len(line) for line in lines) <= 80
    assert said in " ".join(" ".join(lines[1:]).split())


def test_list_survives_a_check_that_cannot_be_loaded(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slurm_guard.core.check.names", lambda: ["no_such_check"])
    found = answer(capsys, 0, "check", "list", "--root", str(root))
    assert "cannot be loaded: ModuleNotFoundError" in found["checks"][0]["text"]


def test_show_tells_faults_params_and_modes_of_this_node(
    root: Path, lamp: type[Check], capsys: pytest.CaptureFixture[str]
) -> None:
    profile = {
        "checks": {"lamp": {"colour": "blue"}},
        "expected": {"ports": 4},
        "modes": [["lamp", "drain", "enforce"]],
    }
    write_plan(root, tiers={"lamp.off": "WARN"}, default_profile=profile)
    found = answer(capsys, 0, "check", "show", "lamp.off", "--root", str(root))
    assert found["kind"] == "check"
    assert found["modes"] == {"drain": "enforce", "refuse": "observe", "resume": "observe"}
    assert found["params"] == [
        {"name": "colour", "default": "red", "here": "blue"},
        {"name": "ports", "default": None, "here": 4},
    ]
    fault = found["faults"][0]
    assert (fault["fault"], fault["tier"], fault["default_tier"]) == ("lamp.off", "WARN", "DRAIN")
    assert fault["marks"] == ["sure", "refuse"]


def test_show_as_text(root: Path, lamp: type[Check], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "show", "lamp", "--root", str(root)]) == 0
    captured = capsys.readouterr()
    assert "lamp.off: DRAIN (sure, refuse)" in captured.out
    assert "Remedy: Switch it on." in captured.out
    rows = [line.split() for line in captured.out.splitlines() if line.startswith(("colour", "ports"))]
    assert rows == [["colour", '"red"', '"red"'], ["ports", "from", "the", "node", "class", "nothing"]]
    assert "built-in defaults apply" in captured.err


def test_show_of_one_fault_shows_that_one(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, 0, "check", "show", "gpu_xid.79", "--root", str(root))
    assert [one["fault"] for one in found["faults"]] == ["gpu_xid.79"]
    found = answer(capsys, 0, "check", "show", "gpu_xid.998", "--root", str(root))
    assert [one["fault"] for one in found["faults"]] == ["gpu_xid.998"]
    assert main(["check", "show", "gpu_count.losst", "--root", str(root)]) == 20
    assert "did you mean gpu_count.lost?" in capsys.readouterr().err
    assert main(["check", "show", "gpu_xid.nonsense", "--root", str(root)]) == 20
    assert "gpu_xid has no fault 'nonsense'" in capsys.readouterr().err


def test_xids_are_in_the_order_of_numbers(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, 0, "check", "show", "gpu_xid", "--root", str(root))
    codes = [one["fault"].partition(".")[2] for one in found["faults"]]
    numbers = [int(code) for code in codes if code.isdigit()]
    assert numbers == sorted(numbers)
    assert [code.isdigit() for code in codes] == sorted((code.isdigit() for code in codes), reverse=True)


def test_run_takes_patterns(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, 1, "check", "run", "gpu_*", "gpu_xid", "ib_l?nk", "--root", str(root))
    ran = sorted([*found["passed"], *found["skipped"], *(one["check"] for one in found["results"])])
    assert ran == sorted(name for name in names() if name.startswith("gpu_") or name == "ib_link")
    assert main(["check", "run", "tpu_*", "--root", str(root)]) == 20
    assert "no check is named like 'tpu_*'" in capsys.readouterr().err


def test_one_form_of_answer_at_a_time(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "run", "--nagios", "--json", "--root", str(root)]) == 2
    assert "--nagios, --json" in capsys.readouterr().err


def test_an_unknown_check_is_not_found_with_a_hint(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("show", "run"):
        assert main(["check", command, "lampp\x1b[2J", "--root", str(root)]) == 20
        captured = capsys.readouterr()
        assert "no check named" in captured.err
        assert "\x1b" not in captured.err
        assert captured.out == ""


def test_run_finds_and_ends_with_1(root: Path, lamp: type[Check], capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, 1, "check", "run", "lamp", "-w", "n7", "--root", str(root))
    assert (found["kind"], found["node"], found["status"]) == ("check_run", "n7", "fail")
    assert [one["fault"] for one in found["results"][0]["findings"]] == ["lamp.off", "lamp"]
    assert found["values"] == {"lux lamp0": 2}
    assert not (root / "var").exists()


def test_run_as_text_and_for_nagios(
    root: Path, lamp: type[Check], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "run", "lamp", "-w", "n7", "--root", str(root)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["fail", "lamp.off", "lamp0", "DRAIN", "off", "(red)"]
    assert lines[-1].startswith("n7: fail; 0 passed, 0 skipped, 2 findings;")
    assert main(["check", "run", "lamp", "--nagios", "--root", str(root)]) == 2
    assert capsys.readouterr().out == "SGUARD CRITICAL - lamp.off lamp0: off (red), 1 more | 'lux lamp0'=2\n"


@pytest.mark.parametrize(("node", "noted"), [("n1", False), ("n2", True)])
def test_run_says_that_nothing_is_expected_of_a_node_in_no_class(
    node: str, noted: bool, root: Path, lamp: type[Check], capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(root, profiles=[{"class": "8xH100"}], nodes={"n1": 0}, default_profile={})
    assert main(["check", "run", "--root", str(root), "-w", node]) == 1
    assert (f"{node} is in no class of the plan" in capsys.readouterr().err) == noted


def test_run_tells_a_terminal_what_to_do_about_what_is_broken(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        failed("off", code="off", device="lamp0", remedy="Switch it on. " * 9),
        unknown("not seen", code="dim", remedy="Take another lamp."),
    ]
    for one in found:
        one.check = "lamp"
    monkeypatch.setattr("slurm_guard.cli.output.on_terminal", lambda: True)
    outcome = SimpleNamespace(results=[], status="fail", elapsed_ms=1.0, problems=[], findings=found)
    assert check_run.show(Host(str(root)), outcome, "healthcheck", "text") == 1
    out = capsys.readouterr().out
    assert "Remedy for lamp.off: Switch it on." in out
    assert "another lamp" not in out
    assert max(map(len, out.splitlines())) <= 80


def test_run_leaves_a_record_only_when_asked(
    root: Path, lamp: type[Check], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "run", "lamp", "-w", "n7", "--record", "--root", str(root)]) == 1
    spool = root / "var/lib/slurm-guard/spool"
    (path,) = spool.glob("*.json")
    record = json.loads(path.read_text())
    assert (record["kind"], record["hook"], record["node"], record["status"]) == ("run", "cli", "n7", "fail")
    assert record["decisions"] == record["actions"] == []
    capsys.readouterr()


def test_a_record_that_cannot_be_written_is_a_setup_error(
    root: Path, lamp: type[Check], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(check_run.spool, "write", refuse)
    assert main(["check", "run", "lamp", "--record", "--root", str(root)]) == 21
    assert "no record written: Permission denied; run as root, or without --record" in capsys.readouterr().err


def test_a_root_that_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "list", "--root", str(tmp_path / "gone")]) == 21
    assert "no such folder" in capsys.readouterr().err


def test_node_name_comes_from_node_json_then_from_the_host(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(nodename="gpu017.cluster.example"))
    assert Host(str(root)).node == "gpu017"
    (root / "etc/slurm-guard").mkdir(parents=True)
    (root / "etc/slurm-guard/node.json").write_text('{"node": "rack3-n2"}')
    assert Host(str(root)).node == "rack3-n2"


def plan_of_two_classes(root: Path) -> None:
    profiles = [
        {"class": "8xH100", "expected": {"gpus": 8}, "modes": [["*", "drain", "enforce"]]},
        {"class": "cpu", "expected": {"gpus": 0, "mounts": [{"path": "/scratch"}], "ib_ports": 1}},
    ]
    write_plan(root, profiles=profiles, nodes={"g1": 0, "c1": 1})


def test_list_says_which_checks_have_nothing_to_compare_with(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_of_two_classes(root)
    assert main(["check", "list", "-w", "g1", "--root", str(root)]) == 0
    said = capsys.readouterr().err
    assert "fs_mounts: nothing expected in class 8xH100 (`mounts`)" in said
    assert "ib_link: nothing expected" in said
    assert "gpu_count" not in said
    assert main(["check", "list", "-w", "c1", "--root", str(root), "--json"]) == 0
    rows = {one["check"]: one["nothing_expected"] for one in json.loads(capsys.readouterr().out)["checks"]}
    assert (rows["fs_mounts"], rows["memory_size"], rows["gpu_xid"]) == (None, "memory_gib", None)


def test_show_is_about_the_node_that_was_asked_for(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan_of_two_classes(root)
    for node, mode, value in (("g1", "enforce", 8), ("c1", "observe", 0)):
        assert main(["check", "show", "gpu_count", "-w", node, "--root", str(root), "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["modes"]["drain"], found["params"][0]["here"]) == (mode, value)
    assert main(["check", "show", "fs_mounts", "-w", "g1", "--root", str(root)]) == 0
    captured = capsys.readouterr()
    assert "on g1:" in captured.out
    assert "nothing expected in class 8xH100" in captured.err


def test_run_names_what_was_skipped_and_why(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan_of_two_classes(root)
    (root / "proc/self").mkdir()
    (root / "proc/self/mountinfo").write_text("21 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    asked = ["check", "run", "fs_mounts", "gpu_count", "-w", "c1", "--root", str(root)]
    main([*asked, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert sorted(found["skipped_because"]) == sorted(found["skipped"])
    assert main(["check", "run", "fs_mounts", "-w", "g1", "--root", str(root)]) == 0
    page = capsys.readouterr().out
    assert "skipped: fs_mounts: nothing expected in class 8xH100 (`mounts`)\n" in page
    assert "g1: skip; 0 passed, 1 skipped, 0 findings" in page


def test_a_source_that_cannot_be_read_is_told_without_names_of_classes(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan_of_two_classes(root)
    assert main(["check", "run", "fs_mounts", "kernel_log", "-w", "c1", "--root", str(root), "--json"]) == 1
    said = [
        one["message"] for row in json.loads(capsys.readouterr().out)["results"] for one in row["findings"]
    ]
    assert said[0].startswith("mounts: the mount table ")
    assert not any("Error:" in one for one in said)


def test_run_names_what_passed_on_request(
    root: Path, lamp: type[Check], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lamp, "judge", lambda *_: [passed()])
    assert main(["check", "run", "--root", str(root), "-v"]) == 0
    assert "passed: lamp\n" in capsys.readouterr().out
    assert main(["check", "run", "--root", str(root)]) == 0
    assert "passed: lamp" not in capsys.readouterr().out
