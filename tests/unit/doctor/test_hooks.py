"""Hook files: what keeps slurmd from starting them, and who else could change what root runs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from slurm_guard.doctor import hooks, shims
from slurm_guard.doctor.ownership import weak_spot
from tests.unit.doctor.sites import script, site, told

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROLOG = "usr/lib/slurm-guard/prolog/sguard-prolog"


def gone(path: Path) -> None:
    path.unlink()


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def windows_lines(path: Path) -> None:
    path.write_text("#!/bin/sh\r\nexit 0\r\n")


CANNOT_START: dict[str, tuple[Callable[[Path], None], str]] = {
    "gone": (gone, "cannot be found"),
    "a folder": (a_folder, "is not a file"),
    "not executable": (lambda path: path.chmod(0o644), "is not executable"),
    "no interpreter": (
        lambda path: path.write_text("#!/usr/bin/nopython3 -I\n") and None,
        "/usr/bin/nopython3",
    ),
    "windows lines": (windows_lines, "names the interpreter '/bin/sh\\r'"),
}


@pytest.mark.needs_root
@pytest.mark.parametrize("name", CANNOT_START)
def test_a_prolog_that_cannot_start_is_told_before_it_drains_the_cluster(tmp_path: Path, name: str) -> None:
    spoil, expected = CANNOT_START[name]
    subject = site(tmp_path)
    as_shims_of_an_installation(tmp_path)
    spoil(tmp_path / PROLOG)
    (found,) = told(hooks.examine, subject)
    assert found[0] == "fail"
    assert expected in found[1]
    assert "drains every node" in found[1]


def as_shims_of_an_installation(folder: Path) -> Path:
    """The three shims beside a package, as in a checkout."""
    for hook in ("prolog", "epilog", "healthcheck"):
        path = folder / "usr/lib/slurm-guard" / hook / f"sguard-{hook}"
        real = script(folder / "opt/guard" / hook / f"sguard-{hook}")
        path.unlink()
        path.symlink_to(real)
    script(folder / "opt/guard/slurm_guard/engine/boot.py", mode=0o644)
    return folder / "opt/guard"


@pytest.mark.needs_root
def test_good_files_are_good(tmp_path: Path) -> None:
    subject = site(tmp_path)
    as_shims_of_an_installation(tmp_path)
    assert told(hooks.examine, subject) == []
    assert len(list(hooks.examine(subject))) == 3


@pytest.mark.needs_root
def test_half_a_package(tmp_path: Path) -> None:
    subject = site(tmp_path)
    (as_shims_of_an_installation(tmp_path) / "slurm_guard/engine/boot.py").unlink()
    found = told(hooks.examine, subject)
    assert [status for status, _ in found] == ["fail"] * 3
    assert "lets every job through unchecked" in found[0][1]


@pytest.mark.needs_root
def test_an_interpreter_that_does_not_answer(tmp_path: Path) -> None:
    subject = site(tmp_path)
    script(as_shims_of_an_installation(tmp_path) / ".venv/bin/python", "#!/bin/sh\nexit 3\n")
    assert {what.partition(" for")[0] for _, what in told(hooks.examine, subject)} == {"no Python"}


@pytest.mark.needs_root
def test_an_interpreter_that_is_too_old(tmp_path: Path) -> None:
    subject = site(tmp_path)
    script(as_shims_of_an_installation(tmp_path) / ".venv/bin/python", "#!/bin/sh\necho Python 3.6.8\n")
    assert {what.partition(" for")[0] for _, what in told(hooks.examine, subject)} == {"Python 3.6"}


@pytest.mark.needs_root
@pytest.mark.parametrize("where", ["", "..", "../.."])
def test_files_and_folders_that_others_may_write(tmp_path: Path, where: str) -> None:
    subject = site(tmp_path)
    as_shims_of_an_installation(tmp_path)
    place = tmp_path / "opt/guard/prolog/sguard-prolog" / where
    place.resolve().chmod(0o777)
    found = told(hooks.examine, subject)
    assert found
    assert all(status == "fail" and "is writable by others (mode 0777)" in what for status, what in found)


@pytest.mark.needs_root
def test_weak_spots(tmp_path: Path) -> None:
    path = script(tmp_path / "a/b")
    assert weak_spot(str(path)) is None
    (tmp_path / "a").chmod(0o1777)
    assert weak_spot(str(path)) is None
    path.chmod(0o775)
    assert weak_spot(str(path)) == (str(path), "is writable by others (mode 0775)")
    with pytest.raises(OSError, match="gone"):
        weak_spot(str(tmp_path / "gone"))


def test_a_file_that_belongs_to_a_user(tmp_path: Path) -> None:
    path = script(tmp_path / "a/b")
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
        assert weak_spot(str(path)) == (str(path), "belongs to uid 12345")
    else:
        assert weak_spot(str(path)) == (str(path), f"belongs to uid {os.geteuid()}")


def test_the_python_and_the_engine_of_an_installed_package(tmp_path: Path) -> None:
    packages = tmp_path / "venv/lib/python3.12/site-packages/slurm_guard"
    shim = script(packages / "shims/prolog/sguard-prolog")
    boot = script(packages / "engine/boot.py", mode=0o644)
    start = shims.start_of(shim)
    assert (start.boot, str(start.python)) == (boot, "/usr/bin/python3")
    python = script(tmp_path / "venv/bin/python3")
    assert shims.start_of(shim).python.resolve() == python


def test_the_engine_of_a_copy_in_slurm_s_cache_is_where_the_link_leads(tmp_path: Path) -> None:
    copy = script(tmp_path / "var/spool/slurmd/conf-cache/sguard-prolog")
    boot = script(tmp_path / "opt/guard/slurm_guard/engine/boot.py", mode=0o644)
    shim = script(tmp_path / "opt/guard/prolog/sguard-prolog")
    assert not shims.start_of(copy, tmp_path).boot.exists()
    link = tmp_path / "usr/lib/slurm-guard/prolog/sguard-prolog"
    link.parent.mkdir(parents=True)
    link.symlink_to(shim)
    assert shims.start_of(copy, tmp_path).boot == boot


@pytest.mark.parametrize(
    ("argv", "status", "says"),
    [
        (["/bin/true", "-q"], "pass", "after the healthcheck /bin/true is run"),
        (["/no/such/nhc"], "fail", "is not run: /no/such/nhc: No such file"),
        (["nhc"], "fail", "'nhc' is no absolute path"),
        ("nhc -q", "fail", "expected a list of words"),
    ],
)
def test_a_chained_program_that_cannot_be_run(tmp_path: Path, argv: object, status: str, says: str) -> None:
    subject = site(tmp_path)
    subject.places.node = {"chain": {"healthcheck": argv}}
    (found,) = [one for one in hooks.examine(subject) if says in one.what]
    assert found.status == status


@pytest.mark.parametrize("hook", sorted(shims.LIMITS_S))
def test_the_limits_of_the_shims_are_those_that_they_have(hook: str) -> None:
    shim = shims.source(hook)
    assert shim is not None
    assert f"\nlimit={shims.LIMITS_S[hook]}\n" in shim.read_text()
