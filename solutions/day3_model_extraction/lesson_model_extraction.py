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

# %% [markdown]
# # Day 3: getting the graph out of a model
#
# *About 120 minutes. You need Day 1; Day 2 helps.*
#
# A model is a Python program. Whoever wants to optimise it, count its work, or run it on a phone without Python needs
# the program as *data*: a graph. There are half a dozen ways to get one, and every guide on the web praises another.

# %% [markdown]
# They differ in one thing that matters more than all others: **what they do with what they cannot capture.** One raises
# an error. One leaves the rest to Python. One writes down what happened to happen on your example, and is wrong from
# then on, without a word.
#
# Today you put eight models through every method and *measure* the table that others only quote. Then you follow
# `torch.export`, today's answer, to the end: sizes that vary, decisions on data, operators of your own, core operators,
# and a file that runs in a process that has never seen your model.

# %% [markdown]
# ## Eight models
#
# *5 minutes.* Two plain networks, one that decides on its data, one that loops, one that works too much, and three
# small transformers built from their configurations. All have random weights: capturing does not care.

# %%
# %matplotlib inline
import logging
import warnings

import torch
import transformers
from torch import nn

from fxopt_core.capture import CaptureError, capture
from fxopt_core.devices import choose_device
from fxopt_workbench import zoo
from fxopt_workbench.pictures import draw

for category in (DeprecationWarning, FutureWarning):
    warnings.filterwarnings("ignore", category=category)  # TorchScript says at each use that its time is over
warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # the tracer has doubts too; we look ourselves
torch._logging.set_logs(all=logging.CRITICAL)  # every refusal below is shown; the log would show it twice
transformers.logging.set_verbosity_error()
device = choose_device()
NAMES = ("mlp", "cnn", "redundant", "loops", "control", "bert", "vit", "detr")
models = {name: zoo.build(name, device=device) for name in NAMES}

# %% tags=["nbval-check-output"]
for name, entry in models.items():
    parameters = sum(parameter.numel() for parameter in entry.model.parameters())
    print(f"{name:10} {parameters:>7,} parameters  {type(entry.model).__name__}")

# %% [markdown]
# ## Recording with stand-ins: `symbolic_trace`
#
# *10 minutes.* Call `forward` not with a tensor but with a [**proxy**](../Glossary.md#proxy), a stand-in that answers
# every operation with another proxy and writes it down. That is all of FX's [**symbolic
# tracing**](../Glossary.md#symbolic-tracing): no values, no shapes, no example input.

# %%
mlp, (mlp_input,) = models["mlp"].model, models["mlp"].example_inputs
recorded = torch.fx.symbolic_trace(mlp)
draw(recorded, title="The perceptron as FX records it: modules are single nodes")

# %% [markdown]
# The model that decides on its data has `if hidden.mean() > 0` in its `forward`.
#
# **Prediction.** A proxy has no value. What can it answer when Python asks whether it is true?

# %% tags=["nbval-check-output"]
control, (control_input,) = models["control"].model, models["control"].example_inputs
try:
    torch.fx.symbolic_trace(control)
except torch.fx.proxy.TraceError as error:
    print(type(error).__name__, "-", error)

# %% [markdown]
# It refuses, and that is the best that it can do. A stand-in can also deceive itself, where the program asks a question
# that a proxy *does* answer. **Prediction.** Which side does the recording of this function take?


# %% tags=["nbval-check-output"]
def cautious(x):
    return torch.tanh(x) if isinstance(x, torch.Tensor) else torch.relu(x)


print(torch.fx.symbolic_trace(cautious).code.strip())

# %% [markdown]
# ## Recording with values: `torch.jit.trace`
#
# *10 minutes.* The other way to record: run the model on a *real* example and write down each operation. Now every
# question has an answer, the example's. This is [**tracing**](../Glossary.md#tracing) in the sense of
# [TorchScript](../Glossary.md#torchscript) (deprecated; much deployed code still has it).
#
# **Prediction.** The traced model agrees with the model on the example. Does it on the same, moved down by two?

# %% tags=["nbval-check-output"]
traced = torch.jit.trace(control, (control_input,), check_trace=False)
moved_input = control_input - 2.0
with torch.no_grad():
    for what, x in (("the example", control_input), ("moved down by 2", moved_input)):
        hidden = torch.relu(control.scale(x)) + x
        agrees = torch.allclose(traced(x), control(x), atol=1e-5)
        print(f"{what:17} mean > 0: {bool(hidden.mean() > 0)!s:5}  trace agrees with the model: {agrees}")

