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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex03-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 3: model export
#
# Get the graph out of a model, know what it lost on the way, and make it run elsewhere. The core takes about two
# hours; tasks marked *stretch* go beyond it. Each task has a cell for your code and a check below it that answers at
# once. A check tries visible cases only; `submit` at the end also tries hidden ones.
#
# Write your own code: the tools of `fxopt_core` that would answer a task are out of reach while grading.

# %% nbgrader={"grade": false, "grade_id": "ex03-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import inspect
import warnings

import torch
from torch import nn

from autograder import check
from autograder.submit_cell import submit

warnings.filterwarnings("ignore", category=DeprecationWarning)  # TorchScript says at each use that its time is over

# %% [markdown] nbgrader={"grade": false, "grade_id": "silent_mistake-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. Find the input on which a trace is silently wrong
#
# *15 minutes, easy.* `torch.jit.trace` records what happened on one example. Where the model would have done something
# else on other inputs, the trace goes on doing what it saw, and nobody is told.
#
# Write `find_silent_mistake(model, traced, example)`. It returns an input on which `traced` answers, but not what
# `model` answers; or `None` when it finds none. An input is fair when it is a finite `float32` tensor of shape
# `(batch, length, width)` with the width of the example, at least one row and one step, and no value beyond ±1000.
# Differences of rounding (1e-4) do not count, and neither does an error: that is at least not silent.
#
# The models are below. One of them is traced faithfully: for that one, `None` is the right answer.
#
# <details><summary>Hint 1: a question</summary>For each model: what did the tracer see as a plain Python number or decision? Which inputs would have changed it?</details>
# <details><summary>Hint 2: the idea</summary>Values of several magnitudes and both signs, and other lengths. Try candidates until one gives two different answers.</details>
# <details><summary>Hint 3: the shape</summary>A loop over lengths, magnitudes and signs; <code>try: found = traced(x)</code>, <code>except RuntimeError: continue</code>; <code>torch.allclose</code>; <code>return None</code> at the end.</details>

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "silent_mistake-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder.exercises.day3.silent_mistake import visible as traced_models

for model_class in (traced_models.Threshold, traced_models.Recurrent, traced_models.Halving, traced_models.Faithful):
    print(inspect.getsource(model_class))


# %% nbgrader={"grade": false, "grade_id": "silent_mistake-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def find_silent_mistake(model: nn.Module, traced, example: torch.Tensor) -> torch.Tensor | None:
    """An input (batch, length, width) that `traced` answers otherwise than `model`; `None` when none was found."""
    ### BEGIN SOLUTION
    batch, length, width = example.shape
    for steps in (length, 2 * length):
        for magnitude in (0.1, 1.0, 10.0, 100.0, 900.0):
            for sign in (1.0, -1.0):
                x = sign * magnitude * (0.5 + 0.5 * torch.rand(batch, steps, width))
                try:
                    found = traced(x)
                except RuntimeError:
                    continue
                if not torch.allclose(found, model(x), rtol=1e-3, atol=1e-3):
                    return x
    return None
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "silent_mistake", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day3.silent_mistake(find_silent_mistake)

# %% [markdown] nbgrader={"grade": false, "grade_id": "exportable_control_flow-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. Make control flow on data exportable
#
# *25 minutes, medium.* `torch.export` refuses a Python `if` on a tensor's value, and a `range` whose length is in a
# tensor: at the time of export there is no value. `GivenModel` (printed below) has both.
#
# Write the `forward` of `ExportableModel` so that
#
# 1. `torch.export.export` accepts it, with a batch that may vary;
# 2. the exported graph computes what `GivenModel` computes: on both sides of the branch, for every number of steps from
#    0 to `self.most_steps`, for every batch size;
# 3. called directly it computes the same.
#
# <details><summary>Hint 1: a question</summary>Both sides of the branch can be computed. What must not happen to the side that was not wanted, when it is <code>nan</code>?</details>
# <details><summary>Hint 2: the idea</summary>A branch is a choice between two tensors, by <code>torch.where</code> or <code>torch.cond</code>. A loop of unknown length is a loop of the greatest length in which late steps change nothing.</details>
# <details><summary>Hint 3: the shape</summary><code>torch.where(level &gt; 0, one, other)</code>; <code>for i in range(self.most_steps): hidden = torch.where(i &lt; steps, refined, hidden)</code>.</details>

# %% nbgrader={"grade": false, "grade_id": "exportable_control_flow-model", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder.exercises.day3.exportable_control_flow.visible import GivenModel

print(inspect.getsource(GivenModel))

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "exportable_control_flow-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
import logging

torch._logging.set_logs(all=logging.CRITICAL)  # the error says it all; the log would say it twice
try:
    torch.export.export(GivenModel(4, 6, 3).eval(), (torch.ones(2, 4), torch.tensor(2)))
except Exception as error:
    print(type(error).__name__)
    print(str(error).splitlines()[0])


# %% nbgrader={"grade": false, "grade_id": "exportable_control_flow-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class ExportableModel(GivenModel):
    """Computes what `GivenModel` computes, in a form that `torch.export` accepts. The constructor is inherited."""

    def forward(self, x: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
        """(batch, width) and () to (batch, hidden)."""
        ### BEGIN SOLUTION
        hidden = self.first(x)
        level = hidden.mean()
        hidden = torch.where(level > 0, hidden / level.sqrt(), torch.tanh(hidden))
        for i in range(self.most_steps):
            hidden = torch.where(i < steps, hidden + torch.sin(self.refine(hidden)), hidden)
        return hidden
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "exportable_control_flow", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day3.exportable_control_flow(ExportableModel)

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex03-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and
# where the feedback page lies.

# %%
# submit("ex_03")
