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
# # Unit 4: autograd
#
# *About 75 minutes. You need Unit 3; a C++ compiler helps in one place, and you can do without.*
#
# You call `loss.backward()`, and every weight has its gradient. It works so well that most people never look inside, until a
# gradient is `None`, or NaN, or simply wrong. Then it helps to know that there's no magic: a list that is written while you
# compute, and a loop that reads it backwards.

# %% [markdown]
# By the end of this lesson you'll have watched both. You'll know in which order gradients flow, where you can step in, what
# is kept in memory and why, and which mistakes autograd can't see. In the exercise you'll write the loop yourself.

# %% [markdown]
# ## A graph that writes itself
#
# *10 minutes.* Autograd does **reverse-mode differentiation**: first run the program, then go over it backwards and apply
# the chain rule, step by step. For that it needs to know what ran. So while you compute, it writes down a graph, the
# [autograd graph](../Glossary.md#autograd-graph). Three tensors, two steps:

# %%
# %matplotlib inline
import time

import torch
from matplotlib import pyplot

from fxopt_workbench.internals.backward_graph import draw, in_words, recorded
from fxopt_workbench.torch_sources import source

x = torch.tensor([1.0, 2.0], requires_grad=True)
w = torch.tensor([3.0, 4.0], requires_grad=True)
h = x * w
loss = (h.sin() + h).sum()

# %% [markdown]
# A tensor that you made is a [**leaf**](../Glossary.md#leaf-tensor). A tensor that came out of an operation has a `grad_fn`:
# the node that knows how to go back.
#
# **Prediction.** For each of these five tensors: does it ask for gradients, is it a leaf, does it have a `grad_fn`? One of
# them is a surprise.

# %% tags=["nbval-check-output"]
with torch.no_grad():
    quiet = x * 2
kinds = {"x": x, "h": h, "loss": loss, "h.detach()": h.detach(), "made under no_grad": quiet}
print(f"{'':20} requires_grad  is_leaf  grad_fn")
for name, tensor in kinds.items():
    node = tensor.grad_fn.name() if tensor.grad_fn is not None else "-"
    print(f"{name:20} {tensor.requires_grad!s:14} {tensor.is_leaf!s:8} {node}")

# %% tags=["claim"]
# What doesn't require gradients counts as a leaf, wherever it came from.
assert h.detach().is_leaf
assert quiet.is_leaf
assert not h.is_leaf

# %% [markdown]
# What doesn't require gradients counts as a leaf, too, wherever it came from: autograd knows no history of it. So *leaf* means
# "nothing recorded leads here". That's also how a gradient gets lost: one `detach` or `no_grad` on the way, and everything
# before it is out of reach, without a word.
#
# Now walk from the loss back. Every node knows the next ones:

# %%
print(in_words(recorded(loss)))
draw(recorded(loss), "What loss.backward() will walk over")

# %% tags=["claim"]
# The multiplication is reached twice, and at the leaves stands AccumulateGrad.
names = [one.name for one in recorded(loss)]
edges = [names[to] for one in recorded(loss) for to, _ in one.edges]
assert edges.count("MulBackward0") == 2
assert edges.count("AccumulateGrad") == 2

# %% [markdown]
# Two things to notice. The multiplication is reached twice, because `h` was used twice: two gradients will arrive there, and
# must be added. And at the leaves stands a node of its own, `AccumulateGrad`. It adds what arrives to `.grad`, which is why
# you call `zero_grad()` between steps.
#
# Where's the formula? In a text file. For each operator it says what the gradient of each input is, and a generator
# makes C++ out of it:

# %%
source("tools/autograd/derivatives.yaml", "sin")

# %% [markdown]
# `self:` is the backward formula, `result:` is the one for going forwards, which comes later. Since the graph is made anew on
# every run, Python's `if` and `for` need no special treatment: what didn't run isn't in it. That's **define-by-run**.

