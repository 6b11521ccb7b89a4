"""The table of `make bench` fits a page and says which budgets were missed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bench.table import COLUMNS, Row, notes, text, verdict

TEXT = st.text("abc defg-ü/%,", max_size=120)
ROWS = st.builds(
    Row, TEXT, TEXT, TEXT, TEXT, TEXT, st.none() | st.booleans(), st.text("abc de", max_size=300)
)


@given(st.lists(ROWS, max_size=4))
def test_no_line_is_longer_than_a_page(rows: list[Row]) -> None:
    assert COLUMNS == 100
    assert max(map(len, text(rows).splitlines())) <= COLUMNS


def test_a_long_cell_goes_on_below_itself_and_loses_nothing() -> None:
    said = text(
        [Row("ingest, an hour of 2,000 nodes", "-", "-", "1,000 rows/s, 2,000 files/s and a bit more")]
    )
    assert " ".join(said.split()).count("1,000 rows/s,") == 1
    assert {"nodes", "files/s", "more"} <= set(said.split())


def test_what_is_said_of_several_rows_is_said_once() -> None:
    rows = [
        Row(name, "", "", "1", note=note) for name, note in (("a", "x"), ("b", "y"), ("c", "x"), ("d", ""))
    ]
    assert notes(rows) == ["* a; c: x", "* b: y"]


def test_missed_and_unmeasured_rows_are_named() -> None:
    rows = [
        Row("one", "1", "-", "2", holds=False),
        Row("two", "1", "-", "1", holds=True),
        Row("three", "", "", "not measured", note="OSError"),
        Row("four", "-", "-", "4"),
    ]
    assert verdict(rows) == "1 of 2 budgets hold; missed: one; not measured: three"
