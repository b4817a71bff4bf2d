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
# Your model is a Python program. If you want to optimise it, count its work, or run it on a phone that has no Python, you
# need the program as *data*: a graph. There are half a dozen ways to get one, and every guide on the web recommends a
# different one.

# %% [markdown]
# One difference between them matters more than all the others: **what do they do with a line that they can't capture?**
# One raises an error. One leaves that line to Python. And one writes down whatever happened on your example, and from
# then on it's wrong without a word.
#
# Today you'll put eight models through every method and *measure* the table that others only quote. Then you'll follow
# `torch.export`, the method to start with today, all the way: sizes that vary, decisions on data, operators of your own,
# core operators, and a file that runs in a process that has never seen your model.

# %% [markdown]
# ## Eight models
#
# *5 minutes.* To compare methods you need models that give them trouble. Here are two plain networks, one that repeats
# work, one that loops, one that decides on its data, and three small transformers. They all have random weights, which
# makes no difference to capturing.

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
# *10 minutes.* The simplest idea first. Call `forward` with a stand-in instead of a tensor: a
# [**proxy**](../Glossary.md#proxy), which answers every operation with another proxy and writes the operation down.
# That's all there is to FX's [**symbolic tracing**](../Glossary.md#symbolic-tracing). It needs no values, no shapes and no
# example.

# %%
mlp, (mlp_input,) = models["mlp"].model, models["mlp"].example_inputs
recorded = torch.fx.symbolic_trace(mlp)
draw(recorded, title="The perceptron as FX records it: modules are single nodes")

# %% [markdown]
# One of the models decides on its data: its `forward` says `if hidden.mean() > 0`.
#
# **Prediction.** A proxy has no value. What can it answer when Python asks whether it is true?

# %% tags=["nbval-check-output"]
control, (control_input,) = models["control"].model, models["control"].example_inputs
try:
    torch.fx.symbolic_trace(control)
except torch.fx.proxy.TraceError as error:
    print(type(error).__name__, "-", error)

# %% [markdown]
# It refuses, and that's the best it can do. It gets worse when the program asks a question that a proxy *does* answer.
# **Prediction.** Which branch of this function will the recording take?


# %% tags=["nbval-check-output"]
def cautious(x):
    return torch.tanh(x) if isinstance(x, torch.Tensor) else torch.relu(x)


print(torch.fx.symbolic_trace(cautious).code.strip())

# %% [markdown]
# ## Recording with values: `torch.jit.trace`
#
# *10 minutes.* You could also record with a *real* example: run the model on it and write down each operation. Now every
# question has an answer, but it's the answer for this example. [TorchScript](../Glossary.md#torchscript) calls this
# [**tracing**](../Glossary.md#tracing). It's deprecated, and you'll still find it in a lot of deployed code.
#
# **Prediction.** On the example, the traced model agrees with the model. What if you subtract two from every element?

# %% tags=["nbval-check-output"]
traced = torch.jit.trace(control, (control_input,), check_trace=False)
moved_input = control_input - 2.0
with torch.no_grad():
    for what, x in (("the example", control_input), ("moved down by 2", moved_input)):
        hidden = torch.relu(control.scale(x)) + x
        agrees = torch.allclose(traced(x), control(x), atol=1e-5)
        print(f"{what:17} mean > 0: {bool(hidden.mean() > 0)!s:5}  trace agrees with the model: {agrees}")

# %% tags=["claim"]
# The trace holds one side of the branch: it has fewer linear layers than the model.
assert "otherwise" not in traced.code or "when_positive" not in traced.code

# %% [markdown]
# You get no error, and the one warning won't follow the model into production. It's **silently wrong**. The trace holds
# one side of the branch, and the other side isn't in it at all. Here's the model's `forward`, and what the trace kept of
# it. Count the linear layers in both.

# %%
import inspect

print(inspect.getsource(type(control).forward))
print(traced.code)

# %% [markdown]
# ## Reading the source: `torch.jit.script`
#
# *5 minutes.* A third way doesn't run the model at all. It reads the *text* of `forward` and compiles it, as a compiler
# would. Both sides of the branch are in the text, so [**scripting**](../Glossary.md#scripting) keeps both.

# %%
scripted = torch.jit.script(control)
print(scripted.code)

# %% tags=["nbval-check-output"]
with torch.no_grad():
    for x in (control_input, moved_input):
        print("agrees with the model:", torch.allclose(scripted(x), control(x), atol=1e-5))