# %% [markdown]
# ## The engine
#
# *10 minutes.* Who walks over the graph? The [**engine**](../Glossary.md#autograd-engine), written in C++. It keeps
# a queue of nodes that are ready, takes one, calls it, and hands its results to the next nodes. A node is ready when all its
# gradients have come. But if several are ready, which goes first?

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True)
early = x.exp()
late = x.sin()
later = late.cos()
total = (later * early).sum()
nodes = recorded(total)
print(in_words(nodes))
draw(nodes, "Which goes first: Exp or Cos?")

# %% [markdown]
# **Prediction.** After the multiplication, `Cos` and `Exp` are both ready. And after `Cos` there's `Sin`, one step nearer to the
# leaf. Write down the whole order before you run the next cell.

# %% tags=["nbval-check-output"]
order = []
for one in nodes:
    one.node.register_prehook(lambda gradients, one=one: order.append(one.name))
total.backward(retain_graph=True)
print(" -> ".join(order))

# %% tags=["claim"]
# The engine takes the highest sequence number: what the forward pass did last is undone first.
numbers = {one.name: one.sequence for one in nodes}
assert [numbers[name] for name in order[:-1]] == sorted((numbers[name] for name in order[:-1]), reverse=True)
assert numbers["AccumulateGrad"] == 2**64 - 1

# %% [markdown]
# Neither breadth first nor depth first. Every node gets a [**sequence number**](../Glossary.md#sequence-number) when it is
# recorded, and the engine takes the highest: what the forward pass did *last* is undone *first*. Here's the comparison that
# its priority queue uses:

# %%
source("torch/csrc/autograd/engine.h", "CompareNodeTaskTime")

# %% [markdown]
# `AccumulateGrad` has the highest number there is, so a leaf is served as soon as it can be, and its gradient needn't
# wait in memory.
#
# **Prediction.** Autograd adds up gradients that meet. Who turns a gradient of shape `[2, 3]` into one of shape `[3]` if a bias was
# broadcast: the node of the addition, or somebody else?

# %% tags=["nbval-check-output"]
bias = torch.zeros(3, requires_grad=True)
shifted = torch.zeros(2, 3) + bias
addition = shifted.grad_fn
print("the node returns ", [None if one is None else list(one.shape) for one in addition(torch.ones(2, 3))])
shifted.backward(torch.ones(2, 3))
print("the leaf receives", list(bias.grad.shape), bias.grad.tolist())

# %% tags=["claim"]
# The node returned the gradient unsummed, and the leaf got the sum.
assert addition(torch.ones(2, 3))[1].shape == (2, 3)
assert bias.grad.shape == (3,)

# %% [markdown]
# You've just called a node of the graph yourself. It returned the gradient unsummed! The **engine** compares each result with
# what the next node expects (its `_input_metadata`), and sums or casts. That's all you need to write an engine of your own,
# which is Task 1.
#
# On the CPU the engine runs in the thread that called `backward()`. Each GPU gets a thread with a queue of its own, and the order
# by sequence number holds within a queue.

# %% [markdown]
# ## Hooks: stepping in
#
# *10 minutes.* A [**hook**](../Glossary.md#hook) is a function of yours that autograd calls on its way. There are hooks on
# tensors and hooks on nodes, and they run in a fixed order.
#
# **Prediction.** Five hooks, registered in an unhelpful order. Which runs first?

# %% tags=["nbval-check-output"]
log = []
x = torch.ones(2, requires_grad=True)
h = x * 2
y = h.sin().sum()
x.register_post_accumulate_grad_hook(lambda leaf: log.append("x: its .grad is ready"))
h.grad_fn.register_hook(lambda results, gradients: log.append("node of h: has run"))
h.grad_fn.register_prehook(lambda gradients: log.append("node of h: is about to run"))
x.register_hook(lambda gradient: log.append("x: a gradient has come"))
h.register_hook(lambda gradient: log.append("h: a gradient has come"))
y.backward()
print("\n".join(log))

