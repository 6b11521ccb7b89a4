"""The mounts probe: the mount table's form, what covers what, real small file systems, nothing touched."""

from __future__ import annotations

import ctypes
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.core.errors import ProbeError
from slurm_guard.core.outcome import Facts
from slurm_guard.core.paths import Places
from slurm_guard.probes import mounts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)
READ_ONLY = 1
ROOT = "30 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw\n"


@contextmanager
def tmpfs(folder: Path, options: str, flags: int = 0) -> Iterator[Path]:
    """A real tmpfs for as long as the block runs."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = LIBC.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", flags, options.encode())
    assert failed == 0, os.strerror(ctypes.get_errno())
    try:
        yield folder
    finally:
        assert LIBC.umount2(os.fsencode(folder), 0) == 0, os.strerror(ctypes.get_errno())


def table(root: Path, *lines: str) -> Places:
    (root / "proc/self").mkdir(parents=True, exist_ok=True)
    (root / "proc/self/mountinfo").write_text(ROOT + "".join(lines))
    return Places(str(root))


def ask(places: Places, *paths: str, **request: Any) -> list[Facts]:
    wanted = Facts(mounts=[Facts(path=path) for path in paths], **request)
    return [Facts(step()) for _, step in mounts.stream(places, wanted)]


LINE = "41 30 0:52 /export /scratch rw,noatime shared:7 master:2 - lustre 10.1.1.4@tcp:/work rw,flock\n"


def test_a_line() -> None:
    mount = mounts.parse(LINE.rstrip())
    assert mount is not None
    assert (mount.id, mount.parent, mount.path, mount.type) == (41, 30, "/scratch", "lustre")
    assert (mount.source, mount.options) == ("10.1.1.4@tcp:/work", ["rw", "noatime"])
    assert mount.super_options == ["rw", "flock"]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "41 30 0:52 / /scratch rw",
        "41 30 0:52 / /scratch - lustre src rw",
        "x 30 0:52 / /scratch rw - lustre src rw",
        "41 30 0:52 / scratch rw - lustre src rw",
        "41 30 0:52 / /scratch rw - lustre",
        "/dev/sda1 / ext4 rw 0 0",
    ],
)
def test_lines_in_another_form(line: str) -> None:
    assert mounts.parse(line) is None


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (r"/data\040sets", "/data sets"),
        (r"/tab\011new\012line", "/tab\tnew\nline"),
        (r"/back\134040slash", r"/back\040slash"),
        (r"/no\9", r"/no\9"),
        ("/plain", "/plain"),
    ],
)
def test_escapes(raw: str, text: str) -> None:
    assert mounts.unescape(raw) == text


def escape(text: str) -> str:
    """As the kernel writes it."""
    for character in "\\ \t\n#":
        text = text.replace(character, f"\\{ord(character):03o}")
    return text


WORD = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs"], exclude_characters=",\x85\u2028\u2029"), min_size=1
)


@given(
    st.integers(1, 2**31), st.text(st.characters(exclude_categories=["Cs"])), st.lists(WORD, min_size=1), WORD
)
def test_what_the_kernel_writes_is_read_back(own: int, name: str, options: list[str], source: str) -> None:
    words = ",".join(escape(option) for option in options)
    line = f"{own} 1 0:9 / {escape('/' + name)} rw,nodev shared:3 - nfs4 {escape(source)} {words}"
    mount = mounts.parse(line)
    assert mount is not None
    assert (mount.id, mount.path, mount.source) == (own, f"/{name}", source)
    assert mount.super_options == options


@given(st.text(max_size=200))
def test_any_text_is_a_mount_or_none(line: str) -> None:
    mount = mounts.parse(line)
    assert mount is None or (mount.path.startswith("/") and mount.type is not None)


def parsed(*lines: str) -> list[mounts.Mount]:
    found = [mounts.parse(line) for line in lines]
    assert None not in found
    return [mount for mount in found if mount is not None]


def entry(own: int, parent: int, path: str, kind: str = "xfs") -> str:
    return f"{own} {parent} 0:{own} / {path} rw - {kind} src{own} rw"


@pytest.mark.parametrize(
    ("lines", "path", "found"),
    [
        ([entry(1, 0, "/"), entry(2, 1, "/a")], "/a", 2),
        ([entry(1, 0, "/"), entry(2, 1, "/a")], "/b", None),
        ([entry(1, 0, "/"), entry(2, 1, "/ab")], "/a", None),
        ([entry(1, 0, "/"), entry(2, 1, "/a"), entry(3, 2, "/a")], "/a", 3),
        ([entry(1, 0, "/"), entry(2, 1, "/a/b"), entry(3, 1, "/a")], "/a/b", None),
        ([entry(1, 0, "/"), entry(2, 1, "/a"), entry(3, 2, "/a/b")], "/a/b", 3),
        ([entry(1, 0, "/"), entry(2, 1, "/a/b"), entry(3, 1, "/ab")], "/a/b", 2),
        ([entry(1, 1, "/"), entry(2, 1, "/a/b"), entry(3, 1, "/a"), entry(4, 3, "/a/b")], "/a/b", 4),
        ([entry(5, 6, "/a"), entry(6, 5, "/b"), entry(7, 9, "/")], "/a", None),
        ([entry(1, 0, "/")], "/", 1),
    ],
)
def test_which_mount_is_met(lines: list[str], path: str, found: int | None) -> None:
    mount = mounts.find(parsed(*lines), path)
    assert (mount.id if mount else None) == found


@pytest.mark.needs_root
def test_space_of_a_real_file_system(tmp_path: Path) -> None:
    places = table(tmp_path, LINE)
    with tmpfs(tmp_path / "scratch", "size=1m,nr_inodes=50") as folder:
        (folder / "data").write_bytes(b"x" * (256 << 10))
        (facts,) = ask(places, "/scratch")
    assert (facts.mounted, facts.answered, facts.error, facts.hung) == (True, True, "", False)
    assert facts.space == {"size": 1 << 20, "free": 768 << 10, "inodes": 50, "inodes_free": 48}
    assert (facts.type, facts.expected) == ("lustre", True)


@pytest.mark.needs_root
def test_a_full_file_system(tmp_path: Path) -> None:
    places = table(tmp_path, LINE)
    with tmpfs(tmp_path / "scratch", "size=64k,nr_inodes=4") as folder:
        for number in range(3):
            (folder / str(number)).touch()
        (folder / "0").write_bytes(b"x" * (64 << 10))
        (facts,) = ask(places, "/scratch")
    assert (facts.space["free"], facts.space["inodes_free"]) == (0, 0)


@pytest.mark.needs_root
def test_the_own_mount_table(tmp_path: Path) -> None:
    """With the root `/`, the kernel's own table is read, blank and all."""
    with (
        tmpfs(tmp_path / "model zoo", "size=64k", READ_ONLY) as folder,
        tmpfs(tmp_path / "cover/below", "size=64k") as below,
        tmpfs(tmp_path / "cover", "size=64k"),
    ):
        facts = ask(Places("/"), str(folder), f"{below}", "/proc")
    assert [fact.mounted for fact in facts] == [True, False, True]
    assert facts[0].type == "tmpfs"
    assert "ro" in facts[0].options
    assert facts[0].space["size"] == 64 << 10
    assert facts[2].type == "proc"


