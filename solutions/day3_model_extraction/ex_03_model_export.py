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
# You get the graph out of a model, find out what got lost on the way, and run it somewhere else. Seven tasks, about two
# hours. Below the cell for your code there's a check that answers at once. It tries the visible cases; `submit` at the end
# tries hidden ones, too.
#
# Write your own code: while grading, the tools of `fxopt_core` that would answer a task are out of reach.

# %% nbgrader={"grade": false, "grade_id": "ex03-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import inspect
import logging
import warnings

import torch
from torch import nn
from torch.export import Dim, ExportedProgram, export

from autograder import check, submit

# TorchScript says at each use that its time is over, the tracer has doubts, the exporter logs what its errors say too.
for category in (DeprecationWarning, FutureWarning, torch.jit.TracerWarning):
    warnings.filterwarnings("ignore", category=category)
torch._logging.set_logs(all=logging.CRITICAL)

# %% [markdown] nbgrader={"grade": false, "grade_id": "read_signature-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. Read a signature
#
# *5 minutes, easy.* In an exported graph, weights are inputs like any other. `program.graph_signature` tells you which input
# is what. Write `read_signature(program)`. It returns a dictionary of four lists, in any order:
#
# - `parameters` and `buffers`: under the names that they have in the *model* (`layers.0.weight`);
# - `inputs`: what the user hands in (here always tensors), under the names that the graph gives them;
# - `unused`: those of all these that no node of the graph reads. The output is a node, too, and reads what it returns.
#
# A tensor that the model holds as a plain attribute is a constant. It belongs in none of the lists.
# Leave the program as it is.
#
# The cell below shows the signature of a small program.
#
# <details><summary>Hint 1: a question</summary>What do <code>item.kind</code>, <code>item.target</code> and <code>item.arg.name</code> say about each input?</details>
# <details><summary>Hint 2: the idea</summary>The signature has ready-made lists: <code>parameters</code>, <code>buffers</code>, <code>user_inputs</code>. A placeholder that nobody reads has no <code>users</code>.</details>
# <details><summary>Hint 3: the shape</summary>A dictionary from <code>item.arg.name</code> to the name that you want, over all of <code>signature.input_specs</code>. Then look up the placeholders without users in it. Which of them are constants?</details>


# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "read_signature-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.left_over = nn.Linear(3, 2), nn.Linear(3, 2)
        self.register_buffer("scale", torch.ones(2))

    def forward(self, x):
        return self.layer(x) * self.scale


scaled = torch.export.export(Scaled(), (torch.ones(4, 3),))
for item in scaled.graph_signature.input_specs:
    print(f"kind {item.kind.name:11} arg.name {item.arg.name:19} target {item.target}")


# %% nbgrader={"grade": false, "grade_id": "read_signature-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def read_signature(program: ExportedProgram) -> dict[str, list[str]]:
    """The inputs of an exported program by kind, and those that no node reads."""
    ### BEGIN SOLUTION
    signature = program.graph_signature
    listed = [item for item in signature.input_specs if item.kind.name != "CONSTANT_TENSOR"]
    names = {item.arg.name: item.target or item.arg.name for item in listed}
    unread = [node for node in program.graph.nodes if node.name in names and not node.users]
    return {
        "parameters": list(signature.parameters),
        "buffers": list(signature.buffers),
        "inputs": list(signature.user_inputs),
        "unused": [names[node.name] for node in unread],
    }
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "read_signature", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day3.read_signature(read_signature)