# %% [markdown]
# A hook on a **tensor** sees the complete gradient, before the tensor's node runs, and may return another one in its place. Two
# uses that pay off. First: find the place where a gradient becomes NaN, without changing the model.

# %% tags=["nbval-check-output"]
found = []


def watch(name, tensor):
    tensor.register_hook(lambda gradient: found.append((name, bool(gradient.isnan().any()))))
    return tensor


x = torch.tensor([0.0, 1.0], requires_grad=True)
root = watch("root", x.sqrt())
square = watch("square", root * root)
scaled = watch("scaled", torch.where(x > 0, square, torch.zeros(2)))
scaled.sum().backward()
for name, bad in found:
    print(f"gradient of {name:7} {'has NaN' if bad else 'is fine'}")
print("gradient of x      ", x.grad.tolist())

# %% tags=["claim"]
# Up to root all is well, and at x there's a NaN.
assert not any(bad for _, bad in found)
assert x.grad[0].isnan()
assert not x.grad[1].isnan()

# %% [markdown]
# Up to `root` all is well, and at `x` there's a NaN: the derivative of the square root at 0 is infinite, and infinity times 0
# is NaN. The `where` was meant to avoid that, but it only chooses values. Both branches are differentiated.
#
# Second: change a gradient on the way, for example to limit it.

# %% tags=["nbval-check-output"]
x = torch.tensor([1.0, 1.0], requires_grad=True)
scaled = x * 100
scaled.register_hook(lambda gradient: gradient.clamp(-0.1, 0.1))
(scaled * torch.tensor([5.0, -0.01])).sum().backward()
print([round(one, 6) for one in x.grad.tolist()])

# %% [markdown]
# ## What is kept
#
# *10 minutes.* Look again at the formula of the sine: its gradient needs `self`, the input of the forward pass. So the node keeps
# it, a [**saved tensor**](../Glossary.md#saved-tensor). These are what fills the memory while you train. You can watch each of
# them being packed:

# %%
from torch.autograd.graph import saved_tensors_hooks


def saved_by(function, *inputs):
    """Sizes of what autograd saves while a function runs, each storage once."""
    storages = {}

    def pack(tensor):
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        function(*inputs)
    return list(storages.values())


# %% [markdown]
# **Prediction.** `x` has a million numbers, 4 MB. How much is saved for `x + 1`, `x * 3`, `x.sin()`, `x.exp()`, `x.relu()`,
# `x * x` and `x.sum()`? Zero is a possible answer.

# %% tags=["nbval-check-output"]
x = torch.randn(1000, 1000, requires_grad=True)
functions = {
    "x + 1": lambda: x + 1,
    "x * 3": lambda: x * 3,
    "x.sin()": lambda: x.sin(),
    "x.exp()": lambda: x.exp(),
    "x.relu()": lambda: x.relu(),
    "x * x": lambda: x * x,
    "x.sum()": lambda: x.sum(),
    "x.sin().exp()": lambda: x.sin().exp(),
    "x.exp().sin()": lambda: x.exp().sin(),
}
kept = {name: sum(saved_by(function)) / 1e6 for name, function in functions.items()}
for name, megabytes in kept.items():
    print(f"{name:20} {megabytes:3.0f} MB  {'█' * round(megabytes * 4)}")

# %% tags=["claim"]
# Linear operations keep nothing; x.sin().exp() needs twice as much as x.exp().sin().
assert kept["x + 1"] == kept["x * 3"] == kept["x.sum()"] == 0 < kept["x.sin()"] == kept["x.exp()"] == kept["x.relu()"]
assert kept["x.sin().exp()"] == 2 * kept["x.exp().sin()"]

# %% [markdown]
# Linear operations keep nothing. `sin` keeps its input, `exp` and `relu` their *result*, because the formula is written that way.
# So `x.sin().exp()` needs twice as much as `x.exp().sin()`: there, what one keeps is what the other keeps.
#
# You can trade memory for time. A [checkpoint](../Glossary.md#checkpoint) keeps the input of a block only, and runs the block
# again when the backward pass gets there:

