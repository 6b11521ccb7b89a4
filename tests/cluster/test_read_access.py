"""Users read the reports on their own jobs: real users, munged, Slurm and collector."""

from __future__ import annotations

import json
import pwd
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.conftest import SGUARD, Guarded, guarded
from tests.cluster.munged import munged

OWNER, OTHER, ADMIN = "games", "mail", "news"

CONFIG = """\
cluster = "mini"
[slurm]
conf = "{conf}"
bin = "/usr/bin"
[collector]
url = "http://127.0.0.1:{port}"
listen = "127.0.0.1:{port}"
munge_socket = "{munge}"
admins = ["{admin}"]
[collector.addresses]
"n[1-2]" = ["127.0.0.0/8"]
"""


class Site:
    """A cluster with a collector on its admin host, and a login host that has nothing but `client.json`."""

    def __init__(self, cluster: Guarded) -> None:
        self.cluster = cluster
        self.head, self.login = cluster.directory / "head", cluster.directory / "login"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port: int = free.getsockname()[1]
        layout = cluster.cluster.layout
        told = {"conf": layout.conf_path, "munge": layout.munge_socket, "port": self.port, "admin": ADMIN}
        for root in (self.head, self.login):
            (root / "etc/slurm-guard").mkdir(parents=True)
        (self.head / "etc/slurm-guard/slurm-guard.toml").write_text(CONFIG.format(**told))
        self.root_sguard("config", "apply", "--root", str(self.head))
        self.give_client_file()
        self.process: subprocess.Popen[bytes] | None = None
        url = {"url": f"http://127.0.0.1:{self.port}", "munge_socket": str(layout.munge_socket)}
        for name in cluster.names:
            own = cluster.root(name) / "etc/slurm-guard/node.json"
            own.parent.mkdir(parents=True, exist_ok=True)
            own.write_text(json.dumps({"collector": {**url, "jitter_s": 0}}))

    def root_sguard(self, *argv: str, code: int = 0) -> str:
        done = subprocess.run([SGUARD, *argv], capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def give_client_file(self) -> None:
        """What an admin does for login nodes."""
        name = "etc/slurm-guard/client.json"
        shutil.copy(self.head / name, self.login / name)

    def start(self) -> None:
        with (self.cluster.directory / "serve.log").open("ab") as log:
            command = [SGUARD, "serve", "--root", str(self.head)]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.cluster.wait(self._listens, 30)

    def _listens(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.cluster.directory / "serve.log").read_text()
        with socket.socket() as attempt:
            return attempt.connect_ex(("127.0.0.1", self.port)) == 0

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)
            self.process = None

    def finished_job(self, user: str) -> int:
        """A job that ran on n1, with all its records in the collector's store."""
        options = ["-N1", "-w", "n1", "-o", "/dev/null", "--parsable", "-D", "/"]
        done = self.cluster.cluster.run(["sbatch", *options, "--wrap", "true"], timeout=30, user=user)
        job = int(str(done.stdout).strip())
        self.cluster.wait(lambda: not self.cluster.unfinished([job]), 60)
        self.cluster.wait(lambda: self._knows(job), 60)
        return job

    def _knows(self, job: int) -> bool:
        """The epilog is on record. Shipping is seldom, so it is done at once."""
        self.root_sguard("ship", "--root", str(self.cluster.root("n1")))
        argv = [SGUARD, "job", str(job), "--json", "--root", str(self.head)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        runs = json.loads(done.stdout)["runs"] if done.stdout else []
        return bool(runs) and runs[0]["ended"] is not None and bool(runs[0]["exit_code"])

    def ask(self, user: str, job: object, root: Path | None = None, *more: str) -> tuple[int, str, str]:
        """`sguard job` as a user; its exit code and what it says."""
        known = pwd.getpwnam(user)
        done = subprocess.run(
            [SGUARD, "job", str(job), "--root", str(root or self.login), *more],
            user=known.pw_uid, group=known.pw_gid, extra_groups=[], env={}, cwd="/",
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with guarded(2) as cluster:
        made = Site(cluster)
        made.start()
        try:
            yield made
        finally:
            made.stop()


@pytest.fixture(scope="module")
def job(site: Site) -> int:
    return site.finished_job(OWNER)


@pytest.mark.parametrize("user", [OWNER, ADMIN, "root"])
def test_the_owner_an_admin_and_root_get_the_report(site: Site, job: int, user: str) -> None:
    code, out, err = site.ask(user, job)
    assert (code, err) == (0, "")
    assert out.startswith(f"Job {job}")
    assert OWNER in out
    found = json.loads(site.ask(user, job, None, "--json")[1])
    assert (found["job_id"], found["user"], found["cluster"]) == (job, OWNER, "mini")
    assert found["runs"][0]["verdict"]["blame"] == "none"


def test_others_learn_nothing_not_even_whether_it_exists(site: Site, job: int) -> None:
    said = [site.ask(OTHER, one) for one in (job, job + 1000)]
    assert said == [
        (20, "", f"sguard: job {one} is not yours, or not on record here\n") for one in (job, job + 1000)
    ]


def test_on_the_admin_host_a_user_asks_the_collector_too(site: Site, job: int) -> None:
    """The store lies there, closed to the user."""
    assert site.ask(OWNER, job, site.head)[0] == 0
    assert site.ask(OTHER, job, site.head)[0] == 20
    assert (site.head / "var/lib/slurm-guard").stat().st_mode & 0o077 == 0


def test_on_a_node_whose_node_json_names_the_collector_no_file_is_needed(site: Site, job: int) -> None:
    node = site.cluster.root("n2")
    assert not (node / "etc/slurm-guard/client.json").exists()
    assert [site.ask(user, job, node)[0] for user in (OWNER, OTHER)] == [0, 20]


def _closed_file(site: Site) -> None:
    (site.login / "etc/slurm-guard/client.json").chmod(0o600)


def _change(site: Site, **fields: object) -> None:
    path = site.login / "etc/slurm-guard/client.json"
    content = json.loads(path.read_text())
    content["collector"].update(fields)
    path.write_text(json.dumps(content))


def _no_munge(site: Site) -> None:
    _change(site, munge_socket="/nonexistent/munge.socket")


def _nobody_there(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        _change(site, url=f"http://127.0.0.1:{free.getsockname()[1]}")


def _unknown_name(site: Site) -> None:
    _change(site, url="http://head.invalid:9427")


MISSING = {
    "closed file": (_closed_file, 21, "client.json may not be read by this user"),
    "no munged": (_no_munge, 22, "munge, by which the collector knows who you are"),
    "no collector": (_nobody_there, 23, "Connection refused; is the collector running?"),
    "unknown name": (_unknown_name, 23, "the name is not known"),
}


@pytest.mark.parametrize("name", MISSING)
def test_which_way_is_missing_is_said(site: Site, job: int, name: str) -> None:
    make, code, said = MISSING[name]
    make(site)
    try:
        found, out, err = site.ask(OWNER, job)
    finally:
        site.give_client_file()
    assert (found, out) == (code, "")
    assert said in err


def test_without_the_file_a_user_is_told_what_to_ask_for(site: Site, job: int) -> None:
    closed = site.login / "var/lib/slurm-guard"
    closed.mkdir(parents=True)
    (site.login / "var").chmod(0o700)
    (site.login / "etc/slurm-guard/client.json").unlink()
    try:
        code, _, err = site.ask(OWNER, job)
    finally:
        site.give_client_file()
        shutil.rmtree(site.login / "var")
    assert code == 21
    assert f"ask your admin for {site.login}/etc/slurm-guard/client.json" in err


def test_another_realm_s_munge_is_refused(site: Site, job: int) -> None:
    with munged(site.login / "munge") as other:
        _change(site, munge_socket=other)
        try:
            code, out, err = site.ask(OWNER, job)
        finally:
            site.give_client_file()
    assert (code, out) == (23, "")
    assert "refused: HTTP 401: " in err
