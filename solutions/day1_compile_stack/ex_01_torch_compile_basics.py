# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex01-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 1: `torch.compile` basics
#
# Six small tasks, about two hours. Each has a cell for your code and a check below it that answers at once.
# A check tries visible cases only; `submit` at the end also tries hidden ones.
#
# Write your own code: the tools of `fxopt_core` that would answer a task are out of reach while grading.

# %% nbgrader={"grade": false, "grade_id": "ex01-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch import nn

from autograder import check
from autograder.submit_cell import submit

# %% [markdown] nbgrader={"grade": false, "grade_id": "record_graphs-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. Record every captured graph
#
# *10 minutes, easy.* A **backend** is any callable that Dynamo hands a captured graph and example inputs, and
# that returns a callable to run in its place:
#
# ```python
# compiled = torch.compile(model, backend=my_backend)   # my_backend(graph_module, example_inputs) -> callable
# ```
#
# Write `GraphRecorder`, a backend that changes nothing but keeps each `torch.fx.GraphModule` that it is handed, in
# order, in its attribute `graphs`.
#
# <details><summary>Hint 1: a question</summary>How often is a backend called for a model with one graph break?</details>
# <details><summary>Hint 2: the idea</summary>An instance with a <code>__call__</code> method is a callable that can remember.</details>
# <details><summary>Hint 3: the shape</summary>Append in <code>__call__</code>; return <code>graph_module.forward</code>.</details>

# %% nbgrader={"grade": false, "grade_id": "record_graphs-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GraphRecorder:
    """A Dynamo backend that keeps every graph it is handed, in the order of capture, in `graphs`."""

    def __init__(self):
        ### BEGIN SOLUTION
        self.graphs = []
        ### END SOLUTION

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]):
        """Record `graph_module` and return a callable that computes the same."""
        ### BEGIN SOLUTION
        self.graphs.append(graph_module)
        return graph_module.forward
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "record_graphs", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day1.record_graphs(GraphRecorder)

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex01-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and
# where the feedback page lies.

# %%
# submit("ex_01")
