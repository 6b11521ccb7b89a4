"""Tables, JSON and foreign text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.cli import output

if TYPE_CHECKING:
    import pytest


def test_plain_table_is_columns_without_trailing_blanks() -> None:
    assert output.plain_table(("node", "state"), [("n1", "idle"), ("login-07", "")]) == (
        "NODE      STATE\nn1        idle\nlogin-07"
    )


def test_piped_tables_have_no_decoration_and_no_empty_cells(capsys: pytest.CaptureFixture[str]) -> None:
    output.table(("node", "jobs", "since"), [("n1", [7, 8], None)])
    assert capsys.readouterr().out == "NODE  JOBS  SINCE\nn1    7,8   -\n"


def test_json_has_schema_and_kind_first(capsys: pytest.CaptureFixture[str]) -> None:
    output.emit_json("nodes", {"nodes": ["é"]})
    printed = capsys.readouterr().out
    assert printed == '{"schema": "1.0", "kind": "nodes", "nodes": ["é"]}\n'
    assert list(json.loads(printed)) == ["schema", "kind", "nodes"]


def test_notes_are_for_terminals_and_warnings_for_all(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output.note("a hint")
    output.warn("one\ntwo")
    assert capsys.readouterr() == ("", "sguard: one\nsguard: two\n")
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    output.note("a hint")
    assert capsys.readouterr().out == "a hint\n"


def test_a_terminal_gets_a_rich_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "on_terminal", lambda: True)
    output.table(("node", "status"), [("n1", "[bold]fail")])
    printed = capsys.readouterr().out
    assert "[bold]fail" in printed
    assert "─" in printed


def test_one_thing_is_not_counted_as_several() -> None:
    assert [output.count(number, "node") for number in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]
    assert output.count(2, "class", "classes") == "2 classes"


@given(st.text())
def test_foreign_text_never_controls_the_terminal(text: str) -> None:
    shown = output.printable(text)
    assert shown.isprintable() or shown == ""
    assert output.printable(shown) == shown


def test_foreign_text_in_a_warning_gives_the_terminal_no_orders(capsys: pytest.CaptureFixture[str]) -> None:
    output.warn("set aside: h-\x1b]0;owned\x07.json: torn\nr-\udcff.json")
    assert capsys.readouterr().err == "sguard: set aside: h- ]0;owned .json: torn\nsguard: r- .json\n"
