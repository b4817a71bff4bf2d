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
# # A crash course in graphs
#
# *25 minutes. You need Python and a little PyTorch; nothing about graphs.*
#
# Everything this week happens on graphs: they are captured, read, changed, checked and compiled. By the end of this
# page you will have seen three things that are all called graph, know which one is meant, and have built one by hand.

# %% [markdown]
# ## A formula is a graph
#
# *5 minutes.* A function of two tensors. Run it.

# %% tags=["nbval-check-output"]
import torch
from torch import fx, nn


def formula(a, b):
    total = a + b
    active = torch.relu(a)
    return total * active


a, b = torch.tensor([1.0, -2.0]), torch.tensor([3.0, 5.0])
print(formula(a, b))

# %% [markdown]
# Below, the same function as a picture: a box for each input, for each operation and for the result, and an arrow
# from each value to whoever reads it.
#
# **Prediction.** How many boxes will there be, and how many arrows leave the box of `a`?

# %%
from fxopt_workbench.pictures import draw

traced = fx.symbolic_trace(formula)
draw(traced, title="total * active")

# %% tags=["nbval-check-output"]
for node in traced.graph.nodes:
    print(f"{node.name:8} reads {[str(other) for other in node.all_input_nodes]}")

# %% [markdown]
# Such a picture is a [**computation graph**](../Glossary.md#computation-graph). A box is a
# [**node**](../Glossary.md#node); an arrow says that one node reads what another one computes. Arrows never lead
# back, so the nodes can be put in an order in which each stands after all that it reads: then computing the graph is
# one walk through a list.
#
# What the picture does *not* say is as important: it does not say that `total` must come before `active`. Neither
# reads the other, so they may change places, or run at the same time. Finding such freedom is what a compiler lives
# on.

# %% [markdown]
# ## What autograd remembers
#
# *6 minutes.* You have used one graph already, perhaps without seeing it. Tell PyTorch that `a` is to be learned, and
# run the same function again.

# %% tags=["nbval-check-output"]
a = torch.tensor([1.0, -2.0], requires_grad=True)
result = formula(a, b)


def show_history(function, depth=0):
    print("    " * depth + type(function).__name__)
    for earlier, _ in function.next_functions:
        if earlier is not None:
            show_history(earlier, depth + 1)


show_history(result.grad_fn)

# %% [markdown]
# Read it from the top: the last operation was a multiplication, whose inputs came from an addition and a ReLU, and
# both lead to `a`. While the function ran, each operation left a note of how to go *back* through it. These notes are
# the [**autograd graph**](../Glossary.md#autograd-graph); `backward()` walks along it.
#
# **Prediction.** There are two inputs. Why does `b` not show up? And what is `result.grad_fn` when the function runs
# under `torch.no_grad()`?

# %% tags=["nbval-check-output"]
result.sum().backward()
print("gradient of a:", a.grad)
with torch.no_grad():
    print("grad_fn without gradients:", formula(a, b).grad_fn)

# %% [markdown]
# `b` is no parameter: nothing asked for its gradient, so nothing was noted. Without gradients there are no notes at
# all.
#
# So the autograd graph is a *record of one run*. Let the function decide something, and the record differs from run
# to run.


# %% tags=["nbval-check-output"]
def decides(a):
    if a.sum() > 0:
        return torch.relu(a)
    return -a


for values in ([1.0, 2.0], [-1.0, -2.0]):
    a = torch.tensor(values, requires_grad=True)
    print(values, "->", type(decides(a).grad_fn).__name__)

# %% [markdown]
# ## A program written down
#
# *6 minutes.* The other graph, the one of this week, is not a record of the way back. It is the *program itself*, as
# a list that can be read and changed. Print the one that was drawn above.

# %% tags=["nbval-check-output"]
print(traced.graph)