# %% [markdown]
# The price: scripting only understands a small dialect of Python, and it wants you to write down types. Real models don't
# stick to it, as you'll see in the table. TorchScript is deprecated, and its documentation names `torch.export` as its
# successor ([documentation](https://docs.pytorch.org/docs/stable/jit.html)).
#
# ## One whole graph or an error: `torch.export`
#
# *10 minutes.* If you want to take a model away with you, you want all of it, or you want to be told that you can't have
# it. `torch.export` runs `forward` with [**fake tensors**](../Glossary.md#fake-tensor), which have a shape and a dtype
# but no data, and records the operations as [ATen](../Glossary.md#aten) operators. You get an
# [**exported program**](../Glossary.md#exported-program): the graph, the weights, the role of each input, and the
# conditions that a call has to meet.

# %%
program = torch.export.export(mlp, (mlp_input,))
draw(program.graph_module, title="The perceptron as exported: ATen operators, weights as inputs")

# %% tags=["nbval-check-output"]
for item in program.graph_signature.input_specs:
    print(f"{item.kind.name:11} {item.arg.name:20} {item.target or ''}")

# %% [markdown]
# That's the [**signature**](../Glossary.md#signature). Each input of the graph has a role: a parameter of the model, a
# buffer, or something that you pass in. And what does export do with a decision on data? A fake tensor has no values
# either.

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
# `u0` is the unknown: a value that only exists when the graph runs (a [**data-dependent
# value**](../Glossary.md#data-dependent-value)). Export refuses. Later today you'll give it what it asks for.
#
# ## As many graphs as it takes: Dynamo
#
# *10 minutes.* What if you don't need one graph, as long as the model runs faster? [Dynamo](../Glossary.md#torchdynamo)
# doesn't have to refuse, because it can leave a difficult line to Python
# ([lesson of Day 1](../day1_compile_stack/lesson_compile_stack.ipynb)). **Prediction.** How many graphs will it capture
# for the model that decides on its data?

# %%
pieces = capture(control, (control_input,), method="dynamo")

# %% tags=["nbval-check-output"]
print(f"{len(pieces.graphs)} graphs, {len(pieces.graph_breaks)} graph break")
for number, counts in enumerate(pieces.operation_counts_by_partition(), start=1):
    print(f"  graph {number}: {dict(sorted(counts.items()))}")

# %%
draw(pieces.graphs[0], title="The first piece: up to the decision")

# %% [markdown]
# The second piece is the side that the example took. Dynamo also writes down when it may use the pieces again. Here are
# some of those conditions, about dtypes and shapes:

# %%
about_tensors = [guard.expression for guard in pieces.guards if "size=[" in guard.expression]
for expression in about_tensors[:3]:
    print(expression)

# %% [markdown]
# The results are right: when a [**guard**](../Glossary.md#guard) (one of these conditions) fails, the call goes back to
# Dynamo, and Dynamo captures the other side. But you don't have *one* graph that you could save.
#
# ## Forward and backward: AOTAutograd
#
# *5 minutes.* So far you've only captured the forward pass. For training you need the derivative as well.
# [AOTAutograd](../Glossary.md#aotautograd) takes Dynamo's graphs and traces the derivative along with them.
# **Prediction.** Will the backward graph have fewer operations than the forward graph, just as many, or more?

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
# *15 minutes.* Don't believe tables on the web: measure your own. Put every model through every method. `capture` from
# `fxopt_core` also runs what it captured on inputs of its own and compares the results with the model's. One of the
# models has two loops. Look at where their lengths come from:

# %% tags=["nbval-check-output"]
print(inspect.getsource(type(models["loops"].model).forward))

# %% [markdown]
# **Prediction.** Will any column be free of *refuses* and *WRONG*? Which one?


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

# %% tags=["claim"]
# Plain models are easy for every method; export and Dynamo take the transformers whole, FX and scripting do not.
assert all(set(table[name].values()) == {"whole"} for name in ("mlp", "cnn"))
for name in ("bert", "vit", "detr"):
    assert (table[name]["export"], table[name]["Dynamo"]) == ("whole", "whole"), name
    assert (table[name]["FX"], table[name]["script"]) == ("refuses", "refuses"), name
assert not any("WRONG" in (row["export"], row["Dynamo"]) for row in table.values())

# %% [markdown]
# **WRONG** means that on other values of the same shape, the capture gives other answers than the model, without an
# error. Read the table row by row. The plain models are easy for every method. The transformers are whole for `export`
# and Dynamo, and fail in FX and in scripting. Decisions on data are where all the methods differ.
#
# Why does `export` refuse `loops`? The first loop runs over a *shape*. The exporter knows that shape and unrolls the
# loop. The length of the second loop comes from *data*, and a fake tensor has none.

# %% [markdown]
# What about ONNX? [**ONNX**](../Glossary.md#onnx) is a file format for other runtimes, not a way of capturing. Today's
# `torch.onnx.export` calls `torch.export` first and translates the result, so it can't take more than the column *export*
# does. To translate, it needs the packages `onnx` and `onnxscript` (the extra `engines`); the course works without them.

