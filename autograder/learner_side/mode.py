"""Whether this process runs a learner's cells for a grade. Imports no torch."""

from __future__ import annotations

import os

GRADING_VARIABLE = "FXOPT_GRADING"
"""Set while grading: checks and submissions inside the learner's cells then do nothing."""


def is_grading() -> bool:
    """Whether this process runs a learner's cells for a grade."""
    return GRADING_VARIABLE in os.environ
