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
# # Day 2: FX graphs, and how to change them
#
# *About 120 minutes. You need day 1, or to have seen a graph that Dynamo captured.*
#
# A compiler earns its keep between capture and code: it *changes the graph*. It removes what nobody needs, computes
# once what was computed twice, folds a normalisation into the convolution before it, and trades time for memory. Each
# of these changes is a [**rewrite**](../Glossary.md#rewrite), and each is legal only under a condition. Forget the
# condition and the program still runs, but its results are wrong: silently, on some inputs only, in training only, or
# from the second call on.

# %% [markdown]
# In this lesson you take FX apart: what a graph is made of, where it comes from, and how you run, change and check
# one. Then you'll see, one by one, what a rewrite can break besides values. In the exercise you write the rewrites
# yourself. Before a surprising result you'll find a **prediction**: answer it in your head before you run the cell.

# %%
import torch
from torch import fx, nn

from fxopt_core.devices import choose_device
from fxopt_workbench.pictures import draw

device = choose_device()
print("torch", torch.__version__, "on", device.type)

# %% [markdown]
# ## A graph is a list of nodes
#
# *10 minutes.*
#
# `torch.fx` lets you treat a program as data (Reed et al., *torch.fx*, MLSys 2022). The simplest way to get a graph is
# to run `forward` with stand-ins for the inputs, called [**proxies**](../Glossary.md#proxy), which note every
# operation done to them. This is [**symbolic tracing**](../Glossary.md#symbolic-tracing). Here's a small network and
# its [FX graph](../Glossary.md#fx-graph).


# %%
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.full((4,), 0.5))

    def forward(self, x):
        hidden = self.layer(x)
        hidden = torch.relu(hidden) * self.scale
        return hidden.sum(dim=1)


torch.manual_seed(0)
small = fx.symbolic_trace(Small())
draw(small, title="A small network: every kind of node")

# %% [markdown]
# Here's the same graph as a list, in the order in which it runs. A [**node**](../Glossary.md#node) has a kind (`op`),
# a `name` that is unique in the graph, a `target` (what is called or read), and arguments.

# %% tags=["nbval-check-output"]
for node in small.graph.nodes:
    target = node.target if isinstance(node.target, str) else node.target.__name__
    print(f"{node.op:14} {node.name:8} target {target:8} args {node.args!s:18} kwargs {dict(node.kwargs)}")

# %% [markdown]
# | `op` | what it does | `target` |
# | --- | --- | --- |
# | `placeholder` | takes an input | the argument's name |
# | `get_attr` | reads a [parameter](../Glossary.md#parameter), [buffer](../Glossary.md#buffer) or constant | its path |
# | `call_function` | calls a function | the function |
# | `call_method` | calls a method of its first argument | the method's name |
# | `call_module` | calls a submodule | its path |
# | `output` | returns | always `output` |
#
# ## Edges: who reads what
#
# *5 minutes.*
#
# Before you change a node, you need to know who reads it. FX keeps no list of edges: an edge is a node among another
# node's arguments, even deep in a list or in a keyword argument. Both ends know about it: `node.all_input_nodes` and
# `node.users`.
#
# **Prediction.** How many [users](../Glossary.md#user) does `x` have in `x * x`? And is the `output` node a user of
# what it returns?

# %% tags=["nbval-check-output"]


class Square(nn.Module):
    def forward(self, x):
        squared = x * x
        return squared, torch.cat([squared, x], dim=0)


square = fx.symbolic_trace(Square())
for node in square.graph.nodes:
    print(
        f"{node.name:8} reads {[source.name for source in node.all_input_nodes]}, users {[u.name for u in node.users]}"
    )

# %%
draw(square, title="x is read twice by one node: one user", highlight=["x"])

# %% [markdown]
# <details><summary>What to see here</summary>
#
# `users` is a dictionary whose keys are nodes: `mul` is in it once, though it reads `x` twice. `output` is a user like
# any other. When you ask "does anyone else read this?", count it. Otherwise you fuse away a value that the caller
# gets.
# </details>
#
# ## A graph module is a graph and code
#
# *10 minutes.*
#
# A [**`GraphModule`**](../Glossary.md#graph-module) holds three things: the graph, the parameters and submodules that
# it names, and `forward`, Python code that was *written from* the graph.

# %%
print(small.code)

# %% [markdown]
# Change the graph: ReLU becomes tanh.
#
# **Prediction.** What will the two lines print?

