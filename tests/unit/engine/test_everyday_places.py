"""Nodes without a disk of their own: / is read-only, /var and /run are tmpfs, or lie where node.json says."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import CHECKOUT

if TYPE_CHECKING:
    from .conftest import NodeRoot

#: In a mount namespace of its own, so that nothing stays mounted: ROOT, then the folders that can be written.
DISKLESS = """
root=$1; shift
mount --bind "$root" "$root"
for folder in "$@"; do mount -t tmpfs tmpfs "$root/$folder" || exit 9; done
mount -o remount,bind,ro "$root" || exit 9
touch "$root/etc/x" 2>/dev/null && exit 8
for hook in prolog healthcheck; do
    "$CHECKOUT/$hook/sguard-$hook" --root "$root" || exit 7
done
cat $(find "$root" -path '*spool/*.json')
"""


def records(node: NodeRoot, *folders: str) -> list[dict[str, Any]]:
    for folder in (*folders, "etc"):
        (node.root / folder).mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["/usr/bin/unshare", "-m", "/bin/sh", "-c", DISKLESS, "sh", str(node.root), *folders],
        env={
            "CHECKOUT": str(CHECKOUT),
            "SLURMD_NODENAME": "n1",
            "SLURM_JOB_ID": "5",
            "PATH": "/usr/bin:/bin",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    decoder, text, found = json.JSONDecoder(), done.stdout, []
    while text:
        record, end = decoder.raw_decode(text)
        found.append(record)
        text = text[end:].lstrip()
    return found


@pytest.mark.needs_root
def test_a_read_only_root_with_var_and_run_in_memory(node: NodeRoot) -> None:
    found = records(node, "var", "run")
    assert {one["hook"] for one in found} == {"prolog", "healthcheck"}
    assert not [text for one in found for text in one["coverage"].values() if "written" in text]
    assert not Path(node.spool).exists()  # it lay in memory, and went with it


@pytest.mark.needs_root
def test_a_read_only_root_with_one_folder_that_node_json_names(node: NodeRoot) -> None:
    (node.root / "etc/slurm-guard").mkdir(parents=True)
    places = {"places": {"var": "/persist/guard", "run": "/persist/guard-run"}}
    (node.root / "etc/slurm-guard/node.json").write_text(json.dumps(places))
    assert {one["hook"] for one in records(node, "persist")} == {"prolog", "healthcheck"}


@pytest.mark.needs_root
def test_a_read_only_root_with_nothing_else_stops_no_job_and_says_so(node: NodeRoot) -> None:
    assert records(node) == []
    assert node.said("not all of this run is on disk")