# %%
import importlib.util

missing = [name for name in ("onnx", "onnxscript") if importlib.util.find_spec(name) is None]
if missing:
    print("not measured here: ONNX (missing:", ", ".join(missing) + ")")
else:
    for name in ("mlp", "control", "loops"):
        entry = models[name]
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                torch.onnx.export(entry.model, entry.example_inputs, dynamo=True, verbose=False)
            print(f"{name:10} translated")
        except Exception as error:
            print(f"{name:10} refuses: {type(error).__name__}")

# %% [markdown]
# You'll find older guides that sum it up like this: *control flow: FX ✗, Dynamo ✓, ONNX (✓); dynamic shapes: FX ✗,
# Dynamo ✓, ONNX (✓); complex models: FX ✗, Dynamo ✓*. You've measured the first and the third. What about shapes? Let
# each method capture the perceptron with its batch of four, and then give it a batch of seven.

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
# 1. *Dynamic shapes, FX ✗*: FX's graph has no shapes at all, so it takes any shape that the operations allow.
# 2. *Control flow, Dynamo ✓*: yes, but in pieces, with Python in between.
# 3. *Complex models, ONNX (✓)*: only as far as `torch.export` gets.
# 4. The method to start with today, `torch.export`, isn't in it: you get one checked graph, or an error.
#
# As a rule of thumb: to *run* a model faster, use Dynamo (`torch.compile`). To *take it away*, use `torch.export`. To
# *rewrite* a plain model in Python, use FX.
#
# ## Sizes that vary
#
# *15 minutes.* A model that only takes batches of four isn't much use. The exported perceptron refused seven rows, and
# this is what it said:

# %%
try:
    program.module()(seven)
except Exception as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# You exported it for the shapes of the example, and it *checks* them at every call. If a dimension may vary, say so: name
# it and give its range with `Dim`.

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
# In the graph, the size is now a symbol (a [**symbolic size**](../Glossary.md#symbolic-size)). The picture shows an `s`
# and a number (`s31`, say, or `s77`): the exporter's own name for your `batch`. PyTorch writes the range as `VR[1, 64]`.
# Without a `max` it would be `VR[1, int_oo]`, from 1 to infinity. The range is a
# [**constraint**](../Glossary.md#constraint): it's part of the program, and the program checks it at every call. (How does
# that differ from a guard? When a *guard* fails, Dynamo compiles again. When a constraint fails, you get an error.)
#
# What if you promise more than the model can keep? **Prediction.** The two halves of this model's input must have the
# same size. What will `export` say if you ask for "every length from 2 to 100"?


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
# It finds the equation that doesn't hold for every length, and it often suggests a way out: here, the length has to be
# twice something. `Dim` can say that.

# %% tags=["nbval-check-output"]
half = Dim("half", min=1, max=50)
even = torch.export.export(Halves(), (torch.randn(2, 6),), dynamic_shapes=({1: 2 * half},))
for length in (8, 9):
    try:
        print(f"length {length}: gives {tuple(even.module()(torch.randn(2, length)).shape)}")
    except Exception as error:
        print(f"length {length}: refuses ({type(error).__name__})")

# %% [markdown]
# Watch out for two traps. *The sizes 0 and 1 are special*: if your example has one row, the exporter concludes that this
# dimension broadcasts, and won't accept it as one that varies. And *the exporter can't see into tables*: if a model only
# has 32 positions, no equation between shapes says so. Only you can state that range. You'll meet both traps in the
# exercise.

# %% tags=["nbval-check-output"]
try:
    torch.export.export(mlp, (mlp_input[:1],), dynamic_shapes=({0: batch},))
except Exception as error:
    print(next(line.strip() for line in str(error).splitlines() if "constant (1)" in line).split(".")[0])

# %% [markdown]
# ## Decisions on data: `torch.cond`
#
# *15 minutes.* The exporter refused your decision because a Python `if` needs a value *now*. `torch.cond` is an `if` that
# is an operation itself. It takes a tensor as its condition and the two sides as functions, and decides when the graph
# runs.


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
# One node, `cond`, reads the condition and two more graphs. **Prediction.** Which operations are in those graphs? And
# will this program agree with the model on both inputs, where the trace didn't?

# %% tags=["nbval-check-output"]
for name, graph in deciding.graph_module.named_children():
    print(f"{name:14}", [str(node.target) for node in graph.graph.nodes if node.op == "call_function"])
with torch.no_grad():
    for x in (control_input, moved_input):
        print("agrees with the model:", torch.allclose(deciding.module()(x), control(x), atol=1e-5))

# %%
draw(deciding.graph_module.false_graph_0, title="The program also holds the side that the example does not take")