# %% tags=["nbval-check-output"]
x = torch.tensor([[-1.0, 2.0]])
two = fx.symbolic_trace(nn.Sequential(nn.ReLU()))
activation = next(node for node in two.graph.nodes if node.op == "call_module")
with two.graph.inserting_after(activation):
    new = two.graph.call_function(torch.tanh, (activation.args[0],))
activation.replace_all_uses_with(new)
two.graph.erase_node(activation)
print("before recompile:", two(x))
two.recompile()
print("after recompile: ", two(x))

# %% [markdown]
# <details><summary>Why?</summary>
#
# `two(x)` runs the code, and the code was written before the change. `recompile()` writes it again. If you forget it,
# your rewrite changes nothing, and no error tells you. It's the most common mistake in this trade.
# </details>
#
# ## How every rewrite goes
#
# *10 minutes.*
#
# You just saw the whole pattern, in five steps:
#
# 1. find the node;
# 2. insert the new one at a place where its inputs already exist (`inserting_before`, `inserting_after`);
# 3. let all readers of the old one read the new one (`replace_all_uses_with`);
# 4. erase the old one, which nobody reads any more (`erase_node`);
# 5. `graph.lint()` to check the structure, `recompile()` to write the code.
#
# What does `lint` find? Insert a node *before* what it reads:

# %% tags=["nbval-check-output"]
early = fx.symbolic_trace(Square())
mul = next(node for node in early.graph.nodes if node.name == "mul")
with early.graph.inserting_before(mul):
    wrong_place = early.graph.call_function(torch.relu, (mul,))
try:
    early.graph.lint()
except RuntimeError as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# [`lint`](../Glossary.md#lint) checks that names are unique, that a node stands after what it reads, and that targets
# exist. It can't know whether the graph still *means* the same.
#
# ## What symbolic tracing does not see
#
# *10 minutes.*
#
# Tracing runs `forward` once, with proxies, so what Python does along the way happens once, too. Python unrolls the
# loops. And it can't take a branch that depends on a value, because a proxy has none.


# %% tags=["nbval-check-output"]
class Loop(nn.Module):
    def forward(self, x):
        for step in range(3):
            x = torch.relu(x) + step
        return x


class Branch(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


print([node.name for node in fx.symbolic_trace(Loop()).graph.nodes])
try:
    fx.symbolic_trace(Branch())
except fx.proxy.TraceError as error:
    print("TraceError:", str(error).splitlines()[0])

# %% [markdown]
# That failure is loud. The next two are silent.
#
# **Prediction.** `Counting` changes its argument in place and counts its calls. We trace it and call it twice. What do
# `x` and `calls` hold afterwards, for the original and for the traced module?


# %% tags=["nbval-check-output"]
class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        x += 1
        return x * 2


for name, module in (("original", Counting()), ("traced", fx.symbolic_trace(Counting()))):
    x = torch.zeros(2)
    module(x)
    module(x)
    calls = getattr(module, "calls", None)
    print(f"{name:9} x = {x.tolist()}, calls = {None if calls is None else calls.item()}")

# %%
draw(fx.symbolic_trace(Counting()), title="What is left of Counting: an addition that writes nothing")

# %% [markdown]
# <details><summary>What happened?</summary>
#
# A proxy has no in-place addition, so Python fell back to `x + 1`. That makes a new value, and the caller's tensor
# stays as it was. And `self.calls += 1` involves no proxy. It ran once, *while tracing*, and left no node.
# `torch.export` and Dynamo get both right; day 3 compares them. Symbolic tracing is for programs without such effects.
# </details>
#
# ## Retracing, leaf modules, and a tracer of your own
#
# *10 minutes.*
#
# A `GraphModule` is a module with a `forward`, so you can trace it again. **Retracing** shows you what its code really
# runs. The **tracer** decides whether a submodule becomes one node or gets opened. A submodule that it keeps whole is
# a [**leaf module**](../Glossary.md#leaf-module). Modules of `torch.nn` are leaves by default. Your own tracer may
# open them.


# %% tags=["nbval-check-output"]
class OpenEverything(fx.Tracer):
    def is_leaf_module(self, module, path):
        return False


block = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))
closed = fx.symbolic_trace(block)
opened = fx.GraphModule(block, OpenEverything().trace(block))
again = fx.symbolic_trace(opened)
for name, module in (("leaves", closed), ("opened", opened), ("retraced", again)):
    print(f"{name:9}", [node.name for node in module.graph.nodes])

# %%
draw(closed, title="With leaves: a rewrite sees layers")

# %%
draw(opened, title="Opened: a rewrite sees functions and weights")

