"""What a graph or a call costs."""

from fxopt_core.analysis.allocations import AllocationRecord, Block, mark, record_allocations

__all__ = ["AllocationRecord", "Block", "mark", "record_allocations"]
