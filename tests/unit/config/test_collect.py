"""`[collect]`: what is taken, what is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.config.collect import PLAIN_COMMAND, addresses_of
from tests.unit.config.samples import assert_told
from tests.unit.config.test_compile import bundle_of

# name: (text, line, key, part of what was found, part of what was expected)
WRONG = {
    "port": ("[collect]\nport = 0\n", 2, "collect.port", "0", "at least 1"),
    "relative key": ("[collect]\nkey = 'id'\n", 2, "collect.key", '"id"', "absolute"),
    "two users": ("[collect]\nuser = 'a b'\n", 2, "collect.user", '"a b"', "one word"),
    "shell": ("[collect]\ncommand = 'send; rm x'\n", 2, "collect.command", "send; rm x", "no shell syntax"),
    "variable": ("[collect]\ncommand = '$HOME/send'\n", 2, "collect.command", "$HOME", "no shell syntax"),
    "two blanks": ("[collect]\ncommand = 'a  b'\n", 2, "collect.command", "a  b", "one blank apart"),
    "all at once": ("[collect]\nparallel = 1000\n", 2, "collect.parallel", "1000", "at most 256"),
    "no time": ("[collect]\nauth_s = 0\n", 2, "collect.auth_s", "0", "more than 0"),
    "fewer": ("[collect.hosts]\n'n[1-3]' = 'm[1-2]'\n", 1, "collect.hosts", "a table", "as many addresses"),
    "no hostlist": ("[collect.hosts]\n'n[1-' = 'm'\n", 1, "collect.hosts", "a table", "pairs of hostlists"),
    "twice": (
        "[collect.hosts]\nn1 = 'a'\n'n[1-2]' = 'b,c'\n",
        1,
        "collect.hosts",
        "a table",
        "each node once",
    ),
    "near miss": ("[collect]\nprot = 22\n", 2, "collect.prot", "unknown key", '"port"'),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_mistake_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    assert_told(tmp_path, *WRONG[name])


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({}, {}),
        ({"n1": "10.0.0.7"}, {"n1": "10.0.0.7"}),
        (
            {"n[1-2]": "n[1-2]-mgmt", "x": "2001:db8::7"},
            {"n1": "n1-mgmt", "n2": "n2-mgmt", "x": "2001:db8::7"},
        ),
        ({"n[08-09]": "10.1.2.[8-9]"}, {"n08": "10.1.2.8", "n09": "10.1.2.9"}),
    ],
)
def test_hosts_are_pairs_of_hostlists(table: dict[str, str], expected: dict[str, str]) -> None:
    assert addresses_of(table) == expected


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20), max_size=3))
def test_any_table_is_read_or_refused(table: dict[str, str]) -> None:
    try:
        found = addresses_of(table)
    except ValueError:
        return
    assert all(found)
    assert all(found.values())


@given(st.text(max_size=30))
def test_a_command_holds_nothing_that_means_something_to_a_shell(text: str) -> None:
    if PLAIN_COMMAND.fullmatch(text):
        assert not set(text) & set("|&;<>()$`\\\"'*?[]#~!{}\n\t")


def test_nodes_need_to_know_nothing_of_it(tmp_path: Path) -> None:
    assert bundle_of(tmp_path, "[collect]\nport = 2222\n")["hash"] == bundle_of(tmp_path, "")["hash"]