# %% tags=["claim"]
# With leaves a rewrite sees layers; opened, it sees functions and weights.
assert {node.op for node in closed.graph.nodes} == {"placeholder", "call_module", "output"}
assert {node.op for node in opened.graph.nodes} == {"placeholder", "get_attr", "call_function", "output"}

# %% [markdown]
# Which one is better depends on what your rewrite looks for. To fold a BatchNorm, you want to see modules. A compiler
# wants operators.
#
# ## Running a graph node by node: `Interpreter`
#
# *10 minutes.*
#
# `fx.Interpreter` runs a graph without its code, one node at a time, and lets you look in at each. Ten lines turn it
# into a tool that notes every shape: [**shape propagation**](../Glossary.md#shape-propagation).
# (`torch.fx.passes.shape_prop` has one ready-made.)


# %% tags=["nbval-check-output"]
class NoteShapes(fx.Interpreter):
    def run_node(self, node):
        value = super().run_node(node)
        if isinstance(value, torch.Tensor):
            node.meta["val"] = value
            print(f"{node.name:6} {tuple(value.shape)}")
        return value


_ = NoteShapes(opened).run(torch.randn(3, 4))

# %% [markdown]
# What you learn about a node isn't part of the program, so put it into the dictionary `node.meta`. Our pictures read
# it: now every box has a shape.

# %%
draw(opened, title="After shape propagation")

# %% [markdown]
# These are the shapes of *one* run. If your rewrite writes `3` because the batch was 3, it has hard-coded a shape, and
# it breaks at the next batch size.
#
# ## Writing a new graph while running the old: `Transformer`
#
# *5 minutes.*
#
# `fx.Transformer` is an interpreter that runs the graph with proxies. Override a method, and you decide what goes into
# the new graph. The old graph stays as it is.

# %% tags=["nbval-check-output"]


class GeluBecomesRelu(fx.Transformer):
    def call_function(self, target, args, kwargs):
        if target is nn.functional.gelu:
            return super().call_function(nn.functional.relu, args[:1], {})
        return super().call_function(target, args, kwargs)


transformed = GeluBecomesRelu(opened).transform()
print("old:", [node.name for node in opened.graph.nodes if node.op == "call_function"])
print("new:", [node.name for node in transformed.graph.nodes if node.op == "call_function"])

# %%
draw(transformed, title="A new graph, written by a Transformer", highlight=["relu"])

# %% [markdown]
# ## What else a node does: effects
#
# *10 minutes.*
#
# So far a node computed a value. Some nodes do more. What they do besides is an [**effect**](../Glossary.md#effect). A
# node may *write* into a tensor, *draw* from the random stream, switch a *mode* (gradients, autocast), or *check*
# something and stop the program. The next cell prints what `fxopt_core` knows about some nodes. It reads the schemas of
# PyTorch's operators; it doesn't go by a list of names.


