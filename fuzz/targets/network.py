"""What comes over the network: requests to the collector, its answers to nodes and users, plans."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from starlette.datastructures import Headers

from fuzz.targets import Target, require, scratch, seeds
from slurm_guard.cli import job_remote
from slurm_guard.collector import bodies, claims, plan_file
from slurm_guard.collector.answers import RefusalError, printable
from slurm_guard.core import plan as plans
from slurm_guard.core.errors import (
    CollectorError,
    MungeError,
    NotFoundError,
    RecordError,
    SetupError,
    SlurmError,
)
from slurm_guard.core.plan import Plan
from slurm_guard.engine import courier, destination, fetch_plan, ship, signing, spool
from slurm_guard.engine.destination import Destination
from slurm_guard.report import job_text
from slurm_guard.slurm import munge
from slurm_guard.slurm.gateway import plain_job_id, plain_node_name
from slurm_guard.store import open_store, record
from slurm_guard.store.writer import Writer

ONCE = "0" * 32
#: Some targets put doubles in their place, and others are about the real ones.
REQUEST, CHECK_ANSWER = courier.request, signing.check_answer
RECORDS = seeds("record")
LINE = RECORDS[0]
PAYLOAD = signing.request_payload("POST", "/v1/records", "n1", LINE, ONCE, 1_790_000_000)


def request_head(data: bytes) -> None:
    """Lines `Name: value`, the rest is the signed payload."""
    head, _, payload = data.partition(b"\n\n")
    pairs = [line.partition(b": ")[::2] for line in head.split(b"\n")]
    headers = Headers(raw=[(name.lower(), value) for name, value in pairs])
    for method in ("POST", "GET"):
        with suppress(RefusalError):
            require(claims.body_length(headers, method) <= claims.LARGEST_BODY, "a length beyond the bound")
        with suppress(RefusalError):
            claim = claims.claim_of(headers, method, of_a_node=method == "POST")
            require(method == "GET" or plain_node_name(claim.node) == claim.node, "not one node")
            with suppress(MungeError):
                munge._as_bytes(claim.proof)
            claims.payload_of(claim.payload)
    try:
        found = claims.payload_of(payload)
    except RefusalError as error:
        require(printable(str(error)).isprintable(), "an answer of several lines")
    else:
        require(len(found.nonce) == 16 and len(found.digest) == 64, "nonce or digest of another length")


def request_body(data: bytes) -> None:
    """Every line is a record of its sender, or refused with a reason."""
    try:
        lines = bodies.lines_of(data, "n1", "lab")
    except RefusalError:
        return
    for line in lines:
        if line.record is None:
            require(line.why, "refused without a reason")
            continue
        require(line.record.data["node"] == "n1", "a record of another node")
        require(line.record.data.get("cluster") in ("lab", "", None), "a record of another cluster")
    json.dumps([line._replace(record=None) for line in lines])


@cache
def writer() -> Writer:
    return Writer(open_store(str(Path(scratch.root()) / "store.sqlite")))


def stored_record(data: bytes) -> None:
    """Whatever passes the reader, the store takes or refuses by name."""
    try:
        found = record.parse(data)
    except RecordError:
        return
    written = writer().write([found])
    require(
        len(written.new) + len(written.duplicates) + len(written.refused) == 1, "neither taken nor refused"
    )


def job_id(data: bytes) -> None:
    """The id in `GET /v1/jobs/ID`, and a NodeName, as they go into Slurm's argv."""
    text = data.decode("utf-8", "replace")
    with suppress(SlurmError):
        require(set(plain_job_id(text)) <= set("0123456789_+"), "more than a job id")
    with suppress(SlurmError):
        require(not set(plain_node_name(text)) & set("[],= \n\t\"'"), "more than a node name")


