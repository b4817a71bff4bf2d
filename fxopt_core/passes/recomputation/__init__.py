"""Less memory in training for more time: what forward saved is computed again in backward, within a budget."""

from fxopt_core.passes.recomputation.recomputing import BudgetError, Peaks, Recomputation
from fxopt_core.passes.recomputation.region import RecomputedRegion

__all__ = ["BudgetError", "Peaks", "Recomputation", "RecomputedRegion"]
