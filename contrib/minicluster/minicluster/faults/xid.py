"""gpu_xid.CODE, gpu_xid.KIND: what the driver writes to the kernel log, in its own grammar."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minicluster.faults.registry import Fault, Lines, Values, gpu_of, register, register_family
from minicluster.machine.kmsg import ERROR, WARNING, Line

if TYPE_CHECKING:
    from minicluster.machine.model import Gpu, Machine

# Text after "pid=..., name=...,". {placeholders} are settings or the GPU's own values.
TEXTS = {
    13: "Graphics SM Warp Exception on (GPC 2, TPC 1, SM 0): Out Of Range Address",
    31: "Ch 0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC3 GPCCLIENT_T1_4 faulted @ "
    "0x7f31_4a600000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
    43: "Ch 00000012",
    45: "Ch 00000012",
    48: "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at partition 5, "
    "subpartition 1.",
    63: "Row Remapper: New row (0x00000000{row}) marked for remapping, reset gpu to activate.",
    64: "Row Remapper Error: (0x00000000{row}) - All reserved rows for bank are remapped",
    74: "NVLink: fatal error detected on link 7(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)",
    79: "GPU has fallen off the bus.",
    94: "Contained: CE User Channel (0x9). RST: No, D-RST: No",
    95: "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    119: "Timeout after 6s of waiting for RPC response from GPU{index} GSP! Expected function 76 "
    "(GSP_RM_CONTROL) (0x20802a02 0x8).",
    120: "GSP task exception: 13 @ pc:0x1b2f48a, task: 1",
    154: "GPU recovery action changed from 0x0 (None) to {action}",
}
SUMMARIES = {
    13: "graphics engine exception (application)",
    31: "MMU page fault (application)",
    43: "channel reset after a software fault",
    45: "channel torn down early",
    48: "uncorrectable double-bit ECC error",
    63: "row remapping recorded",
    64: "row remapping could not be recorded",
    74: "NVLink error",
    79: "GPU fell off the bus (the kernel's lines only; see gpu_count.lost)",
    94: "contained uncorrectable error",
    95: "uncontained uncorrectable error",
    119: "GSP did not answer in time",
    120: "GSP firmware error",
    154: "the driver asks for a recovery action",
}
ACTIONS = {
    "reset": "0x1 (GPU Reset Required)",
    "reboot": "0x2 (Node Reboot Required)",
    "drain_p2p": "0x3 (Drain P2P)",
    "drain_and_reset": "0x4 (Drain and Reset)",
}
# Lines without a code, by kind.
DRIVER_TEXTS = {
    "init_failed": "NVRM: GPU {address}: RmInitAdapter failed! (0x26:0x56:1463)",
    "inforom": "WARNING: infoROM is corrupted at gpu {address}",
    "rx_detect": "NVRM: knvlinkDiscoverPostRxDetLinks_GH100: Failed to update Rx Detect Link mask!",
}
UNKNOWN = "<unknown>"
WITHOUT_PROCESS = {79, 154}  # lines about the GPU as a whole name no process


def xid_line(
    gpu: Gpu, code: int, pid: str = "", name: str = "", text: str = "", action: str = "reset"
) -> Line:
    """The line that the driver writes for this code."""
    rest = text or TEXTS.get(code, "Ch 00000008").format(
        index=gpu.index, row=f"{0x40_0000 + gpu.index:08x}", action=ACTIONS.get(action, action)
    )
    process = f"pid={pid or repr(UNKNOWN)}, name={name or UNKNOWN}"
    middle = "" if code == 154 else f"{process}, "
    return Line(f"NVRM: Xid (PCI:{gpu.address[:-2]}): {code}, {middle}{rest}", WARNING)


def lost_lines(gpu: Gpu) -> list[Line]:
    """What the kernel says when a GPU no longer answers on the bus."""
    return [
        Line(f"NVRM: GPU at PCI:{gpu.address[:-2]}: {gpu.uuid}", WARNING),
        Line(f"NVRM: GPU Board Serial Number: {gpu.serial}", WARNING),
        xid_line(gpu, 79),
        Line(f"NVRM: GPU {gpu.address}: GPU has fallen off the bus.", ERROR),
    ]


def _lines(code: int) -> Lines:
    def lines(machine: Machine, device: str, values: Values) -> list[Line]:
        gpu = gpu_of(machine, device)
        if code == 79:
            return lost_lines(gpu)
        return [xid_line(gpu, code, values["pid"], values["name"], values["text"], values["action"])]

    return lines


def _driver_lines(kind: str) -> Lines:
    def lines(machine: Machine, device: str, values: Values) -> list[Line]:
        address = gpu_of(machine, device).address if device else ""
        return [Line(DRIVER_TEXTS[kind].format(address=address), WARNING)]

    return lines


def make(code: str) -> Fault | None:
    """The fault of an Xid code; None if it isn't one."""
    if not code.isascii() or not code.isdigit() or not 0 < int(code) < 1000:
        return None
    number = int(code)
    known_process = number not in WITHOUT_PROCESS
    return Fault(
        name=f"gpu_xid.{number}",
        device="gpu",
        summary=f"Xid {number}: {SUMMARIES.get(number, 'a line with this code')}",
        defaults={
            "pid": "20417" if known_process else "",
            "name": "python3" if known_process else "",
            "text": "",
            "action": "reset",
        },
        lines=_lines(number),
    )


for known in TEXTS:
    fault = make(str(known))
    assert fault is not None
    register(fault)
for kind, text in DRIVER_TEXTS.items():
    of_gpu = "gpu" if "{address}" in text else ""
    register(Fault(f"gpu_xid.{kind}", of_gpu, f"line: {text[:60]}...", {}, lines=_driver_lines(kind)))
register_family("gpu_xid", make)