# %% [markdown]
# No error, no warning that survives into production: **silently wrong**. The trace has one side of the branch; the
# other is nowhere in it. Here is the `forward` of the model, and what the trace kept of it: count the linear layers in
# both.

# %%
import inspect

print(inspect.getsource(type(control).forward))
print(traced.code)

# %% [markdown]
# ## Reading the source: `torch.jit.script`
#
# *5 minutes.* A third way does not run the model at all: it reads the *text* of `forward` and compiles it, as a
# compiler does. [**Scripting**](../Glossary.md#scripting) keeps both sides of the branch, since both are in the text.

# %%
scripted = torch.jit.script(control)
print(scripted.code)

# %% tags=["nbval-check-output"]
with torch.no_grad():
    for x in (control_input, moved_input):
        print("agrees with the model:", torch.allclose(scripted(x), control(x), atol=1e-5))

# %% [markdown]
# The price: it understands only a small dialect of Python, with types written down. Real models do not keep to it, as
# you will see in the table. TorchScript is deprecated; `torch.export` is named as its successor
# ([documentation](https://docs.pytorch.org/docs/stable/jit.html)).
#
# ## One whole graph or an error: `torch.export`
#
# *10 minutes.* `torch.export` runs `forward` with [**fake tensors**](../Glossary.md#fake-tensor): they have shape and
# dtype and hold no data. What they meet is recorded as [ATen](../Glossary.md#aten) operators. What it returns is an
# [**exported program**](../Glossary.md#exported-program): graph, weights, the roles of all inputs, and the conditions
# on calls.

# %%
program = torch.export.export(mlp, (mlp_input,))
draw(program.graph_module, title="The perceptron as exported: ATen operators, weights as inputs")

# %% tags=["nbval-check-output"]
for item in program.graph_signature.input_specs:
    print(f"{item.kind.name:11} {item.arg.name:20} {item.target or ''}")

# %% [markdown]
# This is the [**signature**](../Glossary.md#signature). Each input of the graph has a role: the model's parameters, its
# buffers, and what the user hands in. And what does it make of a decision on data? A fake tensor has no values either.

# %% tags=["nbval-check-output"]
import contextlib
import io

try:
    with contextlib.redirect_stderr(io.StringIO()):  # the exporter prints the graph so far
        torch.export.export(control, (control_input,))
except Exception as error:
    print(type(error).__name__)
    print(str(error).splitlines()[0])

# %% [markdown]
# `u0` is the unknown: a value that will exist only when the graph runs (a [**data-dependent
# value**](../Glossary.md#data-dependent-value)). It refuses. Later you will give it what it asks for.
#
# ## As many graphs as it takes: Dynamo
#
# *10 minutes.* [Dynamo](../Glossary.md#torchdynamo) never refuses, because it may leave the difficult line to Python
# ([lesson of Day 1](../day1_compile_stack/lesson_compile_stack.ipynb)). **Prediction.** In how many graphs
# does it capture the model that decides on its data?

# %%
pieces = capture(control, (control_input,), method="dynamo")

# %% tags=["nbval-check-output"]
print(f"{len(pieces.graphs)} graphs, {len(pieces.graph_breaks)} graph break")
for number, counts in enumerate(pieces.operation_counts_by_partition(), start=1):
    print(f"  graph {number}: {dict(sorted(counts.items()))}")

# %%
draw(pieces.graphs[0], title="The first piece: up to the decision")

# %% [markdown]
# The second piece is the side that the example took. And these are some of the conditions under which the pieces may be
# used again, about dtypes and shapes:

# %%
about_tensors = [guard.expression for guard in pieces.guards if "size=[" in guard.expression]
for expression in about_tensors[:3]:
    print(expression)

# %% [markdown]
# Nothing is wrong with that: where a [**guard**](../Glossary.md#guard) (such a condition) fails, the call goes back to
# Dynamo, which captures the other side when it first comes. But there is no *one* graph that you could save.
#
# ## Forward and backward: AOTAutograd
#
# *5 minutes.* The methods so far capture the forward pass. [AOTAutograd](../Glossary.md#aotautograd) takes Dynamo's
# graphs and traces the derivative along, for training. **Prediction.** Will the backward graph have fewer operations
# than the forward graph, as many, or more?

# %%
both = capture(mlp, (mlp_input,), method="aot")

