"""Xid lines as the field has reported them: which GPU, how grave, what is an echo of what.

Addresses of the simulated node: 18 2a 3b 5d 9a ab ba db are gpu0 to gpu7.
"""

from __future__ import annotations

import re

import pytest

from slurm_guard.core import xid
from slurm_guard.core.policy import DRAIN_TIERS
from tests.unit.checks.simulated_node import SimulatedNode, brief

XID = "NVRM: Xid (PCI:0000:{}:00): {}"
BLOCK = ("NVRM: The NVIDIA GPU 0000:{}:00.0", "NVRM: (PCI ID: 10de:2336) installed in this system has")
GONE = "NVRM: fallen off the bus and is not responding to commands."


def xid_line(bus: str, rest: str) -> str:
    return XID.format(bus, rest)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (  # the cause's own line is there: the echo adds nothing
            [
                xid_line("5d", "149, NETIR_LINK_EVT Fatal XC0 i0 Link 12 (0x01e501c6 0x00000000)"),
                xid_line("5d", "45, pid=4107, name=pretrain, Ch 00000007 caused by previous Xid 149"),
            ],
            {
                ("gpu_xid.149", "gpu3", "fail", "DRAIN_REBOOT"),
                ("gpu_xid.45", "gpu3", "warn", "NOTE"),
            },
        ),
        (  # it is lost: the back-pointer names it
            [xid_line("ab", "45, pid=4110, name=pretrain, Ch 00000002 caused by previous Xid 79")],
            {
                ("gpu_xid.79", "gpu5", "fail", "DRAIN_REBOOT"),
                ("gpu_xid.45", "gpu5", "warn", "NOTE"),
            },
        ),
        (  # an application's fault stays one
            [xid_line("18", "45, pid=9, name=a.out, Ch 00000001 caused by previous Xid 31")],
            {("gpu_xid.31", "gpu0", "fail", "JOB"), ("gpu_xid.45", "gpu0", "warn", "NOTE")},
        ),
        (  # the back-pointer tells the code, not how grave that NVLink fault was
            [xid_line("2a", "45, pid=9, name=a.out, Ch 00000001 caused by previous Xid 147")],
            {("gpu_xid.147", "gpu1", "warn", "WARN"), ("gpu_xid.45", "gpu1", "warn", "NOTE")},
        ),
        (  # it points at a code that nobody knows
            [xid_line("2a", "45, pid=9, name=a.out, Ch 00000001 caused by previous Xid 611")],
            {("gpu_xid.611", "gpu1", "unknown", "WARN"), ("gpu_xid.45", "gpu1", "warn", "NOTE")},
        ),
    ],
)
def test_an_echo_names_its_cause(
    simulated: SimulatedNode, lines: list[str], expected: set[tuple[str, str, str, str]]
) -> None:
    simulated.say(*lines)
    assert brief(simulated.look("gpu_xid")) == expected


def test_a_gpu_with_the_cause_outranks_its_peers(simulated: SimulatedNode) -> None:
    simulated.say(
        xid_line("ba", "149, NETIR_LINK_EVT  Fatal   XC1 i0 Link 02 (0x02400246 0x00000000)"),
        *(xid_line(bus, "145, RLW_SRC_TRACK Nonfatal XC0 i0 Link -1 (0x4 0x0)") for bus in ("18", "2a")),
        *(
            xid_line(bus, "45, pid=707, name=rank, Ch 00000004 caused by previous Xid 145")
            for bus in ("18", "2a")
        ),
    )
    found = simulated.look("gpu_xid")
    assert {one.device for one in found if one.status == "fail"} == {"gpu6"}
    assert {one.blame for one in found if one.status == "fail"} == {"node"}


def test_a_teardown_of_a_whole_job_drains_nobody(simulated: SimulatedNode) -> None:
    simulated.say(
        *(xid_line(gpu.address[5:7], f"45, pid={2000 + gpu.index}, name=torchrun, Ch 0000000{gpu.index}")
          for gpu in simulated.machine.gpus)
    )  # fmt: skip
    found = simulated.look("gpu_xid")
    assert brief(found) == {("gpu_xid.45", f"gpu{index}", "warn", "NOTE") for index in range(8)}