# %% [markdown] nbgrader={"grade": false, "grade_id": "capture_outcomes-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. Predict, then measure: which method captures which model?
#
# *20 minutes, easy.* There are five methods, and four things that can come of them:
#
# | word | meaning |
# | --- | --- |
# | `whole` | one graph; whatever it answers is right (it may refuse other inputs with an error) |
# | `pieces` | several graphs with Python between them |
# | `wrong` | one graph that answers some other inputs wrongly, silently |
# | `refused` | capturing raises an error |
#
# 1. Before you measure anything, write `predictions()`: a dictionary from each of the models `plain`, `branch`, `loop`
#    (printed below) to a dictionary from each method to a word. It doesn't have to be right; the check shows it beside what
#    you measure.
# 2. Write `measure_capture(method, model, example, others)`. It captures `model` with `example` by the named method
#    (`symbolic_trace`, `trace`, `script`, `export`, `dynamo`), compares with the model on all of `others`, and returns a
#    word. An answer of another shape is wrong. `nan` where the model gives `nan` is right. Of `dynamo`, only the graphs of
#    the first call count.
#
# <details><summary>Hint 1: a question</summary>On which inputs can a recording be wrong? And which method can give you pieces?</details>
# <details><summary>Hint 2: the idea</summary>Put one <code>try</code> around capturing, and another around each call of what you captured. A backend counts the pieces during the first call.</details>
# <details><summary>Hint 3: the shape</summary><code>torch.fx.symbolic_trace(model)</code>, <code>torch.jit.trace(model, example)</code>, <code>torch.jit.script(model)</code>, <code>torch.export.export(model, (example,)).module()</code>, <code>torch.compile(model, backend=counting)</code>.</details>

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "capture_outcomes-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder.exercises.day3.capture_outcomes.visible import Branch, Loop, Plain

for model_class in (Plain, Branch, Loop):
    print(inspect.getsource(model_class))


# %% nbgrader={"grade": false, "grade_id": "capture_outcomes-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def predictions() -> dict[str, dict[str, str]]:
    """For each model what you expect each method to come to."""
    ### BEGIN SOLUTION
    methods = ("symbolic_trace", "trace", "script", "export", "dynamo")
    words = {
        "plain": ("whole", "whole", "whole", "whole", "whole"),
        "branch": ("refused", "wrong", "whole", "refused", "pieces"),
        "loop": ("refused", "wrong", "whole", "whole", "whole"),
    }
    return {model: dict(zip(methods, line, strict=True)) for model, line in words.items()}
    ### END SOLUTION


def measure_capture(method: str, model: nn.Module, example: torch.Tensor, others: list[torch.Tensor]) -> str:
    """One of the words whole, pieces, wrong, refused."""
    ### BEGIN SOLUTION
    graphs = 0

    def counting(graph_module, example_inputs):
        nonlocal graphs
        graphs += 1
        return graph_module.forward

    try:
        if method == "dynamo":
            torch._dynamo.reset()
            torch.compile(model, backend=counting)(example)
            return "whole" if graphs == 1 else "pieces"
        if method == "symbolic_trace":
            captured = torch.fx.symbolic_trace(model)
        elif method == "trace":
            captured = torch.jit.trace(model, (example,))
        elif method == "script":
            captured = torch.jit.script(model)
        else:
            captured = torch.export.export(model, (example,)).module()
    except Exception:
        return "refused"
    for x in others:
        try:
            answer = captured(x)
        except Exception:
            continue  # a refusal of this input is honest
        wanted = model(x)
        if answer.shape != wanted.shape or not torch.allclose(answer, wanted, rtol=1e-4, atol=1e-5, equal_nan=True):
            return "wrong"
    return "whole"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "capture_outcomes", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day3.capture_outcomes(predictions, measure_capture)

# %% [markdown] nbgrader={"grade": false, "grade_id": "silent_mistake-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. Find the input on which a trace is silently wrong
#
# *10 minutes, easy.* `torch.jit.trace` silently repeats on other inputs what happened on one example.
#
# Write `find_silent_mistake(model, traced, example)`. It returns an input on which `traced` gives an answer, but not the
# model's; or `None` if it finds no such input. A fair input is a finite `float32` tensor of shape `(batch, length, width)`
# with the width of the example, at least one row and one step, and values from -1000 to 1000. Rounding (1e-4) is no mistake.
# An error is none either: at least it's loud. An answer of another shape is wrong. `nan` where the model gives `nan` is
# right.
#
# The models are below. On three of them the trace is never silently wrong: it's faithful, perhaps up to rounding, or
# raises an error at every other length. For those, `None` is the right answer.
#
# <details><summary>Hint 1: a question</summary>For each model: what did the tracer see as a plain Python number or decision? Which inputs would have changed it?</details>
# <details><summary>Hint 2: the idea</summary>Values of several magnitudes and of both signs, and other lengths. Try candidates until one gives two different answers. <code>allclose</code> raises an error for shapes that don't fit.</details>
# <details><summary>Hint 3: the shape</summary>Loops over lengths, magnitudes and signs; in them a <code>try</code> around the trace, and one comparison with the model. What do you return when the loops are over?</details>

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "silent_mistake-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder.exercises.day3.silent_mistake import visible as traced_models

