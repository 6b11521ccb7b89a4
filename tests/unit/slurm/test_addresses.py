"""Where nodes are, from `scontrol show node -o`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from slurm_guard.slurm.parse_text import addresses, listed_addresses

TEXT = (
    "NodeName=g01 Arch=x86_64 CoresPerSocket=8 CPUAlloc=0 AvailableFeatures=(null) Gres=gpu:8 "
    "NodeAddr=10.7.0.11 NodeHostName=rack3-g01 Port=6818 Version=22.05.8 OS=Linux 6.1 State=IDLE "
    "Comment=was NodeAddr=10.9.9.9 NodeHostName=other Reason=fan [root@2027-01-02T03:04:05]\n"
    "NodeName=g02 NodeAddr=g02 NodeHostName=g02 State=FUTURE\n"
    "NodeName=g03 Arch=x86_64 State=DOWN\n"
    "\n"
    "NodeName=g02 NodeAddr=g02 NodeHostName=g02 \n"
)


def test_the_first_word_counts() -> None:
    assert addresses(TEXT) == {
        "g01": ("10.7.0.11", "rack3-g01"),
        "g02": ("g02", "g02"),
        "g03": ("g03", "g03"),
    }


def test_a_line_that_somebody_wrote_into_a_comment_is_noticed() -> None:
    assert addresses(f"{TEXT}NodeName=g01 NodeAddr=10.9.9.9 NodeHostName=other \n") is None


def test_columns_of_sinfo() -> None:
    text = "g[01-02]~x~10.7.0.11~x~vm~x~\ng03~x~g03~x~rack3-g03~x~\n"
    assert listed_addresses(text, "~x~") == {
        "g01": ("10.7.0.11", "vm"),
        "g02": ("10.7.0.11", "vm"),
        "g03": ("g03", "rack3-g03"),
    }


@given(st.text(max_size=300))
def test_any_text_is_read(text: str) -> None:
    assert all(name and all(pair) for name, pair in (addresses(text) or {}).items())
    assert addresses(f"NodeName=a NodeAddr=b NodeHostName=c Comment={text!r}") == {"a": ("b", "c")}
