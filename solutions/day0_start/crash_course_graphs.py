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
# A compiler can't improve a program that it can't see. What it sees is a graph, and everything you do this week you do
# to graphs: capture them, read them, change them, check them, compile them. By the end of this page you'll have met
# three things that people all call "the graph", you'll know which one they mean, and you'll have built one by hand.

# %% [markdown]
# ## A formula is a graph
#
# *5 minutes.* Start with something you can read at a glance: a function of two tensors. Run it.

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
# Now let's draw the same function: a box for each input, each operation and the result, and an arrow from each value
# to everything that reads it.
#
# **Prediction.** How many boxes will you see, and how many arrows leave the box of `a`?

# %%
from fxopt_workbench.pictures import draw

traced = fx.symbolic_trace(formula)
draw(traced, title="total * active")

# %% tags=["nbval-check-output"]
for node in traced.graph.nodes:
    print(f"{node.name:8} reads {[str(other) for other in node.all_input_nodes]}")

# %% [markdown]
# This picture is a [**computation graph**](../Glossary.md#computation-graph). Each box is a
# [**node**](../Glossary.md#node). An arrow means that one node reads what another one computes. Arrows never lead back,
# so you can line the nodes up with each one behind everything it reads. To compute the graph, walk along the line.
#
# What the picture does *not* say matters just as much. It doesn't say that `total` has to come before `active`. Neither
# one reads the other, so you could swap them, or run both at the same time. Compilers live off that kind of freedom.

# %% [markdown]
# ## What autograd remembers
#
# *6 minutes.* You've used one graph many times, perhaps without ever seeing it: the one that computes your gradients.
# Tell PyTorch that you want the gradient of `a`, and run the same function again.

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
# Read it from the top. The last operation was a multiplication. Its inputs came from an addition and a ReLU, and both
# of those lead to `a`. As the function ran, each operation left a note on how to go *back* through it. Together these
# notes are the [**autograd graph**](../Glossary.md#autograd-graph), and `backward()` walks along it.
#
# **Prediction.** The function has two inputs. Why doesn't `b` show up? And what will `result.grad_fn` be if you run the
# function under `torch.no_grad()`?

# %% tags=["nbval-check-output"]
result.sum().backward()
print("gradient of a:", a.grad)
with torch.no_grad():
    print("grad_fn without gradients:", formula(a, b).grad_fn)

# %% tags=["claim"]
# Autograd notes nothing for b, and nothing at all under no_grad.
assert not b.requires_grad
with torch.no_grad():
    assert formula(torch.ones(2, requires_grad=True), b).grad_fn is None

# %% [markdown]
# Nobody asked for the gradient of `b` (its `requires_grad` is `False`), so autograd noted nothing for it. Under
# `no_grad` it notes nothing at all.
#
# The autograd graph, then, is a *record of one run*. If the function makes a decision, two runs can leave two
# different records.


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
# *6 minutes.* You can't optimise a record of what has already happened. The graph that this week is about is the
# *program itself*, written down as a list that you can read and change. Print the one you drew above.

# %% tags=["nbval-check-output"]
print(traced.graph)

# %% [markdown]
# This is an [**FX graph**](../Glossary.md#fx-graph). Each line is a node: its name, its kind, what it calls, and with
# which arguments. There are six kinds:
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
# A graph can't run on its own. It may name layers and weights, and those have to live somewhere. A graph together with
# its layers is a [**graph module**](../Glossary.md#graph-module): an ordinary `nn.Module` whose `forward` PyTorch
# *wrote from the graph*. Here's what it wrote:

# %% tags=["nbval-check-output"]
print(traced.code)
print(traced(torch.tensor([1.0, -2.0]), b))

# %% [markdown]
# **Prediction.** To write this graph, the tracer ran the function once, with stand-ins instead of tensors. What will it
# do with `decides`, which has to know whether a sum is positive?

# %% tags=["nbval-check-output"]
try:
    fx.symbolic_trace(decides)
except fx.proxy.TraceError as error:
    print("TraceError:", error)

# %% [markdown]
# Here are the two kinds side by side:
#
# | | autograd graph | FX graph |
# | --- | --- | --- |
# | made | while the program runs, each time anew | before it runs, once |
# | says | how to go back through what happened | what is to be computed |
# | nodes | derivatives (`MulBackward0`) | operations (`mul`) |
# | knows the branch that a run did not take | no | no: you have to capture that one another way |
# | you can change it | no | yes, and then it computes something else |
#
# On day 3 you'll get an FX graph out of a program that makes decisions, too.

# %% [markdown]
# ## Who reads whose result
#
# *3 minutes.* Before you change a node you want to know who'd notice. A node knows what it reads (`args`), and it also
# knows who reads it: its [**users**](../Glossary.md#user).
#
# **Prediction.** How many users does `a` have? And can you erase a node that has users?

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
# *5 minutes.* The surest way to understand a graph is to build one. You append to it, node by node. Each method of
# `fx.Graph` makes a node and returns it, so that the next one can read it.

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
# [`lint`](../Glossary.md#lint) checks that the list makes sense: that each node reads only nodes before it, and names
# only layers that exist. It can't know whether the graph computes what you want.
#
# Now swap in another operation.
#
# **Prediction.** What will the module print after the change: something new, or the same as before?

# %% tags=["nbval-check-output"]
shifted.target = torch.mul
shifted.args = (hidden, 10.0)
print("before recompile:", built(torch.tensor([[1.0, 2.0, 3.0]])))
built.recompile()
print("after recompile: ", built(torch.tensor([[1.0, 2.0, 3.0]])))

# %% tags=["claim"]
# The code is written from the graph only when you ask.
shifted.args = (hidden, 7.0)
assert "7.0" in str(built.graph)
assert "7.0" not in built.code

# %% [markdown]
# The module runs its *code*, and PyTorch writes that code from the graph only when you ask. Forgetting `recompile` is
# the most common mistake of the week. The checks will tell you.
#
# ## What to remember
#
# - A **computation graph** says which operation reads whose result. It says nothing else about the order.
# - The **autograd graph** records one run, for the way back. An **FX graph** is the program, written down, and you can
#   change it.
# - A **graph module** is a graph with its layers. After you change the graph, call `recompile`.
#
# Next: [shapes of convolutions](conv_shapes.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - J. K. Reed et al., *torch.fx: Practical Program Capture and Transformation for Deep Learning in Python*, MLSys
#   2022.
# - PyTorch documentation: [torch.fx](https://docs.pytorch.org/docs/stable/fx.html),
#   [Autograd mechanics](https://docs.pytorch.org/docs/stable/notes/autograd.html).