# %%
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.checkpoint import checkpoint

block = torch.nn.Sequential(*(layer for _ in range(6) for layer in (torch.nn.Linear(256, 256), torch.nn.Tanh())))
rows = torch.randn(2048, 256)
results = []
for layer in block:
    layer.register_forward_hook(lambda layer, given, result: results.append(StorageWeakRef(result.untyped_storage())))


def step_of(forward):
    """How many layers' results are alive after the forward pass, and the quickest of five training steps in ms."""
    times = []
    for _ in range(5):
        results.clear()
        start = time.perf_counter()
        output = forward(rows)
        alive = sum(not one.expired() for one in results)
        output.sum().backward()
        times.append(time.perf_counter() - start)
    return alive, 1000 * min(times)


print(f"a layer's result takes {rows.nbytes / 1e6:.1f} MB, and there are {len(block)} layers")
ways = {"as it is": block, "checkpointed": lambda rows: checkpoint(block, rows, use_reentrant=False)}
for name, forward in ways.items():
    alive, milliseconds = step_of(forward)
    print(f"{name:13} {alive} results alive after the forward pass, {milliseconds:5.1f} ms a step")

# %% tags=["claim"]
# Of the twelve results six are kept; the checkpoint keeps the last one only.
assert step_of(block)[0] == 6
assert step_of(ways["checkpointed"])[0] == 1
assert len(block) == 12

# %% [markdown]
# Of the twelve results six are kept: `tanh` saves its result, and the next layer needs the same tensor. The checkpoint keeps the last one
# only, which is the output. It computes everything forwards twice. Dropout makes it delicate: the second run must draw the *same* random numbers,
# and the program around must not notice. In Task 4 you write such a checkpoint, with the same two hooks you've just used.

# %% [markdown]
# ## Writing in place
#
# *10 minutes.* A saved tensor is no copy. So what happens if you overwrite it between the forward and the backward pass?
# Each tensor has a [version counter](../Glossary.md#version-counter), which a write in place raises. Autograd notes the version
# when it saves the tensor, and compares when the backward pass asks for it. Here's the note:

# %%
source("torch/csrc/autograd/saved_variable.h", "saved_version_")

# %% [markdown]
# **Prediction.** Six writes. Which of them raise at once, which in the backward pass, which change the gradient without a word,
# and which do no harm? The right gradient of `exp(x) · 2` at 1 is 5.44.


# %% tags=["nbval-check-output"]
def outcome(write):
    x = torch.ones(1, requires_grad=True)
    y = x.exp()
    z = y * 2
    try:
        write(x, y, z)
    except RuntimeError as error:
        return f"the write raises: {str(error).split('.')[0]}"
    try:
        z.sum().backward()
    except RuntimeError as error:
        return f"backward raises: {str(error).split('which is ')[1].split('. ')[0]}"
    return f"x.grad = {x.grad.item():.2f}"


def through_numpy(x, y, z):
    y.detach().numpy()[0] = 0


writes = {
    "z += 1": lambda x, y, z: z.add_(1),
    "y += 1": lambda x, y, z: y.add_(1),
    "x += 1": lambda x, y, z: x.add_(1),
    "y.detach() += 1": lambda x, y, z: y.detach().add_(1),
    "y.data += 1": lambda x, y, z: y.data.add_(1),
    "through NumPy": through_numpy,
}
for name, write in writes.items():
    print(f"{name:16} {outcome(write)}")

# %% tags=["claim"]
# .data and NumPy are the silent ones; the detached write is noticed, and the leaf refused at once.
outcomes = {name: outcome(write) for name, write in writes.items()}
assert [name for name, one in outcomes.items() if "backward raises" in one] == ["y += 1", "y.detach() += 1"]
assert [name for name, one in outcomes.items() if "write raises" in one] == ["x += 1"]
assert outcomes["z += 1"] == "x.grad = 5.44"
assert "leaf" in outcomes["x += 1"]

