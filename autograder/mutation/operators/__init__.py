"""What a program changes in a right answer to make it wrong, one file for each part of the language.

They are written on libcst, which keeps the text of everything that is not changed, so that a mutant reads like an edit.
mutmut and cosmic-ray were weighed: both are programs that rewrite a package and start its tests anew for each mutant,
where a mutant here is one cell that goes through a grader which is warm already, and neither offers its operators to
others as a library. Besides, most of what issue and learners ask for (operands, elements, keywords, branches,
recursion, `break` for `continue`, look-alike names of `torch.fx`) is in neither. Imports no torch.
"""

from autograder.mutation.operators import calls, conditions, statements, values
from autograder.mutation.operators.base import OPERATORS, Change, Place, Source

__all__ = ["OPERATORS", "Change", "Place", "Source", "calls", "conditions", "statements", "values"]
