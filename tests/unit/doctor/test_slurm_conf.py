"""The doctor reads slurm.conf: each mistake of a site is told once, a good one gets no advice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from slurm_guard.doctor import slurm_conf, timeouts
from slurm_guard.doctor.subject import Subject
from tests.unit.doctor.sites import GOOD_CONF, script, site, told

if TYPE_CHECKING:
    from pathlib import Path


def test_a_good_site_gets_no_advice(tmp_path: Path) -> None:
    subject = site(tmp_path)
    assert told(slurm_conf.examine, subject) == []
    assert told(timeouts.examine, subject) == []


def changed(old: str, new: str) -> str:
    assert old in GOOD_CONF
    return GOOD_CONF.replace(old, new)


# name: (slurm.conf, status, pattern of the sentence, pattern of the remedy)
MISTAKES = {
    "no prolog": (re.sub("Prolog=.*\n", "", GOOD_CONF, count=1), "warn", "no Prolog", "add `Prolog=/usr/lib"),
    "no epilog": (re.sub("Epilog=.*\n", "", GOOD_CONF, count=1), "warn", "no Epilog", "add `Epilog="),
    "commented out": (changed("\nEpilog=", "\n#Epilog="), "warn", "no Epilog", "add `Epilog="),
    "someone else's epilog": (
        re.sub("Epilog=.*", "Epilog=/bin/true", GOOD_CONF, count=1),
        "warn",
        "Epilog does not call the guard",
        r"move /bin/true into it.*00-sguard-epilog.*reverse order",
    ),
    "someone else's folder": (
        re.sub("Prolog=.*", "prolog=/etc/slurm/pro.d/*", GOOD_CONF, count=1),
        "warn",
        "Prolog does not call the guard",
        "as /etc/slurm/pro.d/00-sguard-prolog",
    ),
    "someone else's healthcheck": (
        re.sub("HealthCheckProgram=.*", "HealthCheckProgram=/usr/sbin/nhc -q", GOOD_CONF),
        "warn",
        "HealthCheckProgram does not call",
        "one program only",
    ),
    "no alloc": (changed("=Alloc", "=Serial"), "warn", "PrologFlags without Alloc", "PrologFlags=Alloc"),
    "no flags": (
        changed("PrologFlags=Alloc\n", ""),
        "warn",
        "PrologFlags without Alloc",
        "PrologFlags=Alloc",
    ),
    "in the job": (changed("=Alloc", "=Alloc,RunInJob"), "warn", "RunInJob: hooks are confined", "remove"),
    "held": (changed(",nohold_on_prolog_fail", ""), "warn", "is held", "nohold_on_prolog_fail"),
    "never checks": (changed("Interval=300", "Interval=0"), "fail", "never runs", "=300"),
    "interval forgotten": (changed("HealthCheckInterval=300\n", ""), "fail", "never runs", "=300"),
    "checks too often": (changed("Interval=300", "Interval=60"), "warn", "=60: a slow", "=300"),
    "idle only": (changed("ANY,CYCLE", "IDLE"), "warn", "=IDLE: other nodes", "ANY,CYCLE"),
    "all at once": (changed("ANY,CYCLE", "ANY"), "warn", "no CYCLE", "ANY,CYCLE"),
    "two lines": (
        changed("Prolog=/usr", "Prolog=/bin/true\nProlog=/usr"),
        "warn",
        "2 Prolog lines.*sguard-prolog",
        "FOLDER",
    ),
    "included file is gone": (GOOD_CONF + "Include more.conf\n", "warn", "more.conf", "make it readable"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_each_mistake_is_told_with_its_remedy(tmp_path: Path, name: str) -> None:
    text, status, what, remedy = MISTAKES[name]
    advice = [one for one in slurm_conf.examine(site(tmp_path, text)) if one.status not in ("pass", "skip")]
    assert [one.status for one in advice] == [status], advice
    assert re.search(what, advice[0].what)
    assert re.search(remedy, advice[0].remedy)
    assert "slurm.conf" in advice[0].where


def test_contain_implies_alloc_in_any_case(tmp_path: Path) -> None:
    assert told(slurm_conf.examine, site(tmp_path, changed("PrologFlags=Alloc", "PROLOGFLAGS=contain"))) == []


LIMITS = {
    "too short for the epilog": (
        changed("Timeout=120", "Timeout=20"),
        "fail",
        r"=20: slurmd ends the epilog after 20 s",
    ),
    "shorter than the shim's": (
        changed("Timeout=120", "Timeout=40"),
        "warn",
        r"=40: .* the shim's own limit .* \(40 s\)",
    ),
    "of the prolog, shorter than the shim's": (
        GOOD_CONF + "PrologTimeout=15\n",
        "warn",
        r"ends the prolog .*\(20 s\)",
    ),
    "of the prolog alone": (
        GOOD_CONF + "PrologTimeout=5\n",
        "fail",
        r"PrologTimeout=5: .*own deadline \(8 s\)",
    ),
    "of the healthcheck": (GOOD_CONF + "HealthCheckTimeout=20\n", "fail", r"HealthCheckTimeout=20: "),
    "batch start": (GOOD_CONF + "BatchStartTimeout=5\n", "warn", "BatchStartTimeout=5"),
    "owner": (
        changed("SlurmUser=root", "SlurmUser=ops"),
        "warn",
        r"SlurmUser=ops is not among .*\(root, slurm\)",
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_time_outs_and_owners(tmp_path: Path, name: str) -> None:
    text, status, pattern = LIMITS[name]
    ((found, what),) = told(timeouts.examine, site(tmp_path, text))
    assert found == status
    assert re.search(pattern, what)


@pytest.mark.parametrize(
    "key", ["PrologEpilogTimeout", "PrologTimeout", "EpilogTimeout", "HealthCheckTimeout"]
)
def test_a_limit_that_is_too_short_has_a_line_to_copy(tmp_path: Path, key: str) -> None:
    subject = site(tmp_path, f"{changed('PrologEpilogTimeout=120', '')}\n{key}=3\n")
    (advice,) = [one for one in timeouts.examine(subject) if one.status == "fail"]
    assert f"`{key}=60`" in advice.remedy
    subject = site(tmp_path, f"{changed('PrologEpilogTimeout=120', '')}\n{key}=60\n")
    assert told(timeouts.examine, subject) == []


@pytest.mark.parametrize("value", ["0", "65534", "INFINITE"])
def test_no_limit_is_no_mistake(tmp_path: Path, value: str) -> None:
    assert told(timeouts.examine, site(tmp_path, changed("Timeout=120", f"Timeout={value}"))) == []


def test_a_plan_for_another_cluster(tmp_path: Path) -> None:
    ((status, what),) = told(timeouts.examine, site(tmp_path, config="cluster = 'other'\n"))
    assert (status, what) == ("fail", "ClusterName=atlas, but the plan is for cluster other")


def test_a_slurm_conf_that_is_gone_is_unknown_and_told_once(tmp_path: Path) -> None:
    subject = site(tmp_path)
    (tmp_path / "etc/slurm/slurm.conf").unlink()
    advice = list(slurm_conf.examine(Subject(subject.places, subject.node)))
    assert [one.status for one in advice] == ["unknown"]
    assert "slurm.conf: No such file" in advice[0].what
    assert "set `conf` in [slurm]" in advice[0].remedy


def test_no_slurm_conf_is_unknown(tmp_path: Path) -> None:
    subject = site(tmp_path)
    subject.slurm = None
    ((status, _),) = told(slurm_conf.examine, subject)
    assert status == "unknown"


FOLDER_CONF = re.sub("Prolog=.*", "Prolog=/etc/slurm/prolog.d/*", GOOD_CONF, count=1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("00-sguard-prolog", []),
        ("50-sguard-prolog", [("warn", "10-site run(s) after the guard's prolog: a refusal skips them")]),
        (
            "99-sguard-prolog",
            [("warn", "90-site, 10-site run(s) after the guard's prolog: a refusal skips them")],
        ),
    ],
)
def test_where_ours_stands_in_a_folder(tmp_path: Path, name: str, expected: list[tuple[str, str]]) -> None:
    for other in ("10-site", "90-site"):
        script(tmp_path / "etc/slurm/prolog.d" / other)
    subject = site(tmp_path, FOLDER_CONF)
    (tmp_path / "etc/slurm/prolog.d" / name).symlink_to(tmp_path / "usr/lib/slurm-guard/prolog/sguard-prolog")
    assert told(slurm_conf.examine, subject) == expected


def test_a_script_of_the_site_that_calls_ours_counts(tmp_path: Path) -> None:
    script(tmp_path / "etc/slurm/my-prolog", "#!/bin/sh\n/opt/x/sguard-prolog || exit 1\n")
    text = re.sub("Prolog=.*", "Prolog=/etc/slurm/my-prolog", GOOD_CONF, count=1)
    assert told(slurm_conf.examine, site(tmp_path, text)) == []


def test_a_relative_path_is_a_copy_beside_slurm_conf_at_best(tmp_path: Path) -> None:
    """Configless Slurm from 23.02 on brings it there; others cannot start it and drain the node."""
    script(tmp_path / "etc/slurm/sguard-prolog", "#!/bin/sh\n")
    text = re.sub("Prolog=.*", "Prolog=sguard-prolog", GOOD_CONF, count=1)
    ((status, what),) = told(slurm_conf.examine, site(tmp_path, text))
    assert status == "warn"
    assert "Prolog=sguard-prolog is no absolute path: only configless Slurm from 23.02 on" in what