# %% [markdown]
# - `z += 1` is harmless: nobody needs `z` (the multiplication keeps the 2).
# - `y += 1` breaks the graph: `exp` keeps its result, and the version has moved.
# - `x += 1` is refused at once: a *leaf that requires grad* has no history, so a write to it could never be undone. Under
#   `no_grad` it's allowed, which is how optimisers do it.
# - `.detach()` shares memory *and* version counter, so the write is noticed. `.data` and NumPy share only the memory. These are the
#   silent ones, and in Task 2 you build a tool that finds them.

# %% [markdown]
# The error says *what* was overwritten, not where. [**Anomaly mode**](../Glossary.md#anomaly-mode) remembers where each node was
# recorded, and looks at every gradient for NaN. It costs time, so switch it on to search, and off again.

# %%
import warnings

x = torch.tensor([0.0], requires_grad=True)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        with torch.autograd.detect_anomaly():
            (x.sqrt() * 0).sum().backward()
    except RuntimeError as error:
        print(error)
[where] = [str(one.message) for one in caught if "Traceback of forward call" in str(one.message)]
print("...recorded in this line:", next(line.strip() for line in where.splitlines() if "sqrt" in line))

# %% [markdown]
# ## Derivatives of your own, and their derivatives
#
# *5 minutes.* When an operator has no derivative, or a bad one, write a `torch.autograd.Function`: `forward` computes,
# `setup_context` says what's kept, `backward` applies the chain rule. Is a backward pass a computation, too? Then autograd can
# record it, with `create_graph=True`. That's [**double backward**](../Glossary.md#double-backward).
#
# **Prediction.** Two cubes. One saves `x`, the other saves `x * x`, computed in `forward` to save time. Both have the right first
# derivative at 2, which is 12. What are their second derivatives?


# %% tags=["nbval-check-output"]
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x * x


class QuickCube(Cube):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0] * inputs[0])

    @staticmethod
    def backward(ctx, gradient):
        (square,) = ctx.saved_tensors
        return gradient * 3 * square


for function in (Cube, QuickCube):
    x = torch.tensor(2.0, requires_grad=True)
    (first,) = torch.autograd.grad(function.apply(x), x, create_graph=True)
    second = torch.autograd.grad(first, x, allow_unused=True)[0] if first.requires_grad else None
    print(f"{function.__name__:10} first {first.item():.0f}, second {second}")

# %% tags=["claim"]
# Nothing leads back from what was computed beforehand; the other cube has the second derivative 6 x.
x = torch.tensor(2.0, requires_grad=True)
firsts = [torch.autograd.grad(one.apply(x), x, create_graph=True)[0] for one in (Cube, QuickCube)]
assert [one.item() for one in firsts] == [12, 12]
assert torch.autograd.grad(firsts[0], x)[0].item() == 12
assert not firsts[1].requires_grad

# %% [markdown]
# Nothing is recorded within `forward` and `setup_context`, so `x * x` is a constant there, and nothing leads back. Save inputs and
# outputs, and compute the rest in `backward`. `torch.autograd.gradcheck` and `gradgradcheck` compare a Function with finite
# differences; let them run in your tests.

# %% [markdown]
# ## Forwards
#
# *10 minutes.* The chain rule is a product of matrices, and you may multiply it from either end. Reverse mode begins at the result.
# [**Forward mode**](../Glossary.md#forward-mode) begins at the input: beside each value runs its derivative in one direction,
# as a [**dual number**](../Glossary.md#dual-number). What comes out is a
# [**Jacobian-vector product**](../Glossary.md#jacobian-vector-product), and nothing has to be saved for later.

# %% tags=["nbval-check-output"]
from torch.autograd import forward_ad

with forward_ad.dual_level():
    dual = forward_ad.make_dual(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0]))
    value, tangent = forward_ad.unpack_dual(dual.sin() * 3)
print("value", [round(one, 3) for one in value.tolist()], "tangent", [round(one, 3) for one in tangent.tolist()])
print("saved for later:", saved_by(lambda: torch.func.jvp(torch.sin, (torch.ones(3),), (torch.ones(3),))))