for name in ("Threshold", "Recurrent", "Halving", "Faithful", "Rescaled", "EachStep", "Greatest"):
    print(inspect.getsource(getattr(traced_models, name)))


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
                wanted = model(x)
                if found.shape != wanted.shape or not torch.allclose(found, wanted, 1e-3, 1e-3, equal_nan=True):
                    return x
    return None
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "silent_mistake", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day3.silent_mistake(find_silent_mistake)

# %% [markdown] nbgrader={"grade": false, "grade_id": "dynamic_export-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. Export with dynamic batch and length, honestly
#
# *25 minutes, medium.* An exported program promises which shapes it serves. Promise too little, and nobody can use it.
# Promise too much, and it fails at a customer's.
#
# Write `export_reader(model, example)`. `model` is a `Reader` (printed below), as training left it. `example` is a pair of
# tokens and mask, sometimes with one row only. Return an `ExportedProgram` that
#
# 1. takes `tokens` and `mask`, both of shape (batch, length), and computes what `model.eval()` computes;
# 2. promises every batch size from 1 to 64 in its `range_constraints` (more is fine);
# 3. promises exactly the lengths for which the model has an answer. `nan` is none. Which are they? Each model has its own.
#
# <details><summary>Hint 1: a question</summary>What happens at length 1? At length 1000? Try it on the model. Which two attributes decide?</details>
# <details><summary>Hint 2: the idea</summary><code>torch.export.Dim(name, min=…, max=…)</code> once for the batch and once for the length, and the same two for both inputs. An example of one row cannot stand for many.</details>
# <details><summary>Hint 3: the shape</summary><code>export(model.eval(), inputs, dynamic_shapes=(sizes, sizes))</code> with <code>sizes = {0: batch, 1: length}</code>, and the example repeated to at least two rows.</details>

# %% nbgrader={"grade": false, "grade_id": "dynamic_export-model", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder.exercises.day3.dynamic_export.visible import Reader

print(inspect.getsource(Reader))


# %% nbgrader={"grade": false, "grade_id": "dynamic_export-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def export_reader(model: Reader, example: tuple[torch.Tensor, torch.Tensor]) -> ExportedProgram:
    """One program for every batch from 1 to 64 and every length that `model` can serve."""
    ### BEGIN SOLUTION
    inputs = tuple(value.repeat(2, 1) for value in example)  # size 1 is treated apart: never export with one row
    sizes = {
        0: Dim("batch", min=1, max=64),
        1: Dim("length", min=model.skip + 1, max=model.positions.num_embeddings),
    }
    return export(model.eval(), inputs, dynamic_shapes=(sizes, sizes))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "dynamic_export", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day3.dynamic_export(export_reader)

