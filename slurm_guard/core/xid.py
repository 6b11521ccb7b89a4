"""What the NVIDIA driver's Xid codes mean, and how grave they are.

Source: NVIDIA's Xid catalogue in our own words; the tiers are our own mapping of its recommended actions.
Codes that the catalogue lists as unused are left out: they are unknown codes here, a warning.
"""

from __future__ import annotations

#: code → (tier, class, meaning). Classes: app, software, hardware, firmware, link, config, test, info.
CATALOGUE: dict[int, tuple[str, str, str]] = {
    8: ("JOB", "software", "a channel made no progress in time"),
    11: ("JOB", "app", "a malformed command stream"),
    13: ("JOB", "app", "a graphics engine exception, mostly an access out of bounds in a kernel"),
    25: ("JOB", "app", "an illegal command stream"),
    31: ("JOB", "app", "a page fault in the GPU's memory management"),
    32: ("JOB", "software", "a DMA fault while commands were fetched"),
    37: ("NOTE", "software", "the driver's firmware met a method that it does not know"),
    38: ("NOTE", "software", "the driver's firmware watchdog"),
    39: ("JOB", "software", "a fault of copy engine 0"),
    40: ("JOB", "software", "a fault of copy engine 1"),
    41: ("JOB", "software", "a fault of copy engine 2"),
    43: ("NOTE", "app", "a channel was reset after a software fault; the GPU is well"),
    44: ("NOTE", "software", "an engine fault during a context switch"),
    45: ("NOTE", "info", "a channel was torn down: the job was killed, or another error did it"),
    46: ("DRAIN_RESET", "hardware", "the GPU stopped answering"),
    48: ("DRAIN_RESET", "hardware", "an uncorrectable memory error"),
    54: ("DRAIN_RMA", "hardware", "the auxiliary power cable is loose or missing"),
    60: ("JOB", "software", "an exception of the video or security processor"),
    62: ("DRAIN_RESET", "firmware", "the power-management controller halted"),
    63: ("WARN", "hardware", "a row remapping or page retirement was recorded"),
    64: ("DRAIN_RESET", "hardware", "a row remapping or page retirement could not be recorded"),
    66: ("NOTE", "software", "the driver touched a forbidden register"),
    67: ("NOTE", "software", "the driver broke one of its own rules"),
    68: ("JOB", "software", "an exception of video decoder 0"),
    69: ("JOB", "app", "an error of the graphics class"),
    74: ("DRAIN_RESET", "link", "an NVLink error, of this GPU or of the other end"),
    78: ("WARN", "config", "a vGPU did not start: versions differ"),
    79: ("DRAIN_REBOOT", "hardware", "the GPU fell off the bus"),
    80: ("JOB", "software", "the checksum of command data is wrong"),
    92: ("WARN", "hardware", "corrected memory errors come fast"),
    93: ("NOTE", "config", "the InfoROM was written too often"),
    94: ("JOB", "hardware", "an uncorrectable error, contained to one application; reset the GPU when idle"),
    95: ("DRAIN_RESET", "hardware", "an uncorrectable error that was not contained"),
    106: ("NOTE", "test", "an out-of-band management test"),
    107: ("NOTE", "test", "a silent out-of-band management test"),
    109: ("DRAIN_RESET", "software", "a context switch timed out"),
    110: ("DRAIN_RESET", "hardware", "a security fault"),
    119: ("DRAIN_REBOOT", "firmware", "the GPU's system processor (GSP) did not answer in time"),
    120: ("DRAIN_REBOOT", "firmware", "an error of the GPU's system processor (GSP)"),
    121: ("NOTE", "link", "corrected errors on the chip-to-chip link"),
    136: ("DRAIN_RESET", "link", "link training failed"),
    137: ("JOB", "app", "an illegal access to a peer's memory"),
    140: ("DRAIN_RESET", "hardware", "a memory error that page offlining did not catch"),
    141: ("NOTE", "software", "an error of CUDA's fast path"),
    142: ("WARN", "software", "an error of video encoder 3"),
    143: ("DRAIN_RESET", "firmware", "the GPU could not be initialised"),
    144: ("DRAIN_RESET", "link", "NVLink fault (SAW)"),
    145: ("DRAIN_RESET", "link", "NVLink fault (RLW)"),
    146: ("DRAIN_RESET", "link", "NVLink fault (TLW)"),
    147: ("DRAIN_RESET", "link", "NVLink fault (TREX)"),
    148: ("DRAIN_RESET", "link", "NVLink fault (NVLPW)"),
    149: ("DRAIN_REBOOT", "link", "NVLink fault (NETIR)"),
    150: ("DRAIN_RESET", "link", "NVLink fault (MSE)"),
    151: ("DRAIN_REBOOT", "software", "rotating the keys of confidential computing failed"),
    152: ("NOTE", "software", "a memory fault of the deep-learning accelerator"),
    153: ("NOTE", "software", "a time-out of the deep-learning accelerator"),
    154: ("DRAIN", "info", "the driver names the recovery action that is needed"),
    155: ("DRAIN_RESET", "software", "NVLink was taken down by software"),
    156: ("DRAIN_RESET", "hardware", "a part of the chip was retired"),
    157: ("WARN", "hardware", "a part of the chip could not be retired: no spare is left"),
    158: ("DRAIN_RESET", "firmware", "a fatal time-out of the GPU"),
    159: ("WARN", "hardware", "an error on the coherent link of a chip-to-chip part"),
    160: ("NOTE", "hardware", "a memory channel was retired"),
    161: ("WARN", "hardware", "a memory channel could not be retired"),
    162: ("NOTE", "info", "power smoothing is engaged again"),
    163: ("NOTE", "info", "power smoothing was disengaged by heat or a time-out"),
    164: ("WARN", "hardware", "the power-smoothing hardware is nearly worn out"),
    165: ("WARN", "hardware", "the power-smoothing hardware is worn out"),
    166: ("WARN", "software", "encrypted NVLink traffic before its set-up"),
    167: ("DRAIN_REBOOT", "hardware", "a fatal PCIe time-out"),
    168: ("DRAIN_REBOOT", "config", "less memory because of errors in a protected region: switch ECC on"),
    169: ("DRAIN_RESET", "firmware", "the security processor halted"),
    170: ("WARN", "software", "a secure NVLink interrupt in confidential computing"),
    171: ("NOTE", "hardware", "detail of an Xid 48: device memory"),
    172: ("NOTE", "hardware", "detail of an Xid 48: on-chip memory"),
}
_COPY_ENGINES = (70, 71, 72, 75, 76, 77, 85, *range(126, 136))
_VIDEO_ENGINES = (82, 83, 84, 86, 88, 89, *range(96, 106), 139)
CATALOGUE.update((code, ("JOB", "software", "a fault of a copy engine")) for code in _COPY_ENGINES)
CATALOGUE.update((code, ("JOB", "software", "an error of a video engine")) for code in _VIDEO_ENGINES)