# %% tags=["nbval-check-output"]
for name, graph in zip(("forward", "backward"), both.graphs, strict=True):
    print(f"{name:9} {sum(node.op == 'call_function' for node in graph.graph.nodes)} operations")

# %%
draw(both.graphs[1], title="The backward graph of the perceptron: it reads what the forward graph saved")

# %% [markdown]
# ## The table, measured
#
# *15 minutes.* Every model through every method. `capture` from `fxopt_core` also runs what it captured on inputs of
# its own, and compares with the model. One of the models has two loops, each with a length of another kind:

# %% tags=["nbval-check-output"]
print(inspect.getsource(type(models["loops"].model).forward))

# %% [markdown]
# **Prediction.** Which column has no bad word in it? Is there any?


# %%
def outcome(entry, method):
    try:
        captured = capture(entry.model, entry.example_inputs, method=method)
    except CaptureError:
        return "refuses"
    if any(not one.agrees and not one.refusal for one in captured.agreements):
        return "WRONG"
    return "whole" if len(captured.partitions) == 1 else f"{len(captured.partitions)} pieces"


METHODS = {"FX": "symbolic_trace", "trace": "jit.trace", "script": "jit.script", "export": "export", "Dynamo": "dynamo"}
table = {name: {column: outcome(entry, method) for column, method in METHODS.items()} for name, entry in models.items()}

# %% tags=["nbval-check-output"]
print(f"{'':10}" + "".join(f"{column:>10}" for column in METHODS))
for name, row in table.items():
    print(f"{name:10}" + "".join(f"{word:>10}" for word in row.values()))

# %% [markdown]
# **WRONG**: answers that differ from the model's on other values of the same shape, without an error. Read the table by
# rows: the plain models are easy for everybody; the transformers are whole for `export` and Dynamo and fail in FX and
# in scripting; decisions on data are what tells all methods apart.
#
# Why does `export` refuse `loops`? The first loop goes over a *shape*: the exporter knows it, and unrolls the loop. How
# often the second one goes round comes from *data*, and a fake tensor has none.

# %% [markdown]
# [**ONNX**](../Glossary.md#onnx) is a file format for other runtimes, not a way of capturing: today's
# `torch.onnx.export` calls `torch.export` first and translates the result. So it can take at most what the column
# *export* takes. Translating needs the packages `onnx` and `onnxscript`, which this course does without.

# %%
import importlib.util

missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
if missing:
    print("not measured here: ONNX (missing:", ", ".join(missing) + ")")
else:
    for name, entry in models.items():
        args, kwargs = (
            ((), entry.example_inputs) if isinstance(entry.example_inputs, dict) else (entry.example_inputs, {})
        )
        try:
            torch.onnx.export(entry.model, args, kwargs=kwargs, dynamo=True, verbose=False)
            print(f"{name:10} translated")
        except Exception as error:
            print(f"{name:10} refuses: {type(error).__name__}")

# %% [markdown]
# An older guide to this subject sums up so: *control flow: FX ✗, Dynamo ✓, ONNX (✓); dynamic shapes: FX ✗, Dynamo ✓,
# ONNX (✓); complex models: FX ✗, Dynamo ✓*. You have measured the first and the third. What about shapes? Each method
# captures the perceptron with its batch of four, and is asked about a batch of seven.

# %% tags=["nbval-check-output"]
seven = torch.randn(7, *mlp_input.shape[1:], device=device)


def serves(run):
    try:
        return "right" if torch.allclose(run(seven), mlp(seven), atol=1e-5) else "WRONG"
    except Exception as error:
        return f"refuses ({type(error).__name__})"


with torch.no_grad():
    print("batch of the example:", len(mlp_input))
    print("FX     ", serves(torch.fx.symbolic_trace(mlp)))
    print("trace  ", serves(torch.jit.trace(mlp, (mlp_input,), check_trace=False)))
    print("script ", serves(torch.jit.script(mlp)))
    print("export ", serves(program.module()))
    print("Dynamo ", serves(torch.compile(mlp, backend="eager")))

# %% [markdown]
# So the old table needs four corrections:
#
# 1. *Dynamic shapes, FX ✗*: FX's graph has no shapes at all, and serves any that the operations allow.
# 2. *Control flow, Dynamo ✓*: in pieces, with Python in between.
# 3. *Complex models, ONNX (✓)*: as far as `torch.export` gets.
# 4. It has no column for the method to begin with today, `torch.export`: whole and checked, or an error.
#
# Rule of thumb: to *run* faster, Dynamo (`torch.compile`); to *take away*, `torch.export`; to *rewrite* a plain model
# in Python, FX.
#
# ## Sizes that vary
#
# *15 minutes.* The exported perceptron refused seven rows. This is what it said:

# %%
try:
    program.module()(seven)
except Exception as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# It was exported for the shapes of the example, and *checks* them at each call. To say what may vary, name the
# dimension and its range with `Dim`.

# %% tags=["nbval-check-output"]
from torch.export import Dim

batch = Dim("batch", min=1, max=64)
flexible = torch.export.export(mlp, (mlp_input,), dynamic_shapes=({0: batch},))
node = [node for node in flexible.graph.nodes if node.op == "placeholder"][-1]  # weights first, then the user's inputs
print(
    "sizes of the input in the graph are numbers or symbols:", [type(size).__name__ for size in node.meta["val"].shape]
)
print("range:", [f"{limits.lower} to {limits.upper}" for limits in flexible.range_constraints.values()])

# %%
draw(flexible.graph_module, title="The same graph with a symbol for the batch size")

# %% tags=["nbval-check-output"]
for rows in (1, 7, 64, 65):
    x = torch.randn(rows, *mlp_input.shape[1:], device=device)
    try:
        print(f"{rows:3} rows: gives {tuple(flexible.module()(x).shape)}")
    except Exception as error:
        print(f"{rows:3} rows: {type(error).__name__}")

# %% [markdown]
# The size is a symbol in the graph (a [**symbolic size**](../Glossary.md#symbolic-size)): in the picture an `s` and a
# number (`s31`, elsewhere `s77`), which is the exporter's own name for your `batch`. PyTorch writes its range
# `VR[1, 64]`; without a `max` it would be `VR[1, int_oo]`, from 1 up without end. The range is a
# [**constraint**](../Glossary.md#constraint): part of the program, checked at each call. (Dynamo's *guards* ask "may I
# use this graph again?", and compile anew if not. A constraint is a promise to the caller: outside of it there is
# nothing.)
#
# What if you promise more than the model keeps? **Prediction.** Both halves of this model's input must have the same
# size. What does `export` say to "every length from 2 to 100"?


# %%
class Halves(nn.Module):
    def forward(self, x):
        middle = x.shape[1] // 2
        return x[:, :middle] + x[:, middle:]


try:
    torch.export.export(Halves(), (torch.randn(2, 6),), dynamic_shapes=({1: Dim("length", min=2, max=100)},))
except Exception as error:
    lines = str(error).split("\n\n")[0].splitlines()
    print("\n".join([lines[0], lines[1], "  …", *lines[-3:]]))

# %% [markdown]
# It finds the equation that does not hold for every length, and often a way out: the length has to be twice something.
# `Dim` can say that.

# %% tags=["nbval-check-output"]
half = Dim("half", min=1, max=50)
even = torch.export.export(Halves(), (torch.randn(2, 6),), dynamic_shapes=({1: 2 * half},))
for length in (8, 9):
    try:
        print(f"length {length}: gives {tuple(even.module()(torch.randn(2, length)).shape)}")
    except Exception as error:
        print(f"length {length}: refuses ({type(error).__name__})")

# %% [markdown]
# Two traps are worth knowing. *The sizes 0 and 1 are special*: an example with one row tells the exporter that this
# dimension broadcasts, and is refused as an example of many. And *it cannot see into tables*: that a model has only 32
# positions is no equation between shapes. Such a range only you can state. Both will meet you in the exercise.

# %% tags=["nbval-check-output"]
try:
    torch.export.export(mlp, (mlp_input[:1],), dynamic_shapes=({0: batch},))
except Exception as error:
    print(next(line.strip() for line in str(error).splitlines() if "constant (1)" in line).split(".")[0])

# %% [markdown]
# ## Decisions on data: `torch.cond`
#
# *15 minutes.* The exporter refused the model that decides, since a Python `if` needs a value *now*. `torch.cond` is an
# `if` that is itself an operation: it takes a tensor as its condition, and both sides as functions.


# %%
class Decides(nn.Module):
    def __init__(self, given):
        super().__init__()
        self.given = given

    def forward(self, x):
        hidden = torch.relu(self.given.scale(x)) + x
        return torch.cond(hidden.mean() > 0, self.positive, self.otherwise, (hidden,))

    def positive(self, hidden):
        return self.given.when_positive(hidden)

    def otherwise(self, hidden):
        return self.given.otherwise(hidden) * 2