# %% [markdown] nbgrader={"grade": false, "grade_id": "exportable_control_flow-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 5. Make control flow on data exportable
#
# *20 minutes, medium.* `torch.export` refuses a Python `if` on a tensor's value, and a `range` whose length is in a tensor:
# while it exports, there are no values. `GivenModel` (printed below) has both.
#
# Write the `forward` of `ExportableModel` so that
#
# 1. `torch.export.export` accepts it, with a batch size that may vary;
# 2. the exported graph computes what `GivenModel` computes: on both sides of the branch (a level of exactly 0 has a side,
#    too, and so has `nan`), for every number of steps from 0 to `self.most_steps`, for every batch size;
# 3. called directly, it computes the same.
#
# If you use `torch.cond`: a side may not return one of its operands as it came. Return `operand.clone()`.
#
# <details><summary>Hint 1: a question</summary>You can compute both sides of the branch. What may not happen to the side that you don't want, when it is <code>nan</code>?</details>
# <details><summary>Hint 2: the idea</summary>A branch is a choice between two tensors, by <code>torch.where</code> or <code>torch.cond</code>. A loop of unknown length is a loop of the greatest length in which late steps change nothing.</details>
# <details><summary>Hint 3: the shape</summary>One <code>torch.where</code> for the branch. In the loop over all steps that there can be, another one: compare <code>i</code> with <code>steps</code>.</details>

# %% nbgrader={"grade": false, "grade_id": "exportable_control_flow-model", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder.exercises.day3.exportable_control_flow.visible import GivenModel

print(inspect.getsource(GivenModel))

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "exportable_control_flow-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
import contextlib
import io

try:
    with contextlib.redirect_stderr(io.StringIO()):  # the exporter prints the graph so far
        export(GivenModel(4, 6, 3).eval(), (torch.ones(2, 4), torch.tensor(2)))
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

# %% [markdown] nbgrader={"grade": false, "grade_id": "round_trip-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 6. A round trip through disk
#
# *15 minutes, medium.* Your model will run where neither your notebook nor its class exists. Write
#
# 1. `save_model(model, example, path)`, which writes *everything that's needed to run* into the one file at `path`. A file
#    that's already there is overwritten. `example` is a batch of shape (batch, width), perhaps a single row. The file has to
#    serve batches of any size from one row up.
# 2. `make_loader()`, which returns the source (a string) of a program for a fresh Python process that knows only torch.
#    The check puts your file into an empty folder and starts `python -c SOURCE model.pt2 inputs.pt outputs.pt` there.
#    `inputs.pt` is a list of input tensors, perhaps an empty one, written with `torch.save`. Write the list of outputs to
#    `outputs.pt` likewise.
#
# The model is printed below. **Prediction.** Which of its two buffers would a `state_dict` bring along?
#
# <details><summary>Hint 1: a question</summary>What does a file made by <code>torch.save(model)</code> say about the class of the model? And what does a <code>state_dict</code> say about its program?</details>
# <details><summary>Hint 2: the idea</summary>An exported program holds the graph, parameters, buffers and constants, and no longer needs the class.</details>
# <details><summary>Hint 3: the shape</summary><code>torch.export.save(program, path)</code>; in the loader <code>torch.export.load(path).module()</code>, called on each input. Which rows does the program accept?</details>

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "round_trip-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder.exercises.day3.round_trip import visible as round_trip_model

source = inspect.getsource(round_trip_model)
print(source[source.index("class Scorer") : source.index("# As with a class")])


