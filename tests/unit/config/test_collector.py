"""`[collector]`: what is taken, what is told, what goes into the plan."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.config.fields import host_and_port
from tests.unit.config.samples import assert_told
from tests.unit.config.test_compile import bundle_of

# name: (text, line, key, part of what was found, part of what was expected)
WRONG = {
    "no scheme": ("[collector]\nurl = 'head1:9427'\n", 2, "collector.url", '"head1:9427"', "http://HOST"),
    "user in url": ("[collector]\nurl = 'http://a:b@h'\n", 2, "collector.url", "http://a:b@h", "HOST"),
    "query": ("[collector]\nurl = 'http://h/?x=1'\n", 2, "collector.url", "http://h/?x=1", "HOST"),
    "port of url": ("[collector]\nurl = 'http://h:99999'\n", 2, "collector.url", "99999", "HOST"),
    "no port": ("[collector]\nlisten = '127.0.0.1'\n", 2, "collector.listen", "127.0.0.1", "ADDRESS:PORT"),
    "port 0": ("[collector]\nlisten = 'h:0'\n", 2, "collector.listen", '"h:0"', "1 to 65535"),
    "bare IPv6": ("[collector]\nlisten = '::1:80'\n", 2, "collector.listen", '"::1:80"', "[::1]:9427"),
    "half of TLS": ("[collector]\nkey = '/k'\n", 1, "collector", "a table", "`certificate` and `key`"),
    "relative": ("[collector]\ntoken_file = 'token'\n", 2, "collector.token_file", '"token"', "absolute"),
    "uid": ("[collector]\nuids = [-1]\n", 2, "collector.uids[#1]", "-1", "at least 0"),
    "name for uid": ("[collector]\nuids = ['slurm']\n", 2, "collector.uids[#1]", '"slurm"', "whole number"),
    "never silent": ("[collector]\nsilent_after = 0\n", 2, "collector.silent_after", "0", "at least 1"),
    "endless jitter": ("[collector]\njitter_s = inf\n", 2, "collector.jitter_s", "inf", "finite"),
    "no call": ("[collector]\ncalls_per_s = 0\n", 2, "collector.calls_per_s", "0", "more than 0"),
    "near miss": ("[collector]\nlissen = 'x'\n", 2, "collector.lissen", "unknown key", '"listen"'),
    "no address": (
        "[collector.addresses]\nn1 = ['10.0.0.300']\n",
        2,
        "collector.addresses.n1",
        "a list of 1",
        "networks",
    ),
    "empty list": (
        "[collector.addresses]\nn1 = []\n",
        2,
        "collector.addresses.n1",
        "an empty list",
        "least 1",
    ),
    "no hostlist": (
        "[collector.addresses]\n'n[1-' = ['10.0.0.1']\n",
        1,
        "collector.addresses",
        "a table",
        "hostlists as keys",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_each_mistake_is_told_with_its_place(tmp_path: Path, name: str) -> None:
    assert_told(tmp_path, *WRONG[name])


def test_the_plan_holds_what_nodes_need_and_no_more(tmp_path: Path) -> None:
    text = """
[collector]
url = "https://head1:9427"
listen = "[::]:9427"
certificate = "/etc/c.pem"
key = "/etc/k.pem"
token_file = "/etc/token"
uids = [64030]
admins = ["ada"]
acting = true
[collector.addresses]
"w[01-03]" = ["10.1.0.0/16", "fd00::7"]
"""
    assert bundle_of(tmp_path, text)["collector"] == {
        "url": "https://head1:9427",
        "token_file": "/etc/token",
        "uids": [64030],
        "jitter_s": 5.0,
        "acting": True,
    }


def test_without_a_url_nothing_is_sent(tmp_path: Path) -> None:
    assert bundle_of(tmp_path, "[collector]\nlisten = 'head1:1'\n")["collector"] == {}


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [("127.0.0.1:9427", "127.0.0.1", 9427), ("[::1]:80", "::1", 80), ("head1:65535", "head1", 65535)],
)
def test_where_to_listen(text: str, host: str, port: int) -> None:
    assert host_and_port(text) == (host, port)


@given(st.text(max_size=40))
def test_any_text_is_an_address_or_an_error(text: str) -> None:
    try:
        host, port = host_and_port(text)
    except ValueError:
        return
    assert host
    assert 1 <= port <= 65535