#: NVLink 5 faults, whose severity stands in the line as a word.
NVLINK5 = range(144, 151)
#: After these the GPU is of no use to a job until a reset or reboot: a prolog may refuse the job.
UNUSABLE = frozenset({46, 48, 62, 79, 95, 119, 120, 140, 143, 158, 167, 169})

#: Xid 154: the driver's words for what is needed, long and short → tier.
RECOVERY = {
    "none": "NOTE",
    "reset": "DRAIN_RESET",
    "gpu reset required": "DRAIN_RESET",
    "reboot": "DRAIN_REBOOT",
    "node reboot required": "DRAIN_REBOOT",
    "drain p2p": "DRAIN",
    "drain and reset": "DRAIN_RESET",
}

#: Tier → what to do next.
REMEDIES = {
    "NOTE": "Nothing to do.",
    "WARN": "Watch the GPU; `sguard node NODE` shows whether it comes back.",
    "JOB": "An application's fault in most cases: look at the job's own output.",
    "DRAIN": "Drain the node, then run `dcgmi diag -r 3`.",
    "DRAIN_RESET": "Reset the GPU when idle (`nvidia-smi --gpu-reset -i GPU`); on repeat open an RMA.",
    "DRAIN_REBOOT": "Reboot the node (a cold power cycle if it comes back); on repeat open an RMA.",
    "DRAIN_RMA": "Check power cables and seating, then open an RMA.",
}
#: For codes that their tier alone would mislead about.
_OWN_REMEDIES = {
    78: "Install the same version of the vGPU software on host and guest.",
    94: "Reset the GPU when idle; the job may run again meanwhile. `gpu_remap` tells whether a repair waits.",
}
UNKNOWN_TEXT = "not in this version's catalogue"


def tier(code: int) -> str:
    """The tier of a code by itself; an unknown code is a warning, never fatal."""
    return CATALOGUE[code][0] if code in CATALOGUE else "WARN"


def remedy(code: int, tier: str) -> str:
    """What to do next about a code of this tier."""
    return _OWN_REMEDIES.get(code) or REMEDIES[tier]


def is_recovery(words: str) -> bool:
    """True if the driver's words name a recovery action that is known here."""
    return words.lower() in RECOVERY


def recovery(words: str) -> str:
    """The tier of the recovery action in an Xid 154; unknown words are a warning."""
    return RECOVERY.get(words.lower(), "WARN")


def meaning(code: int) -> str:
    """What a code means, in a few words."""
    return CATALOGUE[code][2] if code in CATALOGUE else UNKNOWN_TEXT