def test_what_is_not_mounted_is_neither_touched_nor_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = table(tmp_path, LINE)
    monkeypatch.setattr(mounts, "_ask", lambda path: pytest.fail(f"touched {path}"))
    (facts,) = ask(places, "/data")
    assert (facts.mounted, facts.answered, facts.space, facts.type) == (False, False, None, None)
    assert not (tmp_path / "data").exists()


def test_a_mount_point_that_is_gone_is_an_error(tmp_path: Path) -> None:
    (facts,) = ask(table(tmp_path, LINE), "/scratch")
    assert (facts.mounted, facts.answered, facts.error, facts.space) == (True, True, "ENOENT", None)
    assert not (tmp_path / "scratch").exists()


def test_other_mounts_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = table(tmp_path, LINE, LINE.replace("/scratch", "/home"), LINE.replace("/scratch", "/old"))
    asked: list[str] = []
    monkeypatch.setattr(mounts, "_ask", lambda path: asked.append(path) or {"answered": True})  # type: ignore[func-returns-value]
    ask(places, "/scratch", "/home", filesystems=["/old", "/scratch", "/tmp"], skip=["/home"])
    assert asked == [places.below("/scratch"), places.below("/old")]


def test_each_path_is_asked_once_and_expected_ones_first(tmp_path: Path) -> None:
    places = table(tmp_path, LINE, LINE.replace("/scratch", "/tmp"))
    facts = ask(places, "/scratch", "/scratch", filesystems=["/tmp", "/scratch"])
    assert [(fact.key, fact.expected) for fact in facts] == [("/scratch", True), ("/tmp", False)]


def test_a_slash_at_the_end(tmp_path: Path) -> None:
    (facts,) = ask(table(tmp_path, LINE), "/scratch/")
    assert facts.mounted
    assert facts.key == "/scratch/"


def test_steps_are_run_only_when_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = table(tmp_path, LINE)
    monkeypatch.setattr(mounts, "_ask", lambda path: pytest.fail(f"touched {path}"))
    keys = [key for key, _ in mounts.stream(places, Facts(mounts=[{"path": "/scratch"}]))]
    assert keys == ["/scratch"]


AUTOFS = "50 30 0:60 / /home rw,relatime - autofs /etc/auto.direct rw,direct\n"


def test_an_automounter_is_asked_and_the_table_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = table(tmp_path, AUTOFS)

    def trigger(_path: str) -> dict[str, Any]:
        table(tmp_path, AUTOFS, "51 50 0:61 / /home rw - nfs4 filer:/home rw\n")
        return {"answered": True, "error": "", "space": None}

    monkeypatch.setattr(mounts, "_ask", trigger)
    (facts,) = ask(places, "/home")
    assert (facts.type, facts.automount) == ("nfs4", False)


def test_an_automounter_that_cannot(tmp_path: Path) -> None:
    (facts,) = ask(table(tmp_path, AUTOFS), "/home")
    assert (facts.type, facts.automount, facts.error) == ("autofs", True, "ENOENT")


@pytest.mark.parametrize("content", [b"", b"\x00\xff\n\n", b"/dev/sda1 / ext4 rw 0 0\n"])
def test_a_table_in_another_form_is_an_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_bytes(content)
    with pytest.raises(ProbeError, match="no line in the form of mountinfo"):
        ask(Places(str(tmp_path)), "/scratch")


def test_no_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProbeError, match="cannot be read"):
        ask(Places(str(tmp_path)), "/scratch")


@pytest.mark.needs_root
def test_a_mount_that_comes_and_goes_is_an_answer_each_time(tmp_path: Path) -> None:
    """Unmounting meanwhile gives an error or an answer, never a crash."""
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            with tmpfs(tmp_path / "flip", "size=64k"):
                pass

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        answers = [ask(Places("/"), str(tmp_path / "flip"))[0] for _ in range(30)]
    finally:
        stop.set()
        thread.join()
    assert all(answer.error in ("", "ENOENT") for answer in answers)
