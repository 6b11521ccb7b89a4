"""The faults that a simulated machine can have, named like the product's: `check.code`."""

from __future__ import annotations

from minicluster.faults import gpu, host, infiniband, nvml, storage, xid
from minicluster.faults.registry import Fault, all_faults, find

__all__ = ["Fault", "all_faults", "find", "gpu", "host", "infiniband", "nvml", "storage", "xid"]
