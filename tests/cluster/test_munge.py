"""Credentials made and checked by a real munged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.errors import MungeError
from slurm_guard.slurm import munge
from tests.cluster.munged import clock_library, munged

KEY = bytes(range(256)) * 4
CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    """Where other users may reach it, which pytest's own folders do not let them."""
    with tempfile.TemporaryDirectory(prefix="sguard-") as name:
        Path(name).chmod(0o755)
        with munged(Path(name), KEY) as path:
            yield path


@pytest.mark.parametrize("payload", [b"", b"x", b'{"v":1}', b"\0\xff\n" * 9, b"z" * munge.LARGEST_PAYLOAD])
def test_what_is_encoded_is_decoded_with_its_origin(socket: str, payload: bytes) -> None:
    before = int(time.time())
    found = munge.decode(munge.encode(payload, socket), socket)
    assert (found.payload, found.uid, found.gid) == (payload, os.getuid(), os.getgid())
    assert before <= found.encoded_at <= time.time()
    assert found.ttl > 0
    parts = [int(part) for part in found.address.split(".")]
    assert len(parts) == 4
    assert all(0 <= part <= 255 for part in parts)


def test_another_user_is_told(socket: str) -> None:
    program = f"from slurm_guard.slurm import munge; print(munge.encode(b'mine', {socket!r}))"
    made = subprocess.run(
        [sys.executable, "-c", program],
        cwd=CHECKOUT, user=65534, group=65534, extra_groups=[], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    found = munge.decode(made.stdout.strip(), socket)
    assert (found.payload, found.uid, found.gid) == (b"mine", 65534, 65534)


def test_a_credential_is_accepted_once(socket: str) -> None:
    made = munge.encode(b"once", socket)
    assert munge.decode(made, socket).payload == b"once"
    with pytest.raises(MungeError, match="accepted once") as caught:
        munge.decode(made, socket)
    assert (caught.value.name, caught.value.code) == ("replayed", munge.REPLAYED)


@pytest.mark.parametrize(("shift", "name"), [(-86400, "expired"), (86400, "rewound")])
def test_clocks_that_disagree_are_told_from_replays(
    socket: str, tmp_path: Path, shift: int, name: str
) -> None:
    clock = {"LD_PRELOAD": str(clock_library(tmp_path)), "CLOCK_SHIFT": str(shift)}
    with munged(tmp_path / "far", KEY, clock) as far:
        made = munge.encode(b"when", far)
    with pytest.raises(MungeError, match="clocks of both hosts") as caught:
        munge.decode(made, socket)
    assert caught.value.name == name


def test_another_key_is_foreign(socket: str, tmp_path: Path) -> None:
    with munged(tmp_path / "other") as other:
        made = munge.encode(b"mine", other)
    with pytest.raises(MungeError, match="same munge key") as caught:
        munge.decode(made, socket)
    assert caught.value.name == "bad"


@pytest.mark.parametrize(
    "garbage",
    ["", "MUNGE:", "MUNGE:AAAA:", "MUNGE:" + "A" * 9000 + ":", "é", "MUNGE:\0:", "\n", "Bearer x" * 99],
)
def test_garbage_is_no_credential(socket: str, garbage: str) -> None:
    with pytest.raises(MungeError) as caught:
        munge.decode(garbage, socket)
    assert caught.value.name == "bad"


@given(st.text(max_size=200), st.binary(max_size=200))
def test_no_text_is_a_credential(socket: str, text: str, noise: bytes) -> None:
    for credential in (text, f"MUNGE:{text}:", f"MUNGE:{noise.hex()}:"):
        with pytest.raises(MungeError) as caught:
            munge.decode(credential, socket)
        assert caught.value.name == "bad"


@given(st.data())
def test_a_credential_with_any_letter_changed_is_refused(socket: str, data: st.DataObject) -> None:
    """Base64 has letters whose last bits count for nothing: those may leave the credential as it was."""
    made = munge.encode(b"genuine", socket)
    place = data.draw(st.integers(6, len(made) - 6))
    letter = data.draw(st.sampled_from("ABCDabcd0189+/"))
    changed = made[:place] + letter + made[place + 1 :]
    assert _said(changed, socket) in ("genuine", "bad")


def _said(credential: str, socket: str) -> str:
    try:
        return munge.decode(credential, socket).payload.decode()
    except MungeError as error:
        return error.name


def test_sizes_are_bounded_before_munged_is_asked() -> None:
    nowhere = "/nonexistent/munge.sock"
    with pytest.raises(MungeError, match="10485760 bytes, at most") as caught:
        munge.decode("A" * (10 << 20), nowhere)
    assert caught.value.code == munge.BAD_LENGTH
    with pytest.raises(MungeError, match="a payload of 16385 bytes") as caught:
        munge.encode(b"x" * (munge.LARGEST_PAYLOAD + 1), nowhere)
    assert caught.value.code == munge.BAD_LENGTH


@pytest.mark.parametrize("path", ["/nonexistent/munge.sock", "/etc", "x" * 4000])
def test_no_munged_is_named(path: str) -> None:
    for attempt in (lambda: munge.encode(b"x", path), lambda: munge.decode("MUNGE:AAAA:", path)):
        with pytest.raises(MungeError, match="is munged running") as caught:
            attempt()
        assert caught.value.name == "socket"


def test_no_library_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(munge, "_loaded", None)
    monkeypatch.setattr(munge, "LIBRARY", "libmunge.so.none")
    with pytest.raises(MungeError, match="install munge's library, or use a token file"):
        munge.encode(b"x")


def test_threads_do_not_meet(socket: str) -> None:
    """Each thread gets back what it sent; an error of one is not told to another."""
    wrong: list[str] = []

    def work(number: int) -> None:
        for turn in range(50):
            payload = f"{number}.{turn}".encode() * 50
            made = munge.encode(payload, socket)
            if munge.decode(made, socket).payload != payload:
                wrong.append(f"{number}.{turn}")
            try:
                munge.decode(made, socket)
            except MungeError as error:
                if error.name != "replayed":
                    wrong.append(str(error))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


LEAK = """
import json, sys
from slurm_guard.core.errors import MungeError
from slurm_guard.slurm import munge

def pages():
    return int(open("/proc/self/statm").read().split()[1])

def turns(number):
    for _ in range(number):
        made = munge.encode(b"x" * 12000, sys.argv[1])
        munge.decode(made, sys.argv[1])
        for bad in (made, "MUNGE:AAAA:"):  # a replayed credential hands out its payload too
            try:
                munge.decode(bad, sys.argv[1])
            except MungeError:
                pass

turns(100)
before = pages()
turns(1000)
print(json.dumps(pages() - before))
"""


def test_nothing_that_the_library_hands_out_is_kept(socket: str) -> None:
    """A thousand turns hand out 16 + 12 + 12 MB; what grew is less than a tenth of any of these."""
    done = subprocess.run(
        [sys.executable, "-c", LEAK, socket], cwd=CHECKOUT, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) * os.sysconf("SC_PAGE_SIZE") < 1 << 20