# %% [markdown]
# This is an [**FX graph**](../Glossary.md#fx-graph). Each line is a node: its name, what kind of node it is, what it
# calls and with which arguments. There are six kinds:
#
# | `node.op` | what it is |
# | --- | --- |
# | `placeholder` | an input |
# | `get_attr` | a stored tensor, such as a weight |
# | `call_function` | a call of a function: `torch.relu`, `operator.add` |
# | `call_method` | a call of a method of a tensor: `x.view(…)` |
# | `call_module` | a call of a layer: `nn.Linear` |
# | `output` | what is returned |
#
# A graph cannot run by itself: it may name layers and weights that must lie somewhere. Graph and layers together are
# a [**graph module**](../Glossary.md#graph-module), which is an ordinary `nn.Module` whose `forward` was *written
# from the graph*:

# %% tags=["nbval-check-output"]
print(traced.code)
print(traced(torch.tensor([1.0, -2.0]), b))

# %% [markdown]
# **Prediction.** The tracer that wrote this graph ran the function once with stand-ins instead of tensors. What will
# it do with `decides`, which has to know whether a sum is positive?

# %% tags=["nbval-check-output"]
try:
    fx.symbolic_trace(decides)
except fx.proxy.TraceError as error:
    print("TraceError:", error)

# %% [markdown]
# The two kinds side by side:
#
# | | autograd graph | FX graph |
# | --- | --- | --- |
# | made | while the program runs, each time anew | before it runs, once |
# | says | how to go back through what happened | what is to be computed |
# | nodes | derivatives (`MulBackward0`) | operations (`mul`) |
# | knows a branch not taken | no | no: it must be captured another way |
# | you can change it | no | yes, and then it computes something else |
#
# How to get an FX graph out of a program that decides is what day 3 is about.

# %% [markdown]
# ## Who reads whose result
#
# *3 minutes.* A node knows what it reads (`args`), and also who reads it: its [**users**](../Glossary.md#user).
#
# **Prediction.** How many users has `a`? And may one erase a node that has users?

# %% tags=["nbval-check-output"]
for node in traced.graph.nodes:
    print(f"{node.name:8} is read by {[str(user) for user in node.users]}")

relu = next(node for node in traced.graph.nodes if node.name == "relu")
try:
    traced.graph.erase_node(relu)
except RuntimeError as error:
    print("refused:", str(error).splitlines()[0])

# %% [markdown]
# ## Building one by hand
#
# *5 minutes.* An FX graph is a list to which you append. Each method of `fx.Graph` makes a node and returns it, so
# that the next one can read it.

# %% tags=["nbval-check-output"]
graph = fx.Graph()
x = graph.placeholder("x")
hidden = graph.call_module("layer", (x,))
shifted = graph.call_function(torch.add, (hidden, 1.0))
graph.output(shifted)
graph.lint()

layer = nn.Linear(3, 2)
nn.init.ones_(layer.weight)
nn.init.zeros_(layer.bias)
built = fx.GraphModule({"layer": layer}, graph)
print(built.code)
print(built(torch.tensor([[1.0, 2.0, 3.0]])))

# %%
draw(built, title="A graph built by hand")

# %% [markdown]
# [`lint`](../Glossary.md#lint) checks that the list makes sense: each node reads only nodes that stand before it, and
# names only layers that are there. It does not know whether the graph computes what you want.
#
# Now let the graph use another operation.
#
# **Prediction.** What does the module print after the change: something new, or the same as before?

# %% tags=["nbval-check-output"]
shifted.target = torch.mul
shifted.args = (hidden, 10.0)
print("before recompile:", built(torch.tensor([[1.0, 2.0, 3.0]])))
built.recompile()
print("after recompile: ", built(torch.tensor([[1.0, 2.0, 3.0]])))

# %% [markdown]
# The module runs its *code*, and code is written from the graph only when you say so. Forgetting `recompile` is the
# most common mistake of the week; the checks will tell you.
#
# ## What to remember
#
# - A **computation graph** says which operation reads whose result, and nothing more about the order.
# - The **autograd graph** is a record of one run, for the way back. An **FX graph** is the program, written down, and
#   may be
#   changed.
# - A **graph module** is a graph with its layers; after a change of the graph, `recompile`.
#
# Next: [shapes of convolutions](conv_shapes.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - J. K. Reed et al., *torch.fx: Practical Program Capture and Transformation for Deep Learning in Python*, MLSys
#   2022.
# - PyTorch documentation: [torch.fx](https://docs.pytorch.org/docs/stable/fx.html),
#   [Autograd mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html).