# %% [markdown]
# **Prediction.** The whole Jacobian of a function from n numbers to m numbers takes n forward passes or m backward passes. For a
# function from 3 to 2,000, and one from 2,000 to 3, which way is quicker, and by about how much?

# %%
times = {}
for inputs, outputs in ((3, 2000), (2000, 3), (100, 100)):
    matrix, point = torch.randn(outputs, inputs), torch.randn(inputs)
    for name, way in (("forwards", torch.func.jacfwd), ("backwards", torch.func.jacrev)):
        jacobian = way(lambda x, matrix=matrix: torch.tanh(matrix @ x))
        jacobian(point)
        start = time.perf_counter()
        for _ in range(5):
            jacobian(point)
        times[f"{inputs} to {outputs}, {name}"] = (time.perf_counter() - start) / 5 * 1e3
for name, milliseconds in times.items():
    print(f"{name:24} {milliseconds:7.2f} ms")
figure, axes = pyplot.subplots(figsize=(7, 2.6), layout="constrained")
axes.barh(list(times), list(times.values()), color="tab:blue")
axes.set(xlabel="ms for the whole Jacobian")
axes.invert_yaxis()
pyplot.close(figure)
figure

# %% tags=["claim"]
# A function of few inputs is quicker forwards, one with few outputs backwards, by less than the ratio of passes.
for inputs, outputs, quick, slow in ((3, 2000, "forwards", "backwards"), (2000, 3, "backwards", "forwards")):
    ratio = times[f"{inputs} to {outputs}, {slow}"] / times[f"{inputs} to {outputs}, {quick}"]
    assert 1 < ratio < 2000 / 3, ratio

# %% [markdown]
# `vmap` runs all directions together, so the times don't differ quite as much as the numbers of passes. What each mode is for:
#
# | | forward mode | reverse mode |
# | --- | --- | --- |
# | one pass gives | all outputs in one direction | one output by all inputs |
# | memory | twice the run: each value with its derivative | everything saved |
# | good for | few inputs: a simulation's parameters, sensitivities, directional derivatives | few outputs: a loss |
# | where it ends | operators without a formula for it; optimisers don't know it | memory |
#
# Both together give curvature: forward mode *over* the gradient is a Hessian-vector product, for about the price of two gradients.

# %% tags=["nbval-check-output"]
point, direction = torch.tensor([1.0, 2.0]), torch.tensor([1.0, 0.0])


def energy(x):
    return (x[0] ** 2 * x[1]).sum()


_, curvature = torch.func.jvp(torch.func.grad(energy), (point,), (direction,))
print(
    "Hessian times direction:", curvature.tolist(), "and the whole Hessian:", torch.func.hessian(energy)(point).tolist()
)

# %% [markdown]
# The [documentation](https://docs.pytorch.org/docs/2.13/autograd.html) calls forward mode *beta*. That isn't about the numbers: not every operator has a forward formula yet, and the API may
# change. Count for yourself how far it has come. Composite operators need no entry, since their parts bring the formulas:

# %%
import re

from fxopt_workbench.torch_sources import installed

entries = installed("tools/autograd/derivatives.yaml").read_text().split("\n- name: ")[1:]
# The first line is the signature. A forward formula gives a result, or reads an input's tangent, such as self_t.
formulas = [re.sub('"[^"]*"', "", entry.partition("\n")[2]) for entry in entries]
forward = sum(bool(re.search(r"^  result\w*:|_t\b", formula, re.MULTILINE)) for formula in formulas)
print(f"{forward} of {len(entries)} formulas say how to go forwards")

# %% [markdown]
# ## The same from C++
#
# *5 minutes.* Everything in this lesson is C++ underneath, and you can write it there: modules, optimisers, `backward()`. The **C++
# frontend** serves where no Python is wanted: in a game engine, a robot, a simulation that is C++ already. A model looks familiar:

