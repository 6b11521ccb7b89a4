"""A real Slurm on one host, with simulated hardware under every node."""

from __future__ import annotations

from minicluster.cluster import Cluster
from minicluster.errors import MiniclusterError
from minicluster.node import Node

__all__ = ["Cluster", "MiniclusterError", "Node"]
