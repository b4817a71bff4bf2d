"""The optimisation passes, one file each, and how to write another."""

from fxopt_core.graphs.editor import GraphEditor, Rewrite
from fxopt_core.graphs.legality import LEGALITY, disabled, legality
from fxopt_core.passes import (  # noqa: F401  importing registers them
    algebraic_simplification,
    attention_fusion,
    common_subexpressions,
    constant_folding,
    conv_batchnorm_folding,
    dead_code,
    linear_activation_fusion,
    recomputation,
    redundant_layout,
)
from fxopt_core.passes.base import Analysis, Opportunity, OptimizationPass, PassError, PassResult, Refusal
from fxopt_core.passes.registry import PRESETS, choose_passes, make_pass, pass_names, register_pass, run_pass
from fxopt_core.verification import EXACT, Tolerance

__all__ = [
    "EXACT",
    "LEGALITY",
    "PRESETS",
    "Analysis",
    "GraphEditor",
    "Opportunity",
    "OptimizationPass",
    "PassError",
    "PassResult",
    "Refusal",
    "Rewrite",
    "Tolerance",
    "choose_passes",
    "disabled",
    "legality",
    "make_pass",
    "pass_names",
    "register_pass",
    "run_pass",
]