# %%
from fxopt_workbench.internals.cpp_frontend import PROGRAM

print(PROGRAM)

# %% tags=["claim"]
# It's an ordinary program, no Python inside.
assert "main()" in PROGRAM
assert "Python" not in PROGRAM

# %% [markdown]
# To build and run it, you need a compiler and about a minute. In a terminal:
#
# ```
# python -m fxopt_workbench.internals.u4_autograd --cpp
# ```
#
# It's an ordinary program: three libraries to link, no Python inside. Tensors take over memory that your code owns with
# `torch::from_blob`, so a simulation's arrays become tensors without a copy. Its autograd is the engine that you've watched; here's the
# class that a linear layer is:

# %%
source("torch/csrc/api/include/torch/nn/modules/linear.h", "LinearImpl", most=40)

# %% [markdown]
# To *run* a trained model from C++, without its Python code, there's a shorter way today: `torch.export` and AOTInductor, in Unit 7.

# %% [markdown]
# ## Work that starts work
#
# *5 minutes.* Two different things are called **dynamic parallelism**. In TorchScript, a function may start another one
# without waiting for it: `fork` gives a future, `wait` its result.

# %%
with warnings.catch_warnings():
    warnings.simplefilter("ignore")

    @torch.jit.script
    def two_products(x, y):
        first = torch.jit.fork(torch.mm, x, y)  # runs on another thread
        second = torch.mm(y, x)
        return torch.jit.wait(first) + second


print(two_products(torch.eye(2), torch.ones(2, 2)).tolist())
print(
    [
        line.split(" #")[0].strip()
        for line in str(two_products.graph).splitlines()
        if "= prim::fork" in line or "::wait" in line
    ]
)
print("threads for it:", torch.get_num_interop_threads())

# %% tags=["claim"]
# Gradients flow through it.
leaf = torch.eye(2, requires_grad=True)
two_products(leaf, torch.ones(2, 2)).sum().backward()
assert leaf.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]

# %% [markdown]
# That's parallelism between operators, on the CPU's threads, and gradients flow through it. On a GPU, kernels are
# asynchronous anyway; streams play that part.
#
# In CUDA, dynamic parallelism is a *kernel* that launches kernels, so that a tree search or an adaptive grid needn't go back to
# the CPU. PyTorch's operators don't offer it, and neither does TorchScript, whatever you may read: you'd write such a kernel in CUDA
# and register it as an operator (Unit 5). And TorchScript itself is deprecated: the warning that the
# cell above silences tells you to use `torch.compile` or `torch.export`.

# %% [markdown]
# ## What to remember
#
# - The graph is a record of one run. **Leaves** are where nothing was recorded, and their gradients end in `AccumulateGrad`.
# - The engine calls a node when all its gradients have come; of several it takes the highest **sequence number**. It adds up, sums
#   what was broadcast, and casts.
# - **Hooks** on tensors see gradients and may change them; hooks on saved tensors decide what is kept.
# - The **version counter** catches writes in place. `.data` and NumPy go past it.
# - Save inputs and outputs, and your Function has second derivatives.
# - **Forward mode** for few inputs, **reverse mode** for few outputs, one over the other for curvature.
#
# Now build the engine: [exercise 14](ex_14_autograd.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - A. Paszke and others, *Automatic differentiation in PyTorch*, 2017. A. Griewank and A. Walther, *Evaluating Derivatives*, 2008.
# - PyTorch documentation: [Autograd mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html),
#   [Extending PyTorch](https://docs.pytorch.org/docs/stable/notes/extending.html),
#   [forward-mode AD](https://docs.pytorch.org/tutorials/intermediate/forward_ad_usage.html).
# - T. Chen and others, *Training Deep Nets with Sublinear Memory Cost*, 2016, on checkpoints. S. K. Esser and others, *Learned
#   Step Size Quantization*, 2020, for Task 3.
# - PyTorch's own notes in the headers quoted above, such as *NOTE [ Sequence Number ]* in `node.h`.
