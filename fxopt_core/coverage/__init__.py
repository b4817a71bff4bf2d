"""What share of the models of transformers each method of capture turns into a graph that is right."""

from fxopt_core.coverage.methods import METHODS, Recording
from fxopt_core.coverage.rows import RESULTS_FILE, VERDICTS, Row
from fxopt_core.coverage.running import run_coverage
from fxopt_core.coverage.types import model_types

__all__ = ["METHODS", "RESULTS_FILE", "VERDICTS", "Recording", "Row", "model_types", "run_coverage"]
"""Names for the command and for notebooks; what one process does is in `worker`."""
