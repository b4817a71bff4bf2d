"""Whether two functions do the same, in everything that can be observed."""

from fxopt_core.verification.bisection import bisect_rewrites
from fxopt_core.verification.equivalence import Difference, Equivalence, Gradients, check_equivalence
from fxopt_core.verification.observation import same_state
from fxopt_core.verification.tolerance import EXACT, ROUNDING, Tolerance

__all__ = [
    "EXACT",
    "ROUNDING",
    "Difference",
    "Equivalence",
    "Gradients",
    "Tolerance",
    "bisect_rewrites",
    "check_equivalence",
    "same_state",
]
