"""What one simulated machine consists of. Faults change a model; rendering turns it into files.

A healthy model follows from the node's name, the cluster's seed and the boot: nothing here is random.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass, field

GPU_BUSES = (0x18, 0x2A, 0x3B, 0x5D, 0x9A, 0xAB, 0xBA, 0xDB)
HCA_BUSES = (0x17, 0x29, 0x3A, 0x5C, 0x99, 0xAA, 0xB9, 0xDA)
SWITCH_BUSES = (0x05, 0x06, 0x07, 0x08)
CPUS = 64
MEMORY_KIB = 2_113_388_544  # what the kernel reports of 2 TiB
DIMM_KIB = 64 * 1024 * 1024


@dataclass
class Gpu:
    """One GPU. `nvml` overrides keys of the NVML double's [gpu] section."""

    index: int  # stays the same when another GPU vanishes; what the driver counts is another matter
    uuid: str
    serial: str
    bus: int
    nvml: dict[str, str] = field(default_factory=dict)
    mig: list[str] = field(default_factory=list)  # UUIDs of its MIG devices
    present: bool = True  # False: neither the PCI bus nor the driver knows it
    answers: bool = True  # False: PCI config space reads as ones
    link_width: int = 16
    link_speed: str = "32.0 GT/s PCIe"

    @property
    def name(self) -> str:
        """`gpuN`, as in the product's findings."""
        return f"gpu{self.index}"

    @property
    def address(self) -> str:
        """PCI address as the kernel writes it."""
        return f"0000:{self.bus:02x}:00.0"


@dataclass
class Hca:
    """One InfiniBand adapter with one port."""

    index: int
    guid: str
    bus: int
    present: bool = True
    state: str = "4: ACTIVE"
    phys_state: str = "5: LinkUp"
    rate: str = "400 Gb/sec (4X NDR)"
    link_layer: str = "InfiniBand"
    link_width: int = 16
    counters: dict[str, int] = field(default_factory=dict)  # added to the healthy values, both folders

    @property
    def name(self) -> str:
        """The kernel's name."""
        return f"mlx5_{self.index}"

    @property
    def port(self) -> str:
        """Its only port, `mlx5_N/1`."""
        return f"{self.name}/1"

    @property
    def address(self) -> str:
        """PCI address as the kernel writes it."""
        return f"0000:{self.bus:02x}:00.0"


@dataclass
class Mount:
    """A mount that /proc/self/mountinfo declares; the real one below it is a small tmpfs."""

    path: str
    type: str
    source: str
    options: str  # of the mount
    super_options: str  # of the file system
    present: bool = True
    trouble: str = ""  # "hang", or the name of an error that every access fails with
    read_only: bool = False
    fill: str = ""  # "", "space" or "inodes"
    fill_percent: int = 99


@dataclass
class Process:
    """A process as /proc shows it."""

    pid: int
    name: str
    uid: int


@dataclass
class Machine:
    """Everything that the node's folder shows."""

    node: str
    serial: str
    machine_uuid: str
    boot_id: str
    boot_time: float  # seconds since the epoch
    gpus: list[Gpu]
    hcas: list[Hca]
    mounts: list[Mount]
    nvml: dict[str, str] = field(default_factory=dict)  # overrides of the NVML double's [system] section
    driver_loaded: bool = True
    driver_version: str = "550.127.08"
    library_version: str = "550.127.08"
    memory_kib: int = MEMORY_KIB
    processes: list[Process] = field(default_factory=list)


def healthy(node: str, seed: str, boot_id: str, boot_time: float) -> Machine:
    """A machine without a fault."""
    return Machine(
        node=node,
        serial=f"MC{_digits(seed, node, 'serial', 8)}",
        machine_uuid=_uuid(seed, node, "machine"),
        boot_id=boot_id,
        boot_time=boot_time,
        gpus=[_gpu(node, seed, index) for index in range(len(GPU_BUSES))],
        hcas=[_hca(node, seed, index) for index in range(len(HCA_BUSES))],
        mounts=default_mounts(),
    )


def default_mounts() -> list[Mount]:
    """Parallel file system, home directories, node-local disk."""
    return [
        Mount(
            "/scratch",
            "lustre",
            "10.12.0.11@o2ib:10.12.0.12@o2ib:/scratch",
            "rw,nosuid,nodev,noatime",
            "rw,checksum,flock,user_xattr,lazystatfs",
        ),
        Mount(
            "/home",
            "nfs4",
            "nfs1.cluster:/export/home",
            "rw,nosuid,nodev,relatime",
            "rw,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,timeo=600,retrans=2,sec=sys",
        ),
        Mount(
            "/local",
            "xfs",
            "/dev/nvme0n1p1",
            "rw,nosuid,nodev,relatime",
            "rw,attr2,inode64,logbufs=8,logbsize=32k,noquota",
        ),
    ]


def _gpu(node: str, seed: str, index: int) -> Gpu:
    return Gpu(
        index=index,
        uuid=f"GPU-{_uuid(seed, node, f'gpu{index}')}",
        serial=f"16{_digits(seed, node, f'gpu{index}', 11)}",
        bus=GPU_BUSES[index],
    )


def _hca(node: str, seed: str, index: int) -> Hca:
    raw = hashlib.sha256(f"{seed}/{node}/hca{index}".encode()).hexdigest()
    guid = f"a088:c203:00{raw[:2]}:{raw[2:6]}"
    return Hca(index=index, guid=guid, bus=HCA_BUSES[index])


def _uuid(seed: str, node: str, what: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{seed}/{node}/{what}"))


def _digits(seed: str, node: str, what: str, count: int) -> str:
    number = int(hashlib.sha256(f"{seed}/{node}/{what}".encode()).hexdigest(), 16)
    return str(number)[-count:]
