"""Whether two functions do the same, in everything that can be observed."""

from fxopt_core.verification.bisection import bisect_rewrites
from fxopt_core.verification.comparison import EXACT, Tolerance, rounding
from fxopt_core.verification.equivalence import Difference, Equivalence, Gradients, check_equivalence
from fxopt_core.verification.state import same_state

__all__ = [
    "EXACT",
    "Difference",
    "Equivalence",
    "Gradients",
    "Tolerance",
    "bisect_rewrites",
    "check_equivalence",
    "rounding",
    "same_state",
]