# %% tags=["nbval-check-output"]
class Effectful(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        a = torch.relu(x)
        a.add_(1)
        b = nn.functional.dropout(a, 0.5, True)
        c = self.norm(b)
        d = a.view(-1)
        return c.sum() + d.sum()


from fxopt_core.graphs.effects import effects_of

effectful = fx.symbolic_trace(Effectful().train())
for node in effectful.graph.nodes:
    effects = effects_of(node)
    print(
        f"{node.name:8} writes {[str(place) for place in effects.writes]}, "
        f"shares memory with {[str(place) for place in effects.aliases]}, random {effects.random}"
    )

# %% [markdown]
# `norm` writes its running statistics, but only in training. `add_` writes into `relu`. `dropout` doesn't work in
# place, and still it "shares memory". The column says what *may* be shared: with a rate of 0, or in evaluation,
# PyTorch's dropout returns its input itself, not a copy. Your rewrite has to expect that. `view` computes nothing: it
# is another name for the same memory, an [**alias**](../Glossary.md#alias). And `sum_2` reads that memory: a write
# through either name changes what the other one reads.
#
# ## Aliasing: the write that came from elsewhere
#
# *10 minutes.*
#
# **Prediction.** Both `first` and `second` are `torch.exp(h)`. Will they be equal?


# %% tags=["nbval-check-output"]
class WriteThroughView(nn.Module):
    def forward(self, x):
        h = x * 2
        first = torch.exp(h)
        h.view(-1).zero_()
        second = torch.exp(h)
        return first, second


write_through_view = fx.symbolic_trace(WriteThroughView())
first, second = write_through_view(torch.ones(1, 2))
print(first.tolist(), second.tolist())

# %%
draw(write_through_view, title="Equal expressions, different values", highlight=["exp", "exp_1", "zero_"])

# %% [markdown]
# No edge leads from `zero_` to `exp_1`: edges show values, not memory. If you trust the picture and merge the two, you
# get a wrong result. That's why a compiler numbers the *versions* of each piece of memory: two reads are the same only
# if they read the same version. Here's how our own pass puts it:

# %% tags=["nbval-check-output"]
from fxopt_core.passes import run_pass

result = run_pass("common_subexpressions", write_through_view)
print("rewrites:", len(result.rewrites))
for refusal in result.refusals:
    print(f"refused at {refusal.node}: {refusal.reason}")

# %% [markdown]
# ## Draws: the order is part of the program
#
# *5 minutes.*
#
# **Prediction.** Two dropouts of the same input, with the same rate. If you merge them, does anything change?


# %% tags=["nbval-check-output"]
class TwoDropouts(nn.Module):
    def forward(self, x):
        return nn.functional.dropout(x, 0.5, True) + nn.functional.dropout(x, 0.5, True)


two_dropouts = fx.symbolic_trace(TwoDropouts())
merged = fx.symbolic_trace(TwoDropouts())
one, other = (node for node in merged.graph.nodes if node.name.startswith("dropout"))
other.replace_all_uses_with(one)
merged.graph.erase_node(other)
merged.recompile()
for name, module in (("two draws", two_dropouts), ("merged", merged)):
    torch.manual_seed(0)
    values = module(torch.ones(10_000))
    print(f"{name:9} values {sorted(set(values.tolist()))}, next draw {torch.rand(()).item():.4f}")

# %% [markdown]
# <details><summary>What to see here</summary>
#
# With two independent masks a value is 0, 2 or 4. Merged, it's 0 or 4: another distribution. And *every later draw of
# the program is another number*, because the stream has moved less. That's also why you must not remove a draw, even
# if nobody reads it.
# </details>
#
# ## When is a rewrite legal?
#
# *5 minutes.*
#
# A rewrite is legal when nobody can tell the difference. Here's how somebody could tell:
#
# | what can be seen | how a rewrite breaks it |
# | --- | --- |
# | the returned values, their shape, dtype and structure | computes something else; `1` and `1.0` mixed up |
# | whether two returned tensors share memory | returns one tensor twice |
# | inputs and buffers afterwards | drops or moves a write |
# | the random stream | drops, merges or reorders draws |
# | the next call, and the next training step | freezes a weight that will change |
# | gradients | detaches, or folds parameters into constants |
#
# If you can't show that a rewrite is legal, refuse it. `check_equivalence` tries all of these, on ordinary and on
# nasty inputs:

# %%
from fxopt_core.verification import check_equivalence

print(check_equivalence(two_dropouts, merged, (torch.ones(8),)))

# %% tags=["claim"]
# It tells the merged draws apart.
assert not check_equivalence(two_dropouts, merged, (torch.ones(8),))

# %% [markdown]
# ## Many rewrites: passes
#
# *10 minutes.*
#
# A [**pass**](../Glossary.md#pass) is one kind of rewrite, applied wherever it is legal. `GraphOptimizer` captures a
# model, runs passes until nothing changes any more, and verifies. The network below is full of waste.
#
# In the report you'll meet `_guards_fn`, which nobody wrote. `torch.export`, which captures the model here, puts this
# module at the head of the graph. It checks that the inputs are of the kind that the graph was made for, and stops the
# call if they aren't. It returns nothing, so nobody reads it. But it's an assertion, and dead-code elimination must
# leave it alone.

# %%
from fxopt_core.optimizer import GraphOptimizer
from fxopt_workbench import zoo

entry = zoo.build("redundant", device=device)
entry.model.requires_grad_(False)  # as it is deployed: only values count, not gradients
optimized = GraphOptimizer(entry.model, entry.example_inputs).optimize("exact")
print(optimized.report)

# %%
from fxopt_workbench.structure.diff import diff_graphs

graph = optimized.report.graphs[0]
difference = diff_graphs(graph.before, graph.result.graph_module)
draw(graph.before, title="Before: what will go or change is marked", highlight=difference.marked_before)

# %%
draw(graph.result.graph_module, title="After", highlight=difference.marked_after)

# %%
print(difference.summary)

# %% [markdown]
# In the exercise you write three passes that every compiler has. You've seen two of them at work above: removing
# [**dead code**](../Glossary.md#dead-code), which nobody needs, and [**common-subexpression
# elimination**](../Glossary.md#common-subexpression-elimination), which computes once what is computed twice. The
# third, [**constant folding**](../Glossary.md#constant-folding), computes beforehand what never changes.

# %% [markdown]
# ## Trading time for memory
#
# *10 minutes.*
#
# When you train a deep network, it's often memory that runs out first. The backward pass reads values that the forward
# pass computed, so autograd keeps them. How much is that? A hook can see every tensor that autograd saves. We leave
# out the weights, which are there anyway.


# %%
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x):
        return torch.tanh(self.layer(x))