def http_answer(data: bytes) -> None:
    """Bytes that a server sends instead of an answer."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.settimeout(1.0)
        with suppress(OSError):
            theirs.sendall(data[:100_000])
        theirs.shutdown(socket.SHUT_WR)
        courier._connected = lambda *_: ours  # type: ignore[assignment]
        try:
            reply = REQUEST("http://head", "POST", "/v1/records", {}, b"x", seconds=1.0, largest=4096)
        except CollectorError:
            return
    require(len(reply.body) <= 4096, "more than the bound")
    require(courier.told(reply).isprintable(), "a sentence of several lines")


def answer(data: bytes) -> None:
    """An answer to records that is signed: no file leaves the spool that was not acknowledged in it."""
    here, run_id = scratch.places(), "a" * 32
    for path in spool.paths(here):
        Path(path).unlink()
    spool.write(here, {"run_id": run_id, "hook": "prolog"}, Plan({}, "n1").spool)
    signing.sign_request = lambda *_: ({}, ONCE)  # type: ignore[assignment]
    signing.check_answer = lambda *_: None  # type: ignore[assignment]
    courier.request = lambda *_, **__: courier.Reply(200, {}, data)  # type: ignore[assignment]
    fetch_plan.fetch = lambda *_: ""  # type: ignore[assignment]
    ship.ship(here, Plan({}, "n1"), Destination("http://head"))
    if not spool.paths(here):
        require(run_id.encode() in data or b"line" in data or b"\\u" in data, "gone without a word")


def answer_signature(data: bytes) -> None:
    """A signature, and what munge says was signed, under an answer."""
    text, _, payload = data.partition(b"\n")
    munge.decode = lambda *_: munge.Credential(payload, 0, 0, "", 0, 0)  # type: ignore[assignment]
    try:
        CHECK_ANSWER(Destination(""), ONCE, b"body", text.decode("utf-8", "replace"))
    except (CollectorError, MungeError):
        return
    require(json.loads(payload) == json.loads(signing.answer_payload(ONCE, b"body")), "another answer's")


def plan(data: bytes) -> None:
    """A bundle on its way, and one on the disk: sealed and unsealed, of this node and of none."""
    here = scratch.places()
    path = scratch.put(here.plan, data)
    Path(path).chmod(0o600)
    for node in ("n1", "n2", ""):
        _use(plans.load(path, node, 1_790_000_000.0))
    with suppress(OSError, ValueError):
        plan_file.read(Path(path))
    Path(path).unlink()
    with suppress(CollectorError):
        fetch_plan.put(here, "n1", data)


def _use(found: Plan) -> None:
    """What a hook asks a plan."""
    require(found.state in ("ok", "stale", "default", "foreign", "torn"), found.state)
    require(bool(found.problem) == (found.state != "ok"), "a state without a sentence")
    for name in plans.Plan.__slots__ if hasattr(plans.Plan, "__slots__") else vars(found):
        getattr(found, name)
    require(found.mode("gpu_xid", "drain") in ("observe", "enforce", "off"), "a mode that is none")
    found.tier("gpu_xid.79", "DRAIN")
    destination.destination(scratch.places(), found)
    require(all(value >= 0 for value in found.spool.values()), "a bound below nothing")


def report(data: bytes) -> None:
    """The report on a job from a server that may be any server."""
    try:
        found = job_remote._opened(courier.Reply(200, {}, data))  # type: ignore[arg-type]
        job_remote.shown(partial(job_text.text), found)
    except (CollectorError, NotFoundError, SetupError):
        return


HEAD = b"\n".join(
    [
        b"X-Slurm-Guard-Node: n1",
        b"Authorization: Munge MUNGE:AwQFAAB:",
        b"Content-Type: application/x-ndjson",
        b"Content-Length: 12",
        b"",
        PAYLOAD,
    ]
)
TOKEN_HEAD = b"\n".join(
    [
        b"X-Slurm-Guard-Node: gpu[1-2]",
        b"Authorization: Token " + b"ab" * 32,
        b"Content-Length: 99999999",
        b"X-Slurm-Guard-Payload: eyJ2IjoxfQ==",
        b'If-None-Match: "x"',
        b"",
        b'{"v":1,"time":"now"}',
    ]
)
ANSWER = {
    "acknowledged": ["a" * 32],
    "refused": [{"line": 1, "run_id": None, "why": "x"}],
    "takes_over": [],
    "plan": "",
}
BUNDLE: dict[str, Any] = {
    "schema": "1.0",
    "built_at": 1_790_000_000,
    "cluster": "lab",
    "nodes": {"n1": 0},
    "profiles": [{}],
    "spool": {"files": 5},
    "collector": {"url": "http://head"},
    "modes": {},
    "budget": {"nodes": 2},
}
BUNDLE["hash"] = plans.digest(BUNDLE)
TARGETS = (
    Target("request_head", "headers and signed payload of a request", request_head, (HEAD, TOKEN_HEAD)),
    Target(
        "request_body",
        "lines of POST /v1/records",
        request_body,
        (b"\n".join(RECORDS) + b"\n", LINE + b"\n[]\n{}\n", b"\n"),
    ),
    Target(
        "stored_record", "one run record, into the store", stored_record, (*RECORDS, b'{"kind":"action"}')
    ),
    Target(
        "job_id", "job ids and node names on their way to Slurm", job_id, (b"12_3", b"12+1", b"gpu-001.x")
    ),
    Target(
        "http_answer",
        "bytes of a server",
        http_answer,
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
            b"HTTP/1.1 429 x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}",
        ),
    ),
    Target("answer", "the collector's answer to records", answer, (json.dumps(ANSWER).encode(),)),
    Target(
        "answer_signature",
        "a signature under an answer",
        answer_signature,
        (b"Munge MUNGE:x:\n" + signing.answer_payload(ONCE, b"body"), b"Token " + b"0" * 64),
    ),
    Target("plan", "the plan bundle", plan, (plans.encode(BUNDLE), json.dumps(BUNDLE).encode())),
    Target(
        "report",
        "a job report from the collector",
        report,
        (*seeds("report"), b'{"kind":"job","schema":"1.0"}'),
    ),
)
