"""The faults that a simulated machine can have, named like the product's: `check.code`."""

from __future__ import annotations

from minicluster.faults import gpu, gpu_memory, host, infiniband, kernel_log, nvml, storage, xid
from minicluster.faults.registry import Fault, all_faults, find

MODULES = (gpu, gpu_memory, host, infiniband, kernel_log, nvml, storage, xid)  # each registers its own

__all__ = ["MODULES", "Fault", "all_faults", "find"]