deciding = torch.export.export(Decides(control), (control_input,), dynamic_shapes=({0: batch},))
draw(deciding.graph_module, title="A graph with a decision in it")

# %% [markdown]
# One node, `cond`, reads the condition and two further graphs. **Prediction.** Which operations are in them? And will
# this program agree with the model on both of the inputs on which the trace did not?

# %% tags=["nbval-check-output"]
for name, graph in deciding.graph_module.named_children():
    print(f"{name:14}", [str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
with torch.no_grad():
    for x in (control_input, moved_input):
        print("agrees with the model:", torch.allclose(deciding.module()(x), control(x), atol=1e-5))

# %%
draw(deciding.graph_module.false_graph_0, title="The side that is not taken by the example is in the program, too")

# %% [markdown]
# Both sides must return the same shapes and dtypes, take what they need as operands, change nothing in place, and return
# no operand as it came (return `operand.clone()`). Where
# both sides are cheap, `torch.where` does the same in one line: it computes both and chooses. The difference shows
# where the side that is not chosen cannot be computed.
#
# **Prediction.** `log` of a negative number is `nan`. What do these two lines give?

# %% tags=["nbval-check-output"]
x = torch.tensor(-2.0)
keep = (x > 0).float()
print("chosen: ", torch.where(x > 0, torch.log(x), x).item())
print("blended:", (keep * torch.log(x) + (1 - keep) * x).item())

# %% [markdown]
# A loop whose length is in the data can be made a loop of the greatest length, in which late steps change nothing; that
# is `torch.where` again. You will write one.
#
# ## An operator of your own
#
# *5 minutes.* Some code cannot be captured at all: a call into a C library, NumPy, a hand-written kernel. A [**custom
# operator**](../Glossary.md#custom-operator) puts a wall around it: the graph has one node, and nobody looks inside.
# The exporter must know only the shape of what comes out: that is the [**fake
# implementation**](../Glossary.md#fake-implementation).

# %%
import numpy as np


@torch.library.custom_op("fxopt_lesson::sorted_rows", mutates_args=())
def sorted_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(np.sort(x.detach().cpu().numpy(), axis=1)).to(x.device)


class Sorts(nn.Module):
    def forward(self, x):
        return torch.relu(sorted_rows(x) - 1.0)


# %% [markdown]
# **Prediction.** The operator is there, but nobody has said what shape it returns. Does the model export?

# %% tags=["nbval-check-output"]
try:
    torch.export.export(Sorts(), (torch.randn(3, 4),))
except Exception as error:
    print(type(error).__name__, "-", str(error).strip().splitlines()[0].split(". ")[0])


@sorted_rows.register_fake
def _(x):
    return torch.empty_like(x)


sorting = torch.export.export(Sorts(), (torch.randn(3, 4),))
print("now it does:", [str(node.target) for node in sorting.graph.nodes if node.op == "call_function"])
print(sorting.module()(torch.tensor([[3.0, 1.0, 2.0, 5.0]] * 3))[0].tolist())

# %%
draw(sorting.graph_module, title="The custom operator is one node")

# %% [markdown]
# The price: no pass can see into the node, and whoever loads the program needs the operator, too. (A gradient it has
# only if you register one: `torch.library.register_autograd`.)
#
# ## Down to core operators
#
# *5 minutes.* ATen has over two thousand operators. A backend for a new chip should not have to know them all. A
# [**decomposition**](../Glossary.md#decomposition) writes an operator with simpler ones; [**core
# ATen**](../Glossary.md#core-aten) is the short list at the end, some two hundred
# ([documentation](https://docs.pytorch.org/docs/stable/torch.compiler_ir.html)).
#
# **Prediction.** An encoder layer of a transformer: how many operations before, how many after?

# %%
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(16, 2, dim_feedforward=32, batch_first=True).eval()
high = torch.export.export(layer, (torch.randn(2, 5, 16),))
low = high.run_decompositions()

# %% tags=["nbval-check-output"]
from collections import Counter


def operators(exported):
    return Counter(str(node.target) for node in exported.graph.nodes if node.op == "call_function")


before, after = operators(high), operators(low)
print(f"before: {before.total()} operations, {len(before)} kinds")
print(f"after:  {after.total()} operations, {len(after)} kinds")
print("gone:", ", ".join(sorted(name.split(".")[1] for name in before - after if name not in after)))

# %%
draw(torch.export.export(nn.Linear(3, 2), (torch.randn(4, 3),)).graph_module, title="A linear layer, as exported")

# %%
draw(
    torch.export.export(nn.Linear(3, 2), (torch.randn(4, 3),)).run_decompositions().graph_module,
    title="The same in core ATen: a transposition, and a product with a sum",
)

# %% [markdown]
# Attention, linear layers and the like are gone; what is left is what a new system has to implement. The result is the
# same up to rounding. That is checked, not believed:

# %% tags=["nbval-check-output"]
x = torch.randn(2, 5, 16)
with torch.no_grad():
    print("agrees with the layer:", torch.allclose(low.module()(x), layer(x), atol=1e-5))

# %% [markdown]
# ## Away from here: saving, loading, running elsewhere
#
# *10 minutes.* The same older guide saves a graph with `file.write(graph_module.code)` and says that the code "runs
# standalone". **Prediction.** Does it? Here is the code of the exported perceptron.

# %% tags=["nbval-check-output"]
namespace: dict = {}
exec(program.graph_module.code, namespace)
try:
    namespace["forward"](None, mlp_input)
except Exception as error:
    print(type(error).__name__, "-", str(error).split(":")[0])

# %% [markdown]
# It has no weights in it, for a start. `torch.export.save` writes program, weights, signature and constraints into one
# archive.

# %%
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

folder = tempfile.TemporaryDirectory()
path = Path(folder.name) / "decides.pt2"
torch.export.save(deciding, path)
torch.save([control_input.cpu(), moved_input.cpu()], Path(folder.name) / "inputs.pt")
with zipfile.ZipFile(path) as archive:
    for item in archive.infolist():
        print(f"{item.file_size:>7} bytes  {item.filename.partition('/')[2]}")

# %% [markdown]
# The test of a file is a process that knows nothing else: no class `Decides`, no zoo, no notebook.

# %%
PROGRAM = """
import sys, torch
device = torch.device(sys.argv[1])
run = torch.export.load("decides.pt2").module()
with torch.no_grad():
    torch.save([run(x.to(device)).cpu() for x in torch.load("inputs.pt")], "outputs.pt")
print("loaded and run; classes of the notebook known here:", "Decides" in globals())
"""
finished = subprocess.run(
    [sys.executable, "-c", PROGRAM, device.type], cwd=folder.name, capture_output=True, text=True, check=True
)
print(finished.stdout.strip())

# %% tags=["nbval-check-output"]
answers = torch.load(Path(folder.name) / "outputs.pt")
with torch.no_grad():
    for x, answer in zip((control_input, moved_input), answers, strict=True):
        print("agrees with the model here:", torch.allclose(answer, control(x).cpu(), atol=1e-5))
folder.cleanup()

# %% [markdown]
# Both sides of the decision, for inputs that were not known when the program was saved, in a process without the
# model's class. That is what *extracted* means.
#
# From here the road goes on: `torch._inductor.aoti_compile_and_package` turns such a program into a shared library that
# runs without Python; ExecuTorch takes it to phones, ONNX to other runtimes.

# %% [markdown]
# ## What to remember
#
# - **Symbolic tracing** (FX) runs `forward` with proxies: no shapes, no values; refuses most decisions.
# - **Tracing** runs an example and keeps what happened: other inputs may be silently **wrong**. **Scripting** reads the
#   text: all branches, little Python. Both are TorchScript, deprecated.
# - **`torch.export`**: one whole graph of ATen operators, with roles and constraints, or an error.
# - **Dynamo** captures in pieces, with guards; **AOTAutograd** adds the backward pass.
# - Sizes become **symbols** with **constraints** by `Dim`; promise what the model keeps.
# - **`torch.cond`** and `torch.where` bring decisions into the graph; a **custom operator** is one opaque node with a
#   **fake** implementation.
# - **Decompositions** lead down to **core ATen**; `torch.export.save` takes everything along.
#
# Now do it yourself: [exercise 3](ex_03_model_export.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - J. K. Reed et al., *torch.fx: Practical Program Capture and Transformation for Deep Learning in Python*, MLSys 2022:
#   symbolic tracing, and why it leaves control flow out.
# - J. Ansel et al., *PyTorch 2*, ASPLOS 2024: how Dynamo, guards and graph breaks came to replace tracing and scripting.
# - PyTorch documentation: [torch.export](https://docs.pytorch.org/docs/stable/export.html),
#   [control flow](https://docs.pytorch.org/docs/stable/cond.html),
#   [custom operators](https://docs.pytorch.org/tutorials/advanced/custom_ops_landing_page.html).
