"""Hostlists: order, repeats, padding, products, bounds, and errors instead of silence."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.slurm.hostlist import HostlistError, expand, fold, nodeset


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("login", ["login"]),
        ("cx-spot-dy-h200-[1-3]", ["cx-spot-dy-h200-1", "cx-spot-dy-h200-2", "cx-spot-dy-h200-3"]),
        ("q1417b-s3,q1418b-s9", ["q1417b-s3", "q1418b-s9"]),
        ("ab-c3-[5-6,9], ab-c4-[2]", ["ab-c3-5", "ab-c3-6", "ab-c3-9", "ab-c4-2"]),
        ("t_[2-4,3-5]", ["t_2", "t_3", "t_4", "t_3", "t_4", "t_5"]),
        ("n3,n1,n3", ["n3", "n1", "n3"]),
        ("rack[3-4]_node[7-8]", ["rack3_node7", "rack3_node8", "rack4_node7", "rack4_node8"]),
        ("u[2-3]v[05-06]w[4]", ["u2v05w4", "u2v06w4", "u3v05w4", "u3v06w4"]),
        ("g[098-101]", ["g098", "g099", "g100", "g101"]),
        ("g[8-11]", ["g8", "g9", "g10", "g11"]),
        ("g[0-1,00-01]", ["g0", "g1", "g00", "g01"]),
        ("g00[1-2,5],m[08-10]", ["g001", "g002", "g005", "m08", "m09", "m10"]),
        ("g[1-2]-ib,fe.example.org", ["g1-ib", "g2-ib", "fe.example.org"]),
        ("  a1 ,\tb2\n", ["a1", "b2"]),
        ("x[ 1-2 , 4 ]", ["x1", "x2", "x4"]),
        ("a+b:c", ["a+b:c"]),
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "position", "expected"),
    [
        ("", 1, "a node name"),
        ("a1,,a2", 4, "a node name"),
        ("a1,", 4, "a node name"),
        ("a[1-3", 6, "closing bracket"),
        ("a1-3]", 5, "paired"),
        ("a[[1-3]]", 3, "not nested"),
        ("a[]", 3, "a number or a range"),
        ("a[1,,3]", 5, "a number or a range"),
        ("a[x-y]", 3, "a number or a range"),
        ("a[1-3/2]", 3, "a number or a range"),
        ("b1,a[5,9-7]", 8, "a range that rises"),
        ("a[1-010]", 3, "zeros leading"),
        ("a b", 2, "letters, digits"),
        ("a1,b*", 5, "letters, digits"),
        ("!a[1-3]", 1, "letters, digits"),
        ("^file", 1, "letters, digits"),
        ("@racks", 1, "letters, digits"),
        ("a1&a2", 3, "letters, digits"),
        ("-a1", 1, "nothing can be excluded"),
        ("$(id)", 1, "letters, digits"),
    ],
)
def test_a_bad_pattern_is_an_error_that_says_where(text: str, position: int, expected: str) -> None:
    with pytest.raises(HostlistError, match=f"position {position}: .*expected.*{expected}"):
        expand(text)
    with pytest.raises(ValueError, match=f"position {position}"):
        nodeset(text)


@pytest.mark.parametrize("text", ["a[1-1000000000]", "a[1-999]b[1-999]c[1-999]", "a[0-60000],b[0-60000]"])
def test_an_explosion_is_refused_before_it_happens(text: str) -> None:
    with pytest.raises(HostlistError, match="more than 100000 names"):
        expand(text)


def test_the_bound_counts_names() -> None:
    assert len(expand("a[1-8]", 8)) == 8
    with pytest.raises(HostlistError, match="more than 7 names"):
        expand("a[1-8]", 7)


@pytest.mark.parametrize(
    "names",
    [
        ["srv017", "srv018", "srv31", "srv32", "srv40"],
        [f"b{blade}n{number:02d}" for blade in (1, 2, 3) for number in range(1, 8)],
        [*(f"st{number:03d}" for number in range(21, 27)), "st27"],
        ["a1", "a01", "a001"],
        ["x0", "x00"],
        ["1", "2", "03"],
        ["login"],
        ["c1-ib0", "c2-ib0", "c1-ib1"],
    ],
)
def test_folding_keeps_every_zero(names: list[str]) -> None:
    folded = fold(names)
    assert sorted(expand(folded)) == sorted(names)


def test_folding_is_short() -> None:
    assert fold([f"k{number}" for number in range(1, 301)]) == "k[1-300]"
    assert fold(["k2", "k1", "k2"]) == "k[1-2]"
    assert fold([]) == ""


NAMES = st.from_regex(r"[a-c][a-b_-]{0,2}[0-9]{0,3}([a-b-][0-9]{1,3}){0,2}", fullmatch=True)


@given(st.sets(NAMES, max_size=25))
def test_fold_and_expand_are_inverse(names: set[str]) -> None:
    folded = fold(names)
    assert set(expand(folded) if folded else []) == names


@given(st.lists(NAMES, min_size=1, max_size=10))
def test_plain_lists_keep_order_and_repeats(names: list[str]) -> None:
    assert expand(",".join(names)) == names
    assert set(nodeset(", ".join(names))) == set(names)


@given(st.text(alphabet="ab01-,[] !&^@/\n.", max_size=30))
def test_any_text_expands_to_plain_names_or_is_an_error(text: str) -> None:
    try:
        names = expand(text)
    except HostlistError:
        return
    assert names
    assert all(name and not set(name) & set(",[] !&^@/\n") for name in names)


@pytest.mark.parametrize("bad", ["", "a b", "a,b", "a[1-2]", "@x", "!a"])
def test_only_plain_names_can_be_folded(bad: str) -> None:
    with pytest.raises(HostlistError, match="not a node name"):
        fold(["ok1", bad])


def test_sets_are_for_set_algebra() -> None:
    assert str(nodeset("a[1-9]") - nodeset("a[4-5]")) == "a[1-3,6-9]"
    assert nodeset("a[01-03]") & nodeset("a[1-3]") == nodeset("b1") - nodeset("b1")
