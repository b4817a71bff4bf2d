"""Less memory in training for more time: what forward saved is computed again in backward, within a budget."""

from fxopt_core.passes.recomputation.checkpointing import recompute_segments
from fxopt_core.passes.recomputation.joint_graph import JointPoint, partition, recomputation_backend
from fxopt_core.passes.recomputation.module_level import (
    ParetoPoint,
    RecomputationPlanner,
    RecomputationResult,
    recompute,
)
from fxopt_core.passes.recomputation.training_step import BudgetError

__all__ = [
    "BudgetError",
    "JointPoint",
    "ParetoPoint",
    "RecomputationPlanner",
    "RecomputationResult",
    "partition",
    "recomputation_backend",
    "recompute",
    "recompute_segments",
]