# %% nbgrader={"grade": false, "grade_id": "round_trip-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def save_model(model: nn.Module, example: torch.Tensor, path: str) -> None:
    """Write to `path` all that is needed to run `model` on batches (batch, width) of any size."""
    ### BEGIN SOLUTION
    several = example.repeat(2, 1)  # an example of one row is no example of many
    program = torch.export.export(model, (several,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    torch.export.save(program, path)
    ### END SOLUTION


def make_loader() -> str:
    """The source of the program that runs in the fresh process."""
    lines = [
        "import sys",
        "import torch",
        "program_path, inputs_path, outputs_path = sys.argv[1:]",
    ]
    ### BEGIN SOLUTION
    lines += [
        "run = torch.export.load(program_path).module()",
        "with torch.no_grad():",
        "    outputs = [run(x) for x in torch.load(inputs_path)]",
        "torch.save(outputs, outputs_path)",
    ]
    ### END SOLUTION
    return "\n".join(lines)


# %% nbgrader={"grade": true, "grade_id": "round_trip", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day3.round_trip(save_model, make_loader)

# %% [markdown] nbgrader={"grade": false, "grade_id": "round_trip-after", "locked": true, "schema_version": 3, "solution": false, "task": false}
# <details><summary>The answer to the prediction</summary><code>mean</code>. <code>scale</code> is registered with <code>persistent=False</code>, and a <code>state_dict</code> leaves such buffers out. The exported program has both: it holds all that the graph reads.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "extract_any-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 7. Three kinds of model through one function
#
# *25 minutes, hard.* A tool that extracts graphs meets unknown models: with positional or keyword inputs, lists, numbers,
# dictionaries of outputs, in training mode as a whole or in parts.
#
# Write `extract(model, example_inputs)`. `example_inputs` is a tuple of positional or a dictionary of keyword arguments, of
# tensors and numbers, nested or not; the batch has two rows at least. Return an `ExportedProgram` that
#
# 1. takes the model's inputs under their own names and returns all of its outputs;
# 2. computes what the model computes with all its modules in evaluation mode, for any batch size from 1 up (dimension 0 of
#    all tensor inputs), with no upper end;
# 3. consists of **core ATen** operators only.
#
# Afterwards the model is as it was: weights, which of them require gradients, buffers, and the mode of each module. Three
# kinds are printed below.
#
# <details><summary>Hint 1: a question</summary><code>dynamic_shapes</code> has the structure of the inputs. How do you make it from inputs of any structure?</details>
# <details><summary>Hint 2: the idea</summary>A function that calls itself for lists and dictionaries (or <code>torch.utils._pytree.tree_map</code>) puts a dimension in the place of a tensor, and <code>None</code> in the place of a number. You may put a deep copy into any mode.</details>
# <details><summary>Hint 3: the shape</summary><code>export(copy.deepcopy(model).eval(), args, kwargs, dynamic_shapes=…)</code>, then <code>.run_decompositions()</code>.</details>

# %% nbgrader={"grade": false, "grade_id": "extract_any-models", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder.exercises.day3.extract_any.visible import Detector, Encoder, Images

for model_class in (Images, Encoder, Detector):
    print(inspect.getsource(model_class))


# %% nbgrader={"grade": false, "grade_id": "extract_any-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import copy

from torch.utils._pytree import tree_map


def extract(model: nn.Module, example_inputs: tuple | dict) -> ExportedProgram:
    """`model` in evaluation mode as one graph of core ATen operators, for any batch size. `model` stays as it is."""
    ### BEGIN SOLUTION
    args, kwargs = ((), example_inputs) if isinstance(example_inputs, dict) else (example_inputs, {})
    batch = Dim("batch", min=1)
    dynamic_shapes = tree_map(lambda value: {0: batch} if isinstance(value, torch.Tensor) else None, example_inputs)
    program = export(copy.deepcopy(model).eval(), args, kwargs, dynamic_shapes=dynamic_shapes)
    return program.run_decompositions()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "extract_any", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day3.extract_any(extract)

# %% [markdown] nbgrader={"grade": false, "grade_id": "extract_any-use-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Now your function on a real model: BERT, built from its configuration. **Prediction.** How many nodes does its graph of core
# ATen operators have: about 50, 200 or 1000?

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "extract_any-use", "locked": true, "schema_version": 3, "solution": false, "task": false}
from fxopt_workbench import zoo

bert = zoo.build("bert", device="cpu")
try:
    program = extract(bert.model, bert.example_inputs)
    print(f"{sum(node.op == 'call_function' for node in program.graph.nodes)} operations")
    print("ranges:", program.range_constraints)
except NotImplementedError:
    print("not yet written")

# %% [markdown] nbgrader={"grade": false, "grade_id": "extract_any-use-answer", "locked": true, "schema_version": 3, "solution": false, "task": false}
# About 200: two small layers of attention come to some hundred operations each, once only core operators are left. The
# symbol in the ranges is your batch (the exporter makes up its own names). `VR[1, int_oo]` says: any integer from 1 up, with
# no upper limit.

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex03-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then remove the `#` and run this cell. It tells you your points and where your feedback
# page is.

# %%
# submit("ex_03")
