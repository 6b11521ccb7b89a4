"""The drain reason: what we build can be read back, and nothing else passes for ours."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from slurm_guard.core import reason

FAULTS = st.from_regex(r"[a-z][a-z0-9_]{0,20}(\.[a-z0-9]{1,8}){0,2}", fullmatch=True)
DEVICES = st.sampled_from(["", "gpu3", "mlx5_0/1", "/scratch", "0000:1b:00.0", "GPU-5c9e1a2b-77aa", "nvme1"])
ANY_TEXT = st.text(max_size=300)


@given(fault=FAULTS, device=DEVICES, job_caused=st.booleans())
def test_what_is_built_is_read_back_and_is_ours(fault: str, device: str, job_caused: bool) -> None:
    text = reason.build(fault, device, job_caused)
    parsed = reason.parse(text)
    assert parsed is not None
    assert (parsed.fault, parsed.device, parsed.job_caused) == (fault, device, job_caused)
    assert reason.is_ours_unchanged(text)
    assert reason.is_ours_unchanged(text, text)


@given(fault=FAULTS, device=ANY_TEXT)
def test_any_device_gives_one_clean_line_that_is_ours_on_record(fault: str, device: str) -> None:
    text = reason.build(fault, device)
    assert len(text) <= reason.LONGEST
    assert text.isascii()
    assert text.isprintable()
    assert text == reason.clean(text)
    assert reason.is_ours_unchanged(text, text) or reason.strip_slurms_additions(text) != text


@given(text=ANY_TEXT)
def test_cleaning_is_idempotent_and_leaves_nothing_that_tools_choke_on(text: str) -> None:
    cleaned = reason.clean(text)
    assert reason.clean(cleaned) == cleaned
    assert not set(cleaned) & set("\"'`\\$|=;&<>\n\r\t\0")
    assert "  " not in cleaned
    assert cleaned == cleaned.strip()


@given(text=ANY_TEXT)
def test_any_text_is_read_without_an_error_and_only_our_mark_is_ours(text: str) -> None:
    parsed = reason.parse(text)
    if not text.strip().startswith((reason.MARK, reason.JOB_MARK)):
        assert parsed is None
        assert not reason.is_ours_unchanged(text)


@given(fault=FAULTS, device=DEVICES, addition=st.text(min_size=1, max_size=30))
def test_an_edit_is_never_ours(fault: str, device: str, addition: str) -> None:
    written = reason.build(fault, device)
    edited = written + addition
    assume(reason.strip_slurms_additions(edited) != written)
    assert not reason.is_ours_unchanged(edited, written)


@pytest.mark.parametrize(
    "addition",
    [
        " : reboot issued",
        " : reboot requested",
        " : reboot complete",
        " : reboot timed out",
        " : reboot requested : reboot issued",
    ],
)
def test_slurms_own_additions_are_no_edit(addition: str) -> None:
    written = reason.build("ib_link.down", "mlx5_3/1")
    assert reason.is_ours_unchanged(written + addition, written)
    assert reason.is_ours_unchanged(written + addition)


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "SG:",
        "SG: gpu2",
        "SG:gpu_count.lost  gpu2",
        "SG:gpu_count.lost gpu2 RMA-4711",
        "SG:gpu_count.lost gpu2; see ticket",
        "SG:gpu_count.lost gpu2\nsecond line",
        "SG:gpu_count.lost gpu2 : rebooted by ana",
        "SG:gpu_count.lost gpu2 [root@2031-05-04T03:02:01]",
        "sg:gpu_count.lost gpu2",
        "XSG:gpu_count.lost gpu2",
        "Not responding",
        "Prolog error",
        "gres/gpu count reported lower than configured (3 < 8)",
    ],
)
def test_what_is_not_ours(text: str | None) -> None:
    assert not reason.is_ours_unchanged(text)


def test_the_reason_on_record_decides() -> None:
    text = "SG:fs_mounts.hung /data/team a"
    assert not reason.is_ours_unchanged(text)
    assert reason.is_ours_unchanged(text, text)
    assert not reason.is_ours_unchanged(text, "SG:fs_mounts.hung /data/team b")


@pytest.mark.parametrize("evil", ["$(reboot)", '"quoted"', "`id`", "a\nb", "a|b=c", "ä" * 4096])
def test_a_reason_is_text_and_stays_one_line(evil: str) -> None:
    text = reason.build("kernel_log", evil)
    assert "\n" not in text
    assert len(text) <= reason.LONGEST
    assert text.startswith("SG:kernel_log")
