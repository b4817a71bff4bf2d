"""The optimiser: capture, passes, verification and report in one."""

from fxopt_core.optimizer.graph_optimizer import GraphOptimizer, OptimizationResult
from fxopt_core.optimizer.pipeline import PassFailure, PipelineResult, run_passes
from fxopt_core.optimizer.report import OptimizationReport, OptimizedGraph
from fxopt_core.optimizer.verified_passes import VerificationError

__all__ = [
    "GraphOptimizer",
    "OptimizationReport",
    "OptimizationResult",
    "OptimizedGraph",
    "PassFailure",
    "PipelineResult",
    "VerificationError",
    "run_passes",
]
