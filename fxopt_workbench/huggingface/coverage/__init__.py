"""What share of the models of transformers each method of capture turns into a graph that is right."""

from fxopt_workbench.huggingface.coverage.methods import METHODS, Recording
from fxopt_workbench.huggingface.coverage.rows import RESULTS_FILE, VERDICTS, Row
from fxopt_workbench.huggingface.coverage.running import run_coverage
from fxopt_workbench.huggingface.coverage.types import model_types

__all__ = ["METHODS", "RESULTS_FILE", "VERDICTS", "Recording", "Row", "model_types", "run_coverage"]
"""Names for the command and for notebooks; what one process does is in `worker`."""