@pytest.mark.parametrize(
    "lines",
    [
        (xid_line("9a", "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),),
        ("NVRM: GPU 0000:9a:00.0: GPU has fallen off the bus.",),
        ("NVRM: GPU at PCI:0000:9a:00: GPU has fallen off the bus.",),
        (BLOCK[0].format("9a"), BLOCK[1], GONE),
        ("\\x0a".join((BLOCK[0].format("9a"), BLOCK[1], GONE)),),
        (BLOCK[0].format("9a"), "               " + BLOCK[1], "               " + GONE),
        (  # all spellings of one event, and a line of somebody else's in between
            BLOCK[0].format("9a"),
            BLOCK[1],
            "pcieport 0000:98:01.0: pciehp: Slot(3): Link Down",
            GONE,
            "NVRM: GPU 0000:9A:00.0: GPU has fallen off the bus.",
            xid_line("9a", "79, GPU has fallen off the bus."),
        ),
    ],
)
def test_every_spelling_of_a_lost_gpu_is_one_event(simulated: SimulatedNode, lines: tuple[str, ...]) -> None:
    simulated.say(*lines)
    (found,) = simulated.look("gpu_xid")
    assert (found.fault, found.device, found.status, found.tier) == (
        "gpu_xid.79",
        "gpu4",
        "fail",
        "DRAIN_REBOOT",
    )
    assert found.blame == "node"


def test_two_lost_gpus_are_two(simulated: SimulatedNode) -> None:
    simulated.say(
        BLOCK[0].format("3b"), BLOCK[1], GONE, "NVRM: GPU 0000:db:00.0: GPU has fallen off the bus."
    )
    assert {one.device for one in simulated.look("gpu_xid")} == {"gpu2", "gpu7"}


def test_a_second_gpu_with_the_same_code_is_not_dropped(simulated: SimulatedNode) -> None:
    simulated.say(
        *(xid_line(bus, "48, pid=1, name=x, An uncorrectable double bit error") for bus in ("18", "5d"))
    )
    assert {(one.fault, one.device) for one in simulated.look("gpu_xid")} == {
        ("gpu_xid.48", "gpu0"),
        ("gpu_xid.48", "gpu3"),
    }


@pytest.mark.parametrize(
    ("codes", "status"),
    [
        ([(163, "3b"), (162, "3b")], {}),
        ([(163, "3b")], {"gpu2": "WARN"}),
        ([(162, "3b"), (163, "3b")], {"gpu2": "WARN"}),
        ([(163, "3b"), (162, "5d")], {"gpu2": "WARN"}),
        ([(163, "3b"), (162, "3b"), (163, "3b")], {"gpu2": "WARN"}),
        ([(163, "3b"), (163, "5d"), (162, "3b")], {"gpu3": "WARN"}),
    ],
)
def test_a_pair_cancels_by_device_and_in_order(
    simulated: SimulatedNode, codes: list[tuple[int, str]], status: dict[str, str]
) -> None:
    simulated.say(*(xid_line(bus, f"{code}, PSHC event") for code, bus in codes))
    found = simulated.look("gpu_xid")
    assert {
        one.device: one.tier for one in found if one.fault == "gpu_xid.163" and one.tier != "NOTE"
    } == status
    assert not any(one.tier in DRAIN_TIERS for one in found)


def test_a_silent_gsp_is_one_event_and_the_process_a_victim(simulated: SimulatedNode) -> None:
    wait = "Timeout after 45s of waiting for RPC response from GPU6 GSP! Expected function {}"
    simulated.say(
        xid_line(
            "ba", f"119, pid=3301, name=nvidia-smi, {wait.format('76 (GSP_RM_CONTROL) (0x20800a10 0x24)')}."
        ),
        xid_line("ba", f"119, pid=3301, name=nvidia-smi, {wait.format('103 (GSP_RM_ALLOC) (0x90 0x40)')}."),
        xid_line(
            "ba", "119, pid=81, name=dcgm, Timeout waiting for RPC from GSP! Expected function 10 (FREE)."
        ),
    )
    (found,) = simulated.look("gpu_xid")
    assert (found.fault, found.device, found.tier, found.blame) == (
        "gpu_xid.119",
        "gpu6",
        "DRAIN_REBOOT",
        "node",
    )
    assert found.value == 3
    assert "nvidia-smi" not in found.message


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: GPU5 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 81 heartbeat 7 timeout 5200",
        "NVRM: GPU5 kgmmuCheckMemSubsysError_IMPL: Memory Subsystem Error detected. kbusFlush failed.",
        "NVRM: GPU5 _kgspLogRpcTimeout: ********************* GSP Timeout **********************",
        "NVRM: GPU5 _kgspLogXid119: ***GSP Timeout***",
    ],
)
def test_a_gsp_without_an_xid_is_found_by_the_drivers_own_number(simulated: SimulatedNode, line: str) -> None:
    """The driver's number is the minor number, not nvidia-smi's index."""
    simulated.gpu(5, minor_number=6)
    simulated.gpu(6, minor_number=5)
    simulated.say(line)
    (found,) = simulated.look("gpu_xid")
    assert (found.fault, found.status, found.tier) == ("gpu_xid.gsp_heartbeat", "fail", "DRAIN_REBOOT")
    assert (found.device, found.device_id) == ("gpu5", simulated.machine.gpus[6].uuid)


def test_three_words_of_one_silent_gsp_are_one_finding(simulated: SimulatedNode) -> None:
    simulated.say(
        "NVRM: GPU1 _kgspIsHeartbeatTimedOut: Heartbeat timed out, diff 6010 timeout 5200",
        "NVRM: GPU1 kgmmuCheckMemSubsysError_IMPL: Memory Subsystem Error detected. kbusFlush failed.",
        "NVRM: GPU1 _kgspLogRpcTimeout: ***** GSP Timeout *****",
    )
    assert brief(simulated.look("gpu_xid")) == {("gpu_xid.gsp_heartbeat", "gpu1", "fail", "DRAIN_REBOOT")}


