"""scripts/setup-debian.sh with stand-ins for apt-get, apt-cache, dpkg-query, id and systemctl."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from pathlib import Path

#: Every stand-in notes its arguments; apt-get also notes whether daemons were guarded at that moment.
STANDINS = {
    "apt-get": """
echo "apt-get $*" >>"$NOTES"
if [ -x "$DPKG_ROOT/usr/sbin/policy-rc.d" ]; then
    "$DPKG_ROOT/usr/sbin/policy-rc.d" && code=0 || code=$?
    echo "policy $code" >>"$NOTES"
fi
case " $* " in *" install "*)
    if [ -e "$STATE/fail" ]; then rm "$STATE/fail"; exit 100; fi
    [ ! -e "$STATE/broken" ] || { echo 'E: Unable to correct problems'; exit 100; } ;;
esac""",
    "apt-cache": 'shift; for name in "$@"; do echo "$name:"; echo "  Candidate: 1.0"; done',
    "dpkg-query": """
for name in "$@"; do :; done
if grep -qx "$name" "$STATE/missing"; then exit 1; fi
printf installed""",
    "id": 'echo "${STANDIN_UID:-0}"',
    "systemctl": 'echo "systemctl $*" >>"$NOTES"',
}


class Host(NamedTuple):
    """A made-up Debian host."""

    folder: Path
    script: Path

    @property
    def policy(self) -> Path:
        return self.folder / "root/usr/sbin/policy-rc.d"

    def lacks(self, *packages: str) -> None:
        (self.folder / "missing").write_text("".join(f"{name}\n" for name in packages))

    def set_up(self, *arguments: str, uid: int = 0) -> subprocess.CompletedProcess[str]:
        env = {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin",
            "NOTES": str(self.folder / "notes"),
            "STATE": str(self.folder),
            "DPKG_ROOT": str(self.folder / "root"),
            "STANDIN_UID": str(uid),
            "TMPDIR": str(self.folder / "tmp"),
        }
        command = ["/bin/bash", str(self.script), *arguments]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=30)

    def notes(self) -> list[str]:
        file = self.folder / "notes"
        return file.read_text().splitlines() if file.exists() else []


@pytest.fixture
def host(tmp_path: Path, repository: Path) -> Host:
    (tmp_path / "bin").mkdir()
    (tmp_path / "tmp").mkdir()
    (tmp_path / "root/usr/sbin").mkdir(parents=True)
    (tmp_path / "root/etc").mkdir()
    (tmp_path / "root/etc/debian_version").write_text("12.8\n")
    for name, body in STANDINS.items():
        program = tmp_path / "bin" / name
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
    made = Host(tmp_path, repository / "scripts/setup-debian.sh")
    made.lacks()
    return made


def test_nothing_is_done_when_nothing_is_missing(host: Host) -> None:
    done = host.set_up()
    assert (done.returncode, done.stdout, done.stderr, host.notes()) == (0, "", "", [])


def test_only_missing_packages_are_installed_and_daemons_are_guarded(host: Host) -> None:
    host.lacks("munge", "slurmd")
    done = host.set_up()
    assert done.returncode == 0
    (install,) = [note for note in host.notes() if note.startswith("apt-get")]
    assert install.endswith("install --no-install-recommends slurmd munge")
    assert "policy 101" in host.notes()
    assert not host.policy.exists(), "what the script changed is restored"


def test_services_that_came_along_do_not_start_at_the_next_boot(host: Host) -> None:
    host.lacks("mariadb-server", "slurmdbd")
    host.set_up()
    disabled = [note.split()[-1] for note in host.notes() if note.startswith("systemctl")]
    assert sorted(disabled) == ["mariadb", "slurmdbd"]


def test_existing_policy_is_kept_as_it_is(host: Host) -> None:
    host.policy.write_text("#!/bin/sh\n# the site's own\nexit 104\n")
    host.policy.chmod(0o750)
    host.lacks("munge")
    assert host.set_up().returncode == 0
    assert host.policy.read_text() == "#!/bin/sh\n# the site's own\nexit 104\n"
    assert host.policy.stat().st_mode & 0o777 == 0o750


def test_stale_package_list_is_renewed_once(host: Host) -> None:
    host.lacks("munge")
    (host.folder / "fail").touch()
    assert host.set_up().returncode == 0
    verbs = [note.split()[5] for note in host.notes() if note.startswith("apt-get")]
    assert verbs == ["install", "update", "install"]


def test_failure_is_shown_and_the_guard_is_taken_away(host: Host) -> None:
    host.lacks("munge")
    (host.folder / "broken").touch()
    done = host.set_up()
    assert done.returncode not in (0, 3)
    assert "Unable to correct problems" in done.stderr
    assert not host.policy.exists()
    assert list((host.folder / "tmp").iterdir()) == []


@pytest.mark.parametrize(("arguments", "uid"), [(["--check"], 0), ([], 1000)])
def test_one_line_says_what_is_missing_and_what_works(host: Host, arguments: list[str], uid: int) -> None:
    host.lacks("munge", "slurmctld")
    done = host.set_up(*arguments, uid=uid)
    assert (done.returncode, done.stdout, host.notes()) == (3, "", [])
    (line,) = done.stderr.splitlines()
    assert "slurmctld munge" in line
    assert "still work" in line


def test_another_system_is_told_in_one_line(host: Host) -> None:
    (host.folder / "root/etc/debian_version").unlink()
    done = host.set_up()
    assert (done.returncode, done.stdout, host.notes()) == (3, "", [])
    (line,) = done.stderr.splitlines()
    assert "not Debian" in line


def test_groups_limit_what_is_looked_at(host: Host) -> None:
    host.lacks("mariadb-server")
    assert host.set_up("--check", "python", "cluster").returncode == 0
    assert host.set_up("--check", "accounting").returncode == 3


def test_unknown_group_is_a_usage_error(host: Host) -> None:
    assert host.set_up("everything").returncode == 2
