"""What sending its record costs a node per hook run: the same hook with and without a collector, in turn."""

from __future__ import annotations

import base64
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from bench import roots
from bench.hooks import Command, hook_command
from bench.measure import BARE_ENV, Series, alternate, bare_interpreter
from bench.munge_daemon import munged
from bench.table import Row
from slurm_guard.core.paths import Places
from slurm_guard.engine import signing, spool
from slurm_guard.slurm import munge

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.setting import Setting

BUDGET_MS = 100
HOOK = "epilog"
#: Enough that the shipper sleeps while the hook ends.
JITTER_S = 0.3
TOKEN_FILE, TOKEN = "etc/slurm-guard/token", b"bench" * 10


class _Server(ThreadingHTTPServer):
    socket_path = ""


class _Acknowledging(BaseHTTPRequestHandler):
    """A collector that takes everything, in the bench's own process: its CPU is not the node's."""

    server: _Server

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        lines = self.rfile.read(int(self.headers["Content-Length"])).splitlines()
        ids = [json.loads(line)["run_id"] for line in lines]
        answer = json.dumps({"acknowledged": ids, "refused": [], "takes_over": [], "plan": ""}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.send_header(signing.SIGNATURE, self._signature(answer))
        self.end_headers()
        self.wfile.write(answer)

    def _signature(self, answer: bytes) -> str:
        """As the request was signed: with munge or with the token."""
        scheme, _, proof = self.headers["Authorization"].partition(" ")
        if scheme == signing.MUNGE:
            said = json.loads(munge.decode(proof, self.server.socket_path).payload)
            payload = signing.answer_payload(said["nonce"], answer)
            return f"{signing.MUNGE} {munge.encode(payload, self.server.socket_path)}"
        said = json.loads(base64.urlsafe_b64decode(self.headers[signing.PAYLOAD]))
        payload = signing.answer_payload(said["nonce"], answer)
        return f"{signing.TOKEN} {signing.token_signature(TOKEN, payload)}"


@contextmanager
def collector(socket_path: str) -> Iterator[str]:
    """A collector's URL on loopback."""
    server = _Server(("127.0.0.1", 0), _Acknowledging)
    server.socket_path = socket_path
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def node(folder: Path, settings: dict[str, Any]) -> Path:
    """A plain host whose plan names a collector (or none)."""
    roots.plain_host(folder)
    roots.write_plan(folder, {"class": "plain"}, collector=settings)
    token = folder / TOKEN_FILE
    token.parent.mkdir(parents=True)
    token.touch(mode=0o600)
    token.write_bytes(TOKEN)
    return folder


def rows(setting: Setting) -> list[Row]:
    """A hook that ships with munge, with a token, and not at all."""
    with munged(setting.folder / "munge") as (door, _), collector(str(door)) as url:
        ways: dict[str, dict[str, Any]] = {
            "none": {},
            "munge": {"url": url, "munge_socket": str(door), "jitter_s": JITTER_S},
            "token": {"url": url, "token_file": f"/{TOKEN_FILE}", "jitter_s": JITTER_S},
        }
        nodes = {way: node(setting.folder / way, found) for way, found in ways.items()}
        commands: dict[str, Command] = {way: hook_command(setting, HOOK, root) for way, root in nodes.items()}
        commands["bare"] = (bare_interpreter(setting.python), BARE_ENV)
        found = alternate(commands, setting.repetitions)  # type: ignore[arg-type]
        left = {way: len(spool.paths(Places(str(root)))) for way, root in nodes.items()}
    return [row(way, found, left[way]) for way in ("munge", "token")]


def row(way: str, found: dict[str, Series], left: int) -> Row:
    """One way of signing: CPU beyond that of the hook, which must not grow itself."""
    shipped, plain, bare = found[way], found["none"], found["bare"]
    cpu = shipped.cpu_ms() - plain.cpu_ms()
    note = f"one record a run, HTTP on loopback; {left} records left; hook alone {plain.cpu_ms():.0f} ms CPU"
    return Row(
        f"shipping after {HOOK}, {way}",
        f"<= {BUDGET_MS} ms CPU",
        "-",
        f"{cpu:.0f} ms CPU; hook's wall {shipped.wall_ms():.0f}, without {plain.wall_ms():.0f}",
        f"{bare.cpu_ms():.0f} ms CPU, {bare.wall_ms():.0f} wall",
        holds=cpu <= BUDGET_MS and left == 0,
        note=note,
    )