@pytest.mark.parametrize(
    ("rest", "kept"),
    [
        ("231, FUTURE_CODE new", "Xid 231 on gpu0 .*FUTURE_CODE new"),
        ("999, pid=1, name=a", "Xid 999 on gpu0 "),
        ("5", "Xid 5 on gpu0 "),
        ("66000, a number too far", "Xid 66000 on gpu0 .*too far"),
    ],
)
def test_a_code_that_nobody_knows_is_unknown_with_its_text(
    simulated: SimulatedNode, rest: str, kept: str
) -> None:
    simulated.say(xid_line("18", rest))
    (found,) = simulated.look("gpu_xid")
    assert (found.device, found.status, found.tier, found.blame) == ("gpu0", "unknown", "WARN", "unknown")
    assert re.search(kept, found.message)


def test_a_switchs_event_is_looked_up_in_the_switchs_guide(simulated: SimulatedNode) -> None:
    simulated.say("nvidia-nvswitch2: SXid (PCI:0000:c3:00.0): 12020, Fatal, Link 07 egress sequence")
    (found,) = simulated.look("gpu_xid")
    assert "fabric manager guide" in (found.remedy or "")
    assert "Xid catalogue" not in (found.remedy or "")


@pytest.mark.parametrize("line", [xid_line("18", "0, event clock"), "NVRM: Xid (PCI:0000:18:00): event"])
def test_zero_and_garbage_are_no_xid(simulated: SimulatedNode, line: str) -> None:
    simulated.say(line)
    assert brief(simulated.look("gpu_xid")) == {("gpu_xid.unread", "", "unknown", "WARN")}


@pytest.mark.parametrize(
    ("words", "status", "tier"),
    [
        ("None", "warn", "NOTE"),
        ("GPU Reset Required", "fail", "DRAIN_RESET"),
        ("Reset", "fail", "DRAIN_RESET"),
        ("Node Reboot Required", "fail", "DRAIN_REBOOT"),
        ("Reboot", "fail", "DRAIN_REBOOT"),
        ("Drain P2P", "fail", "DRAIN"),
        ("Drain and Reset", "fail", "DRAIN_RESET"),
        ("Replace Cooling", "unknown", "WARN"),
        ("", "unknown", "WARN"),
    ],
)
def test_what_the_driver_asks_for_is_taken_at_its_word(
    simulated: SimulatedNode, words: str, status: str, tier: str
) -> None:
    simulated.say(xid_line("db", f"154, GPU recovery action changed from 0x0 (None) to 0x9 ({words})"))
    assert brief(simulated.look("gpu_xid")) == {("gpu_xid.154", "gpu7", status, tier)}


@pytest.mark.parametrize(
    ("word", "fails"),
    [
        ("Fatal", True),
        ("Link Fatal", True),
        ("FATAL", True),
        ("Nonfatal", False),
        ("Non-Fatal", False),
        ("", False),
    ],
)
def test_nvlink_5_is_as_grave_as_its_word(simulated: SimulatedNode, word: str, fails: bool) -> None:
    rest = f"RLW_REMAP {word} XC0 i0 Link 09 (0x0804c303 0x00000000 0x00000000)"
    simulated.say(*(xid_line("5d", f"{code}, {rest}") for code in xid.NVLINK5))
    found = simulated.look("gpu_xid")
    assert [one.fault for one in found] == [f"gpu_xid.{code}" for code in xid.NVLINK5]
    assert {one.status for one in found} == {"fail" if fails else "warn"}
    assert all((one.tier in DRAIN_TIERS) == fails for one in found)


def test_lost_lines_are_a_gap_and_what_is_left_still_counts(simulated: SimulatedNode) -> None:
    simulated.say("usb 1-1: new device", xid_line("9a", "79, GPU has fallen off the bus."))
    log = simulated.root / "dev/kmsg"
    log.write_text("\n".join(log.read_text().splitlines()[-1:]) + "\n")
    assert brief(simulated.look("gpu_xid")) == {
        ("gpu_xid.coverage", "", "unknown", "WARN"),
        ("gpu_xid.79", "gpu4", "fail", "DRAIN_REBOOT"),
    }


def test_what_programs_write_neither_starves_the_look_nor_forges_a_fault(simulated: SimulatedNode) -> None:
    xid79 = xid_line("9a", "79, GPU has fallen off the bus.")
    with (simulated.root / "dev/kmsg").open("a") as log:
        log.writelines(f"30,{20 + number},99000000,-;audit: type=1400 {number}\n" for number in range(20_000))
        log.write(f"11,20020,99000000,-;{xid79.replace('9a', '18')}\n3,20021,99000001,-;{xid79}\n")
    simulated.last = 19
    assert brief(simulated.look("gpu_xid")) == {("gpu_xid.79", "gpu4", "fail", "DRAIN_REBOOT")}


def test_last_months_xid_does_not_fail_todays_job(simulated: SimulatedNode) -> None:
    simulated.say(xid_line("9a", "79, GPU has fallen off the bus."))
    assert simulated.look("gpu_xid")
    assert simulated.look("gpu_xid") == []
    assert simulated.result.status == "pass"
