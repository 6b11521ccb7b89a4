"""`sguard job` where the collector is asked: which way is taken, and what is made of any answer.

The token signs here, so that no munged is needed; real users and munge: tests/cluster/test_read_access.py.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from slurm_guard.cli import job_remote
from slurm_guard.cli.host import Host
from slurm_guard.config import client
from slurm_guard.core.errors import SetupError
from slurm_guard.engine import signing
from tests.unit.cli.asking import answer, run
from tests.unit.cli.slurm_stub import StubGateway, put, run_record

TOKEN = b"0123456789abcdef0123456789abcdef"
OWN = {"job_id": 7, "restart": 0, "uid": 1, "user": "ann"}


def report(**fields: Any) -> dict[str, Any]:
    """The report on a job that Slurm knows and no record does."""
    nothing = dict.fromkeys(("array_job_id", "array_task_id", "het_job_id", "uid", "account", "name"))
    base = {"schema": "1.0", "kind": "job", "cluster": "lab", "job_id": 7, "user": "ann", "partition": "main"}
    told = {"accounting_problem": None, "slurm_state": "RUNNING", "slurm_nodes": "n1", "runs": []}
    return {**base, **nothing, **told, **fields}


class Server(HTTPServer):
    """Answers every request with `status` and `body`, signed by the token unless `signed` is False."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.body, self.signed = 200, json.dumps(report()).encode(), True
        self.asked: list[str] = []
        self.raw: bytes | None = None


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        server.asked.append(self.path)
        if server.raw is not None:
            self.wfile.write(server.raw)
            return
        self.send_response(server.status)
        if server.signed:
            import base64

            payload = json.loads(base64.urlsafe_b64decode(self.headers[signing.PAYLOAD]))
            text = signing.answer_payload(payload["nonce"], server.body)
            self.send_header(signing.SIGNATURE, f"Token {signing.token_signature(TOKEN, text)}")
        self.send_header("Content-Length", str(len(server.body)))
        self.end_headers()
        self.wfile.write(server.body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def host(tmp_path: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host that knows the collector and has no results; whoever asks is no root, but has the token."""
    (tmp_path / "etc/slurm-guard").mkdir(parents=True)
    (tmp_path / "token").touch(mode=0o600)
    (tmp_path / "token").write_bytes(TOKEN)
    told = {"url": f"http://127.0.0.1:{server.server_port}", "token_file": "/token"}
    (tmp_path / "etc/slurm-guard/node.json").write_text(json.dumps({"collector": told}))
    monkeypatch.setattr("slurm_guard.cli.job.os.geteuid", lambda: 1000)
    monkeypatch.setattr("slurm_guard.engine.signing.read_token", lambda _: TOKEN)
    return tmp_path


def test_the_report_is_shown_as_one_from_here(
    host: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(host, "job", "7") == 1
    out, err = capsys.readouterr()
    assert out.startswith("Job 7")
    assert err == ""
    assert server.asked == ["/v1/jobs/7"]
    found = answer(capsys, host, 1, "job", "7", "-M", "lab")
    assert (found["kind"], found["job_id"], found["slurm_state"]) == ("job", 7, "RUNNING")


def test_the_collector_s_cluster_is_the_only_one(host: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(host, "job", "7", "-M", "annex") == 20
    assert "-M annex: the collector's job 7 is of cluster lab" in capsys.readouterr().err


def test_no_slurm_is_about_what_lies_here(
    host: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(host, "job", "7", "--no-slurm") == 2
    assert "the collector asks Slurm by itself" in capsys.readouterr().err
    monkeypatch.setattr("slurm_guard.cli.job.os.geteuid", lambda: 0)
    put(host, run_record("n1", hook="prolog", allocation=OWN))
    assert run(host, "job", "7", "--no-slurm") in (0, 1)
    assert server.asked == []


def _unsigned(server: Server) -> None:
    server.signed = False


def _web_page(server: Server) -> None:
    server.signed, server.body = False, b"<html>Welcome\x1b[2J</html>"


def _missing_page(server: Server) -> None:
    server.signed, server.status, server.body = False, 404, b"<html>not found</html>"


def _old(server: Server) -> None:
    server.signed, server.status, server.body = False, 404, b'{"error": "no such request here"}'


def _refusal(server: Server) -> None:
    server.signed, server.status, server.body = False, 401, b'{"error": "signed\\u001b[31m 900 s ago"}'


def _not_yours(server: Server) -> None:
    server.status, server.body = 404, b'{"error": "job 7 is not yours, or not on record here", "job_id": "7"}'


def _with(body: Any) -> Callable[[Server], None]:
    def make(server: Server) -> None:
        server.body = body if isinstance(body, bytes) else json.dumps(body).encode()

    return make


def _raw(raw: bytes) -> Callable[[Server], None]:
    def make(server: Server) -> None:
        server.raw = raw

    return make


# name: what the server does, the exit code, what is said
ANSWERS: dict[str, tuple[Callable[[Server], None], int, str]] = {
    "not yours": (_not_yours, 20, "job 7 is not yours, or not on record here"),
    "unsigned": (_unsigned, 23, "something else answers there (HTTP 200)"),
    "web page": (_web_page, 23, "something else answers there (HTTP 200)"),
    "no page": (_missing_page, 23, "something else answers there (HTTP 404)"),
    "older collector": (_old, 23, "gives no reports to users; it is older"),
    "refused": (_refusal, 23, "refused: HTTP 401: signed [31m 900 s ago"),
    "no JSON": (_with(b"\xff{"), 23, "is no JSON object"),
    "deep JSON": (_with(b"[" * 100_000), 23, "is no JSON object"),
    "a list": (_with([1]), 23, "is no JSON object"),
    "another kind": (_with({"schema": "1.0", "kind": "node"}), 23, "is node 1.0; expected a job report"),
    "newer": (_with(report(schema="3.0")), 23, "is job 3.0; expected a job report 1.x"),
    "without parts": (_with({"schema": "1.0", "kind": "job"}), 23, "cannot be shown (KeyError"),
    "odd parts": (_with(report(runs=7)), 23, "cannot be shown (TypeError"),
    "odd runs": (_with(report(runs=[{"verdict": 1}])), 23, "cannot be shown ("),
    "no HTTP": (_raw(b"SSH-2.0-OpenSSH\r\n"), 23, "gave no HTTP answer"),
    "hangs up": (_raw(b""), 23, "gave no HTTP answer"),
    "cut short": (_raw(b"HTTP/1.0 200 OK\r\nContent-Length: 900\r\n\r\n{"), 23, "cut short"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_any_answer_is_a_report_or_a_sentence(
    host: Path, server: Server, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make, code, said = ANSWERS[name]
    make(server)
    assert run(host, "job", "7") == code
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert "\x1b" not in err
    assert len(err.splitlines()) == 1


def test_a_silent_server_costs_the_deadline(
    host: Path, server: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setattr(job_remote, "SECONDS", 0.2)
        told = {"url": f"http://127.0.0.1:{silent.getsockname()[1]}", "token_file": "/token"}
        (host / "etc/slurm-guard/node.json").write_text(json.dumps({"collector": told}))
        assert run(host, "job", "7") == 23
    assert "gave no answer within 0.2 s" in capsys.readouterr().err


def test_root_sees_what_is_here_where_the_collector_cannot_help(
    host: Path,
    server: Server,
    slurm: StubGateway,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("slurm_guard.cli.job.os.geteuid", lambda: 0)
    _not_yours(server)
    put(
        host, run_record("n1", hook="prolog", allocation={"job_id": 7, "restart": 0, "uid": 1, "user": "ann"})
    )
    assert run(host, "job", "7") in (0, 1)
    out, err = capsys.readouterr()
    assert out.startswith("Job 7")
    assert "job 7 is not yours, or not on record here; what lies on this host follows" in err


def test_the_collector_s_own_host_reads_its_store(
    host: Path, server: Server, slurm: StubGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its dead man's file tells it from a node, which may have a store of what was looked at there once."""
    put(host, run_record("n1", hook="prolog", allocation=OWN))
    assert run(host, "ingest", str(host / "var")) == 0
    capsys.readouterr()
    assert run(host, "job", "7") == 1
    assert (server.asked, "RUNNING" in capsys.readouterr().out) == (["/v1/jobs/7"], True)
    (host / "var/lib/slurm-guard/collector.alive").touch()
    assert run(host, "job", "7") in (0, 1)
    assert (server.asked, "RUNNING" in capsys.readouterr().out) == (["/v1/jobs/7"], False)


# content of client.json (None: no such file), whether results are out of reach, the url or what is said
CLIENTS: dict[str, tuple[Any, bool, str]] = {
    "munge": ({"schema": "1.0", "collector": {"url": "http://head:1"}}, True, "http://head:1"),
    "next major": ({"schema": "2.7", "collector": {"url": "http://head:2"}}, True, "http://head:2"),
    "token": (
        {"schema": "1.0", "collector": {"url": "http://head:1", "signing": "token"}},
        True,
        "cannot tell users apart; ask your admin",
    ),
    "none": (None, True, "etc/slurm-guard/client.json, which `sguard config apply` writes on the admin host"),
    "none, results in reach": (None, False, ""),
    "no object": ([], True, "is no JSON object; expected what `sguard config client` prints"),
    "torn": (b"{", True, "is no JSON object"),
    "no url": ({"schema": "1.0", "collector": {}}, True, "names no collector in a way"),
    "url of another type": ({"schema": "1.0", "collector": {"url": 7}}, True, "names no collector in a way"),
    "no collector": ({"schema": "1.0"}, True, "names no collector in a way"),
    "future": ({"schema": "9.0", "collector": {"url": "http://head:1"}}, True, "(version 9.0) names no"),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_which_way_is_taken_or_missing(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content, out_of_reach, expected = CLIENTS[name]
    (tmp_path / "etc/slurm-guard").mkdir(parents=True)
    (tmp_path / "var/lib/slurm-guard").mkdir(parents=True)
    if content is not None:
        raw = content if isinstance(content, bytes) else json.dumps(content).encode()
        (tmp_path / "etc/slurm-guard/client.json").write_bytes(raw)
    real = os.access
    closed = str(tmp_path / "var") if out_of_reach else "?"
    monkeypatch.setattr(
        job_remote.os, "access", lambda path, mode: not str(path).startswith(closed) and real(path, mode)
    )
    monkeypatch.setattr(job_remote.os, "geteuid", lambda: 1000)
    if expected and not expected.startswith("http:"):
        with pytest.raises(SetupError, match=re.escape(expected)):
            job_remote.way(Host(str(tmp_path)))
        return
    to = job_remote.way(Host(str(tmp_path)))
    assert (to.url if to else "") == expected


@pytest.mark.parametrize(("uid", "taken"), [(0, True), (1000, False)])
def test_a_token_that_cannot_be_read_is_root_s_to_mend(
    tmp_path: Path, uid: int, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "etc/slurm-guard").mkdir(parents=True)
    told = {"url": "http://head:1", "token_file": "/missing"}
    (tmp_path / "etc/slurm-guard/node.json").write_text(json.dumps({"collector": told}))
    monkeypatch.setattr(job_remote.os, "geteuid", lambda: uid)
    if taken:
        to = job_remote.way(Host(str(tmp_path)))
        assert to is not None
        assert to.token_file == str(tmp_path / "missing")
        return
    with pytest.raises(SetupError, match="cannot tell users apart"):
        job_remote.way(Host(str(tmp_path)))


def test_the_file_for_users_is_what_apply_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    etc = tmp_path / "etc/slurm-guard"
    etc.mkdir(parents=True)
    text = '[collector]\nurl = "https://head:9427"\nuids = [64030]\nmunge_socket = "/run/m"\n'
    (etc / "slurm-guard.toml").write_text(text)
    before = os.umask(0o077)
    try:
        assert run(tmp_path, "config", "apply") == 0
    finally:
        os.umask(before)
    assert (etc / "client.json").stat().st_mode & 0o777 == 0o644
    found = client.read(Host(str(tmp_path)).places)
    assert found is not None
    to, signed_with = found
    assert (to.url, to.uids, to.munge_socket, signed_with) == (
        "https://head:9427",
        [64030],
        "/run/m",
        "munge",
    )
    capsys.readouterr()
    assert run(tmp_path, "config", "client") == 0
    assert capsys.readouterr().out == (etc / "client.json").read_text()
    shown = answer(capsys, tmp_path, 0, "config", "client")
    assert shown["content"]["collector"]["url"] == "https://head:9427"
    (etc / "slurm-guard.toml").write_text("")
    assert run(tmp_path, "config", "apply") == 0
    assert not (etc / "client.json").exists()
    assert run(tmp_path, "config", "client") == 21


def test_no_secret_is_in_it(tmp_path: Path) -> None:
    etc = tmp_path / "etc/slurm-guard"
    etc.mkdir(parents=True)
    text = '[collector]\nurl = "http://h:1"\ntoken_file = "/etc/tok"\ncertificate = "/c"\nkey = "/secret"\n'
    (etc / "slurm-guard.toml").write_text(text)
    assert run(tmp_path, "config", "apply") == 0
    content = (etc / "client.json").read_text()
    assert json.loads(content)["collector"]["signing"] == "token"
    assert "/secret" not in content
    assert "/etc/tok" not in content


@pytest.mark.parametrize("ca_file", [None, "closed", "missing"])
def test_what_keeps_users_from_it_is_told(
    tmp_path: Path, ca_file: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    etc = tmp_path / "etc/slurm-guard"
    etc.mkdir(parents=True)
    if ca_file == "closed":
        (tmp_path / "ca.pem").touch(mode=0o600)
    ca_line = 'ca_file = "/ca.pem"\n' if ca_file else ""
    (etc / "slurm-guard.toml").write_text(f'[collector]\nurl = "https://h:1"\n{ca_line}')
    etc.chmod(0o700)
    assert run(tmp_path, "config", "apply") == 0
    said = " ".join(capsys.readouterr().err.replace("sguard:", "").split())
    assert f"users cannot reach {etc}/client.json: `chmod 755 {etc}`" in said
    assert ("ca.pem" in said) == bool(ca_file)


@pytest.mark.needs_root
def test_whoever_may_not_write_it_is_told_what_root_can_do(repository: Path) -> None:
    """The collector's own user applies the configuration on the admin host; /etc is root's."""
    with tempfile.TemporaryDirectory(prefix="sguard-") as name:
        folder = Path(name)
        (folder / "etc/slurm-guard").mkdir(parents=True)
        (folder / "etc/slurm-guard/slurm-guard.toml").write_text('[collector]\nurl = "http://h:1"\n')
        (folder / "var/lib/slurm-guard").mkdir(parents=True)
        folder.chmod(0o755)
        os.chown(folder / "var/lib/slurm-guard", 65534, 65534)
        command = [sys.executable, "-m", "slurm_guard.cli.main", "config", "apply", "--root", name]
        ids: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []}
        done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=False, **ids)
        assert done.returncode == 0, done.stderr
        assert (folder / "var/lib/slurm-guard/plan.json").exists()
        said = " ".join(done.stderr.replace("sguard:", "").split())
        assert f"{name}/etc/slurm-guard/client.json was not written (Permission denied)" in said
        assert "put there what `sguard config client` prints" in said
