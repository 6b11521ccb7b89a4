"""A live upgrade and the way back, by versioned folders and a link, under a storm of short jobs."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from slurm_guard import __version__

from .conftest import CHECKOUT, guarded, soak

if TYPE_CHECKING:
    from .conftest import Guarded

JOBS = soak(60, 600)
#: A name that both versions' modules call each other by, another one in each: a mixture cannot run.
MEETING = "run_checks"


def version(folder: Path, number: str) -> Path:
    """A copy of the guard as an installer would lay it out, with modules that fit no other version's."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CHECKOUT / "slurm_guard", folder / "slurm_guard", ignore=ignored)
    for hook in ("prolog", "epilog", "healthcheck"):
        shutil.copytree(CHECKOUT / hook, folder / hook)
    (folder / ".venv/bin").mkdir(parents=True)
    (folder / ".venv/bin/python").symlink_to((CHECKOUT / ".venv/bin/python").resolve())
    for path in (folder / "slurm_guard").rglob("*.py"):
        text = path.read_text()
        path.write_text(text.replace(MEETING, f"{MEETING}_{number}"))
    init = folder / "slurm_guard/__init__.py"
    init.write_text(init.read_text().replace(__version__, f"9.{number}.0"))
    return folder


def point(link: Path, target: Path) -> None:
    """Move a link in one step, as an upgrade should."""
    new = link.with_name("new")
    new.symlink_to(target)
    os.replace(new, link)


def hook_through(cluster: Guarded, current: Path) -> None:
    """slurm.conf's programs run what the link leads to, as /usr/lib/slurm-guard does."""
    for hook in ("prolog", "epilog"):
        path = cluster.directory / "hooks" / hook
        text = path.read_text()
        assert f"{CHECKOUT}/{hook}/" in text
        new = path.with_name(f"{hook}.new")
        new.write_text(text.replace(f"{CHECKOUT}/{hook}/", f"{current}/{hook}/"))
        new.chmod(0o755)
        os.replace(new, path)


def test_no_job_is_lost_or_refused_while_the_guard_changes_its_version_under_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    current, versions = tmp_path / "current", [version(tmp_path / f"v{n}", str(n)) for n in (1, 2)]
    point(current, versions[0])
    with guarded(nodes=2) as cluster:
        hook_through(cluster, current)
        jobs = [cluster.submit("--gres=gpu:1", script="true") for _ in range(JOBS)]
        flips = itertools.cycle(reversed(versions))

        def all_ended() -> bool:
            point(current, next(flips))
            return not cluster.unfinished(jobs)

        cluster.wait(all_ended, 150)
        cluster.wait(lambda: set(cluster.cluster.states().values()) == {"idle"})
        assert {cluster.job(job)["JobState"] for job in jobs} == {"COMPLETED"}
        assert {cluster.job(job)["Restarts"] for job in jobs} == {"0"}
        seen = set()
        for job in jobs:
            runs = [one for name in cluster.names for one in cluster.runs(name, job)]
            assert [one["hook"] for one in runs] == ["prolog", "epilog"], job
            seen |= {one["guard_version"] for one in runs}
        assert seen == {"9.1.0", "9.2.0"}


def test_half_an_upgrade_lets_jobs_run_and_the_way_back_checks_them_again(tmp_path: Path) -> None:
    """The new version was cut off while it was unpacked; the old one's compiled modules lie beside it."""
    tmp_path.chmod(0o755)
    current, old, new = tmp_path / "current", version(tmp_path / "v1", "1"), version(tmp_path / "v2", "2")
    (new / "slurm_guard/engine/run_once.py").unlink()
    point(current, old)
    with guarded(nodes=1) as cluster:
        hook_through(cluster, current)

        def job_runs() -> list[str]:
            job = cluster.submit("--gres=gpu:1", script="true")
            cluster.wait(lambda: cluster.job(job)["JobState"] == "COMPLETED")
            cluster.wait(lambda: cluster.state("n1") == "idle")
            return [one["guard_version"] for one in cluster.runs("n1", job)]

        assert job_runs() == ["9.1.0"] * 2
        shutil.copytree(old / "slurm_guard/engine/__pycache__", new / "slurm_guard/engine/__pycache__")
        point(current, new)
        assert job_runs() == []
        point(current, old)
        assert job_runs() == ["9.1.0"] * 2