# %% [markdown]
# There are rules. Both sides have to return the same shapes and dtypes. They take what they need as operands and change
# nothing in place. And they can't return an operand as it came: return `operand.clone()` instead. If both sides are
# cheap, `torch.where` does the same in one line. It computes both and picks one. You notice the difference when the side
# that it doesn't pick can't be computed.
#
# **Prediction.** The `log` of a negative number is `nan`. What will these two lines give you?

# %% tags=["nbval-check-output"]
x = torch.tensor(-2.0)
keep = (x > 0).float()
print("chosen: ", torch.where(x > 0, torch.log(x), x).item())
print("blended:", (keep * torch.log(x) + (1 - keep) * x).item())

# %% [markdown]
# And if the data decides how long a loop runs? Let it always run for the greatest length, and use `torch.where` so that
# the late steps change nothing. You'll write one in the exercise.
#
# ## An operator of your own
#
# *5 minutes.* Some code can't be captured at all: a call into a C library, NumPy, a kernel that you wrote by hand. A
# [**custom operator**](../Glossary.md#custom-operator) builds a wall around it. The graph gets one node, and nobody looks
# inside. The exporter only needs to know the shape of what comes out, and you tell it with a [**fake
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
# **Prediction.** The operator exists, but you haven't said what shape it returns. Will the model export?

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
# The price: no pass can see into the node, and anyone who loads the program needs the operator as well. (It only has a
# gradient if you register one with `torch.library.register_autograd`.)
#
# ## Down to core operators
#
# *5 minutes.* ATen has over two thousand operators. If you write a backend for a new chip, you don't want to implement
# them all. A [**decomposition**](../Glossary.md#decomposition) writes an operator in terms of simpler ones. At the end of
# that road is [**core ATen**](../Glossary.md#core-aten), a list of about two hundred
# ([documentation](https://docs.pytorch.org/docs/stable/torch.compiler_ir.html)).
#
# **Prediction.** Take one encoder layer of a transformer. How many operations does it have before, and how many after?

# %% tags=["claim"]
# Over two thousand operators in ATen, about two hundred in core ATen.
overloads = [name.removeprefix("aten::") for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
assert len(overloads) > 2000
packets = ((getattr(torch.ops.aten, name.partition(".")[0]), name.partition(".")[2] or "default") for name in overloads)
found = [getattr(packet, overload) for packet, overload in packets]
assert 150 < sum(torch.Tag.core in overload.tags for overload in found) < 250

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
# Attention, linear layers and the like are gone. What's left is what a new system has to implement. The result should be
# the same, up to rounding. Check it:

# %% tags=["nbval-check-output"]
x = torch.randn(2, 5, 16)
with torch.no_grad():
    print("agrees with the layer:", torch.allclose(low.module()(x), layer(x), atol=1e-5))

# %% [markdown]
# ## Away from here: saving, loading, running elsewhere
#
# *10 minutes.* You'll also find guides that save a graph with `file.write(graph_module.code)` and tell you that the code
# "runs standalone". **Prediction.** Does it? Try it with the code of the exported perceptron.

# %% tags=["nbval-check-output"]
namespace: dict = {}
exec(program.graph_module.code, namespace)
try:
    namespace["forward"](None, mlp_input)
except Exception as error:
    print(type(error).__name__, "-", str(error).split(":")[0])

# %% [markdown]
# The code doesn't hold the weights, for a start. `torch.export.save` writes everything into one archive: the program, the
# weights, the signature and the constraints.

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
# The real test is a process that knows nothing else: no class `Decides`, no zoo, no notebook.

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
# Both sides of the decision work, in a process that doesn't have the model's class, on inputs that nobody knew when you
# saved the program. That's what *extracted* means.
#
# You could go on from here. `torch._inductor.aoti_compile_and_package` turns such a program into a shared library that
# runs without Python. ExecuTorch takes it to phones, and ONNX takes it to other runtimes.

# %% [markdown]
# ## What to remember
#
# - **Symbolic tracing** (FX) runs `forward` with proxies. It has no shapes and no values, and refuses most decisions.
# - **Tracing** runs an example and keeps what happened. On other inputs it may be silently **wrong**. **Scripting** reads
#   the text: it keeps all branches, and understands little Python. Both are TorchScript, and deprecated.
# - **`torch.export`** gives you one whole graph of ATen operators, with roles and constraints, or an error.
# - **Dynamo** captures in pieces, with guards. **AOTAutograd** adds the backward pass.
# - With `Dim`, sizes become **symbols** with **constraints**. Only promise what the model can keep.
# - **`torch.cond`** and `torch.where` bring decisions into the graph. A **custom operator** is one opaque node with a
#   **fake** implementation.
# - **Decompositions** lead down to **core ATen**. `torch.export.save` takes everything along.
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