def kept_bytes(run):
    """Bytes that autograd keeps while `run()` computes a result, each piece of memory once, weights apart."""
    kept = {}

    def note(tensor):
        if not isinstance(tensor, nn.Parameter) and not (tensor._is_view() and isinstance(tensor._base, nn.Parameter)):
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        result = run()
    del result
    return sum(kept.values())


chain = nn.Sequential(*(Block(64) for _ in range(16))).to(device)
batch = torch.randn(128, 64, device=device, requires_grad=True)
print(f"16 blocks keep {kept_bytes(lambda: chain(batch)) / 1024:.0f} KiB")

# %%
draw(
    fx.symbolic_trace(nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(4)))),
    title="A chain: what each block hands on is kept for the backward pass",
)

# %% [markdown]
# You don't have to keep them all. Keep a few, the [**checkpoints**](../Glossary.md#checkpoint), and compute the others
# again when the backward pass needs them. That's [**recomputation**](../Glossary.md#recomputation) (Chen et al.,
# *Training Deep Nets with Sublinear Memory Cost*, 2016). The forward pass of each stretch then runs twice.
#
# **Prediction.** With 16 blocks: is it best to have 1 stretch, 2, 4, 8 or 16 of them? The peak is what lies between
# stretches, plus what one stretch needs while it runs again.

# %% tags=["nbval-check-output"]
print("stretches  between them  inside one  together   (in units of one block's result)")
for stretches in (1, 2, 4, 8, 16):
    between, inside = stretches, 16 // stretches
    print(f"{stretches:9} {between:13} {inside:11} {between + inside:9}   {'█' * (between + inside)}")

# %% [markdown]
# Both ends are bad. One stretch keeps everything while it runs again; sixteen keep everything between them. The best
# is in the middle, at $\sqrt{n}$: memory grows with the square root of the depth, and you pay one more forward pass.
# In PyTorch, `torch.utils.checkpoint` does this, so let's measure it:

# %%
from torch.utils.checkpoint import checkpoint_sequential

for stretches in (1, 2, 4, 8, 16):
    kept = kept_bytes(lambda n=stretches: checkpoint_sequential(chain, n, batch, use_reentrant=False))
    print(
        f"{stretches:2} stretches: {kept / 1024:5.0f} KiB, or {kept / batch.untyped_storage().nbytes():.0f} results of one block"
    )

# %% tags=["claim"]
# What is kept is what the table says, give or take what lies at the ends; four stretches are best.
in_results = {
    n: kept_bytes(lambda n=n: checkpoint_sequential(chain, n, batch, use_reentrant=False))
    / batch.untyped_storage().nbytes()
    for n in (1, 2, 4, 8, 16)
}
assert all(abs(in_results[n] - (n + 16 // n)) <= 1.5 for n in in_results), in_results
assert min(in_results, key=in_results.get) == 4

# %% [markdown]
# The figures match the table. (PyTorch doesn't checkpoint the last stretch. What that one keeps is what each of the
# others needs while it runs again. So the hook sees the peak, although it looks at the forward pass only.) In the
# exercise you choose what to recompute for blocks of different sizes, so that a step fits into a budget.

# %% [markdown]
# ## What to remember
#
# - A graph is a list of **nodes**; edges are nodes among arguments. `users` counts readers once, `output` included.
# - The code of a **`GraphModule`** is written from the graph: **recompile**. `lint` checks structure, not meaning.
# - **Tracing** sees what proxies see; **leaf modules** are the tracer's choice. **`Interpreter`** runs, **`Transformer`**
#   rewrites.
# - **Effects** and **aliases** are not in the picture, and decide what is legal.
# - If you can't show that a rewrite is legal, refuse it.
# - **Recomputation** trades a second forward pass for memory.
#
# Now write them yourself: [exercise 2](ex_02_fx_graph_manipulation.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - J. K. Reed et al., *torch.fx: Practical Program Capture and Transformation for Deep Learning in Python*, MLSys 2022.
# - T. Chen et al., *Training Deep Nets with Sublinear Memory Cost*, 2016 (arXiv 1604.06174).
# - PyTorch documentation: *torch.fx*, *torch.utils.checkpoint*, *Saved tensors hooks*.
