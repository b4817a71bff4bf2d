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
# # Day 1: the compile stack
#
# *About two hours. You need Python and a little PyTorch, and you don't need to know anything about compilers. Each step
# says how long it takes.*
#
# ```python
# model = torch.compile(model)
# ```
#
# One line, and your Python runs as machine code, written for your model, your shapes and your processor. If it's slow
# or wrong, that one line doesn't tell you why. This lesson opens it up. At every stage you'll see the thing itself: the
# bytecode that PyTorch reads, the graph that it captures, the conditions for reusing that graph, the derivative that it
# adds, the C++ (or Triton) that it writes. And you'll see the bill: how long compiling takes, and how many calls it
# takes to pay off.

# %% [markdown]
# By tonight you'll be able to say what `torch.compile` does, step by step, and where to look when it doesn't do what you
# want. Before a surprising result you'll find a **prediction**: answer it in your head before you run the cell.

# %% [markdown]
# ## The road map
#
# *5 minutes.* You'll meet these names in error messages, so it pays to know who does what. Your
# Python comes first, and then four programs pass your model along to one another.

# %%
# %matplotlib inline
import graphviz
from IPython.display import SVG, display

from fxopt_workbench.pictures import render_svg

STAGES = [
    ("Python", "your forward()", "bytecode"),
    ("TorchDynamo", "reads bytecode, follows tensors", "FX graph + guards"),
    ("AOTAutograd", "adds the backward pass, lowers to ATen", "ATen graphs"),
    ("Inductor", "fuses loops, writes code", "C++ or Triton"),
    ("C++ / Triton compiler", "compiles, caches on disk", "machine code"),
]
road = graphviz.Digraph(node_attr={"shape": "box", "fontname": "Helvetica"}, edge_attr={"fontname": "Helvetica"})
for name, does, _ in STAGES:
    road.node(name, f"{name}\n{does}")
road.node("it runs", shape="plaintext")
for (name, _, hands_on), following in zip(STAGES, [*(name for name, _, _ in STAGES[1:]), "it runs"], strict=True):
    road.edge(name, following, label=f"  {hands_on}")
display(SVG(render_svg(road.source, "The five stages from Python to machine code; the same as text follows")))
for name, does, hands_on in STAGES:
    print(f"{name:22} {does:40} -> {hands_on}")

# %% [markdown]
# ## The model
#
# *5 minutes.* You'll follow one small convolutional network all the way down. Everything below runs on CPU, CUDA and
# MPS. The only difference is the language that the last stage writes.

# %%
import torch
from torch import nn

from fxopt_core.devices import choose_device
from fxopt_workbench import zoo
from fxopt_workbench.capabilities import capabilities

device = choose_device()
entry = zoo.build("simple", device=device)
model, example_inputs = entry.model.eval(), entry.example_inputs
print(model)
print("input:", tuple(example_inputs[0].shape))

# %%
print(f"device: {device.type}; Inductor writes {capabilities(device).kernel_language} for it")

# %% [markdown]
# ## Stage 1: Dynamo reads bytecode
#
# *15 minutes.* How can PyTorch see a program that you wrote in plain Python? Not by reading your source: Python itself
# doesn't run your source. It runs [**bytecode**](../Glossary.md#bytecode), small instructions for a stack machine. `dis`
# shows them to you. Dynamo steps in just before a frame (one call of a function) starts, and reads the same
# instructions.
#
# **Prediction.** Here is a function of two lines. Will its bytecode know that `x` is a tensor, and of which shape and
# dtype?

# %%
import dis


def small_step(x):
    y = torch.relu(x)
    return y * 2 + 1


for instruction in dis.get_instructions(small_step):
    print(f"{instruction.opname:20} {instruction.argrepr}")

# %% [markdown]
# <details><summary>What to see here</summary>
#
# The instructions look up names (`LOAD_GLOBAL torch`, `relu`), push values and combine them (`BINARY_OP *`). You won't
# find a shape or a dtype: bytecode doesn't know them. So Dynamo runs these instructions *symbolically*. It uses stand-ins
# that know their shape and dtype but hold no data ([**fake tensors**](../Glossary.md#fake-tensor)), and it writes down
# every tensor operation that it comes across.
# </details>
#
# While it follows your bytecode, Dynamo writes an **FX graph**: a list of nodes, each one an operation with its inputs.
# Then it hands the graph to a [**backend**](../Glossary.md#backend). A backend can be any function that takes a graph
# and returns something callable, so three lines give you a first tool for looking inside.


# %%
def looking_backend(graph_module, example_inputs):
    print(graph_module.code)
    return graph_module.forward


torch._dynamo.reset()
looked_at = torch.compile(small_step, backend=looking_backend)
_ = looked_at(torch.randn(3))

# %% [markdown] tags=[]
# That's the graph, printed as Python. `L_x_` is Dynamo's name for your local variable `x`. `y = None` drops a value after
# its last use, so that its memory can go.
#
# Now look at the graph of the whole network. Inputs, weights, operations and the output have boxes of different shapes
# and colours. Unfold *The same as text* below the picture if you'd rather read a table.

# %%
from fxopt_core.capture import capture
from fxopt_workbench.pictures import draw

captured = capture(model, example_inputs)
picture = draw(captured.graphs[0], title="The network, as Dynamo captured it")
picture

# %% tags=["nbval-check-output"]
for name, count in sorted(captured.operation_counts().items()):
    print(f"{name:24} {count}")

# %% tags=["claim"]
# The weights are inputs of the graph.
taken = [node for node in captured.graphs[0].graph.nodes if node.op == "placeholder"]
assert len(taken) > len(list(model.parameters()))
# So are the running statistics, which the picture calls buffers.
words = {row[0]: row[1] for row in picture.scene.rows}
assert {word for name, word in words.items() if "running_" in name} == {"buffer"}

# %% [markdown]
# Notice that the weights come into the graph from outside, as the image does: parameters are `placeholder` nodes, too,
# drawn with dashes. So are the running statistics of batch norm: they're [buffers](../Glossary.md#buffer), in boxes of
# another shape. Each call hands them in, so you can change the weights without compiling again.
#
# ## Guards: when can it reuse the graph?
#
# *10 minutes.* Compiling takes seconds, so you want to do it once. But Dynamo made the graph for one particular call. It
# can only reuse the graph if everything that it assumed still holds. Those assumptions are
# [**guards**](../Glossary.md#guard), and it checks them before every call. Here are some telling ones:

# %%
TELLING = {
    "x: Tensor": "another shape, dtype or device needs another graph",
    "type(self.features.0) is": "swap the layer for one of another class, and the graph is stale",
    "self.features.0.stride ==": "the stride went into the graph as a number",
    "self.features.1.training ==": "batch norm computes something else in training",
}
for begins, why in TELLING.items():
    found = next(guard.expression for guard in captured.guards if guard.expression.startswith(begins))
    print(f"{why}:\n    {found}")
print(f"({len(captured.guards)} guards in all)")

# %% [markdown]
# (`device=` is the number of the GPU. A CPU has none, hence `None`.)
#
# **Prediction.** You call a compiled function with batch size 2, then with other values of the same shape, then with
# batch size 3, 4 and 5. After that come the odd ones: an empty batch, and a batch of one. Which of these calls compile
# again?

# %% tags=["nbval-check-output"]
compiled_for = []


def counting_backend(graph_module, example_inputs):
    # An example input has plain sizes. Only the graph's placeholder knows which of them is a symbol.
    values = [node.meta["example_value"] for node in graph_module.graph.nodes if node.op == "placeholder"]
    shape = next(value.shape for value in values if isinstance(value, torch.Tensor))
    compiled_for.append("(" + ", ".join("s" if isinstance(size, torch.SymInt) else str(size) for size in shape) + ")")
    return graph_module.forward


torch._dynamo.reset()
counted = torch.compile(small_step, backend=counting_backend)
for batch in (2, 2, 3, 4, 5, 0, 1):
    before = len(compiled_for)
    counted(torch.randn(batch, 7))
    news = f"compiled for shape {compiled_for[-1]}" if len(compiled_for) > before else "reused"
    print(f"batch {batch}: {news}")

# %% tags=["claim"]
# 3, 4 and 5 share the graph of the second compilation; 0 and 1 each get one of their own.
assert [shape.startswith("(s") for shape in compiled_for] == [False, True, False, False]
assert [shape[:3] for shape in compiled_for[2:]] == ["(0,", "(1,"]

# %% [markdown]
# <details><summary>Why these, and why no others?</summary>
#
# Dynamo makes the first graph for exactly the shape that it sees. When a second batch size fails the guard, it concludes
# that this dimension varies and compiles again, this time with a **symbol** (`s` above) instead of the number. That's
# *automatic dynamic shapes*, and from then on 3, 4, 5 and a million share one graph. Sizes 0 and 1 don't: a size of 1 can
# broadcast, and an empty tensor has rules of its own, so Dynamo never lets a symbol stand for them. Each of them gets a
# graph to itself. In the exercise you'll count compilations, and then make them stop.
# </details>
#
# ## Graph breaks: what Dynamo can't put into a graph
#
# *10 minutes.* `print`, a decision that depends on the values in a tensor, a call into foreign code: none of these is a
# tensor operation. What Dynamo does then is what lets it run any model at all. It ends the graph, lets Python run the
# offending line, and starts a new graph behind it.
#
# **Prediction.** How many graphs will you get from this model?


# %%
class Chatty(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        hidden = torch.relu(self.first(x))
        print("hidden layer done")
        if hidden.mean() > 0.5:
            hidden = hidden * 0.5
        return self.second(hidden)


torch.manual_seed(0)
chatty = Chatty().eval()
broken = capture(chatty, (torch.randn(4, 8),))

# %% tags=["nbval-check-output"]
print(f"{len(broken.graphs)} graphs, {len(broken.graph_breaks)} graph breaks")
for number, counts in enumerate(broken.operation_counts_by_partition(), start=1):
    print(f"  graph {number}: {dict(sorted(counts.items()))}")

# %%
for graph_break in broken.graph_breaks:
    print(f"line {graph_break.line}: {graph_break.source.strip()}")
    print(f"    {graph_break.reason.splitlines()[0]}")

# %% [markdown]
# Two lines ended a graph, so there are three. The second one only works out the condition: `gt` is the `>`, and
# `method:mean` is `mean`, called as a method. Where's the multiplication
# by 0.5? Python ran the `if`, and it didn't go that way: this call never reached it.
#
# A [graph break](../Glossary.md#graph-break) isn't an error, but it costs you something. Nothing gets fused across it, and
# each piece has guards of its own. If you want to know about breaks, ask for `torch.compile(model, fullgraph=True)`: it
# turns a break into an error.

# %% tags=["nbval-check-output"]
torch._dynamo.reset()
try:
    torch.compile(chatty, fullgraph=True, backend="eager")(torch.randn(4, 8))
except torch._dynamo.exc.Unsupported as error:
    print(type(error).__name__, "-", str(error).splitlines()[0])

# %% [markdown]
# ## Stage 2: AOTAutograd adds the backward pass
#
# *15 minutes.* Eager PyTorch records the backward pass while the forward pass runs. A compiler wants to see both **ahead
# of time**. Then it can decide what to keep in memory between them, and optimise across the two. AOTAutograd does three
# things for it. It traces forward and backward into one [**joint graph**](../Glossary.md#joint-graph). It lowers every
# operation to [**ATen**](../Glossary.md#aten), PyTorch's operator library, which has one name for what Python lets you
# spell as a function, a method or an operator sign. Then it cuts the joint graph in two.
#
# To keep the picture small, take a network of four operations.
#
# **Prediction.** Will the joint graph have about twice as many operations as Dynamo's graph, or more?

# %%
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import default_partition

stages = {}


def keep(name):
    def compiler(graph_module, example_inputs):
        stages[name] = graph_module
        return make_boxed_func(graph_module.forward)

    return compiler


def keep_joint_and_cut(joint, joint_inputs, **options):
    stages["joint"] = joint
    return default_partition(joint, joint_inputs, **options)


torch._dynamo.reset()
looking = aot_autograd(fw_compiler=keep("forward"), bw_compiler=keep("backward"), partition_fn=keep_joint_and_cut)
torch.manual_seed(0)
four_steps = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 2)).to(device)
images = torch.randn(2, 3, 8, 8, device=device)
torch.compile(four_steps, backend=looking)(images).sum().backward()


# %%
def operations(graph_module):
    return sum(node.op.startswith("call") for node in graph_module.graph.nodes)


print(f"Dynamo's graph: {operations(capture(four_steps, (images,)).graphs[0])} operations")
for name in ("joint", "forward", "backward"):
    print(f"{name + ':':15} {operations(stages[name])} operations")

# %% tags=["claim"]
# More than twice as many; a Linear is a transpose and an addmm; on the way back two products and a sum.
assert operations(stages["joint"]) > 2 * 4
called = {name: [str(node.target) for node in graph.graph.nodes] for name, graph in stages.items()}
assert {"aten.t.default", "aten.addmm.default"} <= set(called["forward"])
assert called["backward"].count("aten.mm.default") == 2
assert called["backward"].count("aten.sum.dim_IntList") == 1

# %% [markdown]
# Why so many more than twice four? One reason is that ATen spells things out: a `Linear` is a transpose and an `addmm`.
# Another is that a way back needs one derivative for each input that has a gradient. For the linear layer alone these are
# two matrix products and a sum: for its input, its weight and its bias.
#
# Two words that you'll see in the picture: the inputs of the joint graph are called **primals** (what goes into the
# forward pass: parameters and images) and **tangents** (the gradients that come in from behind, one for each output).
# Find the derivative of the convolution (`convolution_backward`) and that of ReLU (`threshold_backward`, which lets the
# gradient through where the output was positive). What belongs to the way back has a double border and another colour.

# %% tags=["claim"]
# What the text tells you to look for in the picture.
assert {"aten.convolution_backward.default", "aten.threshold_backward.default"} <= set(called["joint"])
inputs_named = [node.name for node in stages["joint"].graph.nodes if node.op == "placeholder"]
assert {name.rstrip("_0123456789") for name in inputs_named} == {"primals", "tangents"}

# %%
forward_names = {node.name for node in stages["forward"].graph.nodes}
calls = [node for node in stages["joint"].graph.nodes if node.op == "call_function"]
way_back = [node for node in calls if node.name not in forward_names]
draw(stages["joint"], title="Forward and backward in one graph of ATen operators", highlight=way_back)

# %% tags=["claim"]
# What is marked is the backward graph, node by node, and neither of the two is empty.
assert len(way_back) == operations(stages["backward"])
assert len(calls) - len(way_back) == operations(stages["forward"])

# %% [markdown]
# The forward graph has to hand over the values that the backward graph will need. They stay in memory all the time in
# between. On day 2 you'll trade some of that memory for time.

# %%
outputs = next(node for node in stages["forward"].graph.nodes if node.op == "output").args[0]
print(f"the forward graph returns {len(outputs)} values: 1 result, {len(outputs) - 1} saved for the backward graph")

# %% [markdown]
# ## Stage 3: Inductor writes code
#
# *15 minutes.* This is where most of the speed comes from. Inductor turns the ATen graph into loops over memory,
# [**fuses**](../Glossary.md#fusion) neighbouring loops into one [**kernel**](../Glossary.md#kernel), and writes source
# code: Triton for CUDA, Metal for Apple's GPUs, C++ with OpenMP for the CPU. Why fuse? As three kernels,
# `relu(x) * 2 + 1` reads and writes the whole tensor three times. As one kernel, it does so once. And moving memory is
# what most operations spend their time on.
#
# **Prediction.** How many kernels will Inductor write for `relu(x) * 2 + 1`? (The cell runs a compiler: give it up to
# half a minute.)

# %%
import re

from torch._inductor.utils import run_and_get_code

torch._dynamo.reset()
with torch.no_grad():
    _, sources = run_and_get_code(torch.compile(small_step), torch.randn(64, 64, device=device))
kernels = sorted(set(re.findall(r"\b(?:cpp|triton_poi|triton_per|mps|generated_kernel)_?fused_\w+", sources[0])))
print(len(kernels), "kernel:", ", ".join(kernels))

# %% tags=["claim"]
# One kernel, whose name says what is in it, with one load and one store.
assert len(kernels) == 1
assert {"add", "mul", "relu"} <= set(kernels[0].split("_"))
if device.type == "cpu":
    body = sources[0].partition("void  kernel")[2].partition("\n}")[0]
    assert body.count("store(") <= 2  # the second one is the rest that fills no vector

# %% [markdown]
# The name lists what Inductor fused: `add`, `mul`, `relu`. And here's the kernel that your C++ compiler (or
# Triton) gets, with long lines cut. Find the multiplication by 2 and the addition of 1. You'll see one load and one store. (On a CPU, the
# two lines about integer division are a safety net of Inductor's. Nothing is divided here.)

# %%
start = sources[0].find("void  kernel") if device.type == "cpu" else sources[0].find("def ")
print("\n".join(line[:120] for line in sources[0][start:].splitlines()[:24]))

# %% [markdown]
# ## One GELU, all the way down
#
# *10 minutes.* Now all stages at once, for a single operation. GELU is a smooth relative of ReLU:
# $\text{gelu}(x) = \frac{x}{2}\,\bigl(1 + \text{erf}(x / \sqrt 2)\bigr)$, with the error function erf. In Python it's one call.
#
# **Prediction.** At which stage does the one operation turn into several: in the bytecode, in Dynamo's graph, in the
# ATen graph or in the kernel?

# %%
from torch._inductor.decomposition import select_decomp_table


def smooth(x):
    return nn.functional.gelu(x)


def keep_both(graph_module, example_inputs):
    stages["gelu captured"] = graph_module
    lower = aot_autograd(fw_compiler=keep("gelu lowered"), decompositions=select_decomp_table())
    return lower(graph_module, example_inputs)


def statements(graph_module):
    """The lines of a graph's code that compute something."""
    return [
        line.strip().split(";")[0] for line in graph_module.code.splitlines() if "torch." in line and "def " not in line
    ]


with torch.no_grad():
    torch._dynamo.reset()
    torch.compile(smooth, backend=keep_both)(torch.randn(64, device=device))
    torch._dynamo.reset()
    _, (kernel_of_gelu,) = run_and_get_code(torch.compile(smooth), torch.randn(64, device=device))
COMPUTES = re.compile(r"(?:auto |float )?(tmp\d+ = (?:tmp\d+ [*+] tmp\d+|.*\berf\().*)")
gelu_stages = {
    "Python": ["return nn.functional.gelu(x)"],
    "bytecode": [f"{one.opname} {one.argrepr}".strip() for one in dis.get_instructions(smooth)],
    "FX graph, by Dynamo": statements(stages["gelu captured"]),
    "ATen graph, by AOTAutograd": statements(stages["gelu lowered"]),
    "kernel, by Inductor": [line[1] for text in kernel_of_gelu.splitlines() if (line := COMPUTES.search(text.strip()))],
}

# %%
descent = graphviz.Digraph(node_attr={"shape": "box", "fontname": "Courier"})
for name, lines in gelu_stages.items():
    descent.node(name, f"{name}:\\l  " + "\\l  ".join(lines) + "\\l")
for name, following in zip(list(gelu_stages), list(gelu_stages)[1:], strict=False):
    descent.edge(name, following)
said = "; ".join(f"{name}: {', '.join(lines)}" for name, lines in gelu_stages.items())
display(SVG(render_svg(descent.source, f"One GELU at five stages. {said}")))

# %% tags=["claim"]
# One operation in Dynamo's graph, five of ATen, and the same five steps in the kernel.
assert [len(gelu_stages[name]) for name in ("FX graph, by Dynamo", "ATen graph, by AOTAutograd")] == [1, 5]
assert len(gelu_stages["kernel, by Inductor"]) == 5
assert sum("erf" in line for line in gelu_stages["kernel, by Inductor"]) == 1

# %% [markdown]
# Up to Dynamo, GELU is one name. It comes apart on the way through AOTAutograd, which replaces it by its formula because
# Inductor asked for that: three products, an erf and a sum. Then Inductor puts the five steps back together, in one loop.
# Take apart, then fuse: so Inductor needs no rule for GELU, and none for the next function that somebody invents.

# %% [markdown]
# ## Backends: stopping after each stage
#
# *5 minutes.* When compiled code misbehaves, you want to know which stage is guilty. `backend=` lets you get off the road
# early: try `eager` (Dynamo only), then `aot_eager` (Dynamo and AOTAutograd), then `inductor` (everything). The first one
# that goes wrong is where to look.
#
# You'll find `eager` and `aot_eager` in the second list only: the first leaves out what's for debugging. (`fxopt` is this
# course's own.)

# %%
print("for users:", ", ".join(torch.compiler.list_backends()))
print("all:      ", ", ".join(torch._dynamo.list_backends(exclude_tags=())))

# %% [markdown]
# ## The bill
#
# *10 minutes.* Was it worth it? Compiling costs you seconds, once. Running compiled code saves you a little, every time.
# Honest figures take some care. The first call compiles, so don't count it as a run. A GPU works behind Python's back, so
# wait for it before you read the clock. Timings scatter, so repeat them, take the median, and say how far they spread.
#
# **Prediction.** `aot_eager` compiles too. Will it be faster than not compiling at all?

# %%
from fxopt_core.benchmark import benchmark
from fxopt_workbench.results.benchmarks import alt_text, plot

report = benchmark(model, example_inputs, backends=("eager", "aot_eager", "inductor"), repeats=30)
report

# %%
display(plot(report))

# %%
print(alt_text(report))

# %% [markdown]
# Where the lines cross, compiling has paid for itself. That's the [**break-even**](../Glossary.md#break-even) number of
# calls:
#
# $$n = \frac{\text{compile time}}{\text{time per call without} - \text{time per call with}}.$$
#
# If the compiled model isn't faster, there's no such number. That happens. Small models on a few cores often gain
# nothing, because what they call (matrix products, convolutions) is finely tuned library code already. And if the spread
# is larger than the difference, the honest answer is "unclear". Measure, then decide.
#
# And your prediction? `aot_eager` rewrites the graph, but it still runs it one operation at a time, as eager does. There's
# hardly anything to gain.

# %% [markdown]
# ## The compile cache
#
# *10 minutes.* You don't want to pay the bill again tomorrow. Inductor keeps what it compiles on disk, under a key made
# from the graph and everything else that the code depends on. A fresh process with the same model only has to read it.
# Below, two fresh processes share a cache folder.
#
# **Prediction.** The second process still has to run Dynamo. How much of the time will it save? (Two processes, two
# lines: give them up to half a minute.)

# %%
import os
import subprocess
import sys
import tempfile

PROGRAM = """
import time, torch
from torch import nn
from torch._dynamo.utils import counters
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 10)).eval()
x = torch.randn(8, 64)
started = time.perf_counter()
with torch.no_grad():
    torch.compile(model)(x)
print(time.perf_counter() - started, counters["inductor"]["fxgraph_cache_hit"])
"""
with tempfile.TemporaryDirectory() as folder:
    for name in ("cold", "warm"):
        finished = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": folder},
            capture_output=True,
            text=True,
            check=True,
        )
        seconds, hits = finished.stdout.split()
        print(f"{name} cache: {float(seconds):.1f} s to compile, graphs found in the cache: {hits}")

# %% [markdown]
# The second process found the graph, so no C++ compiler ran. What's left is what no such cache can save: loading the
# compiler into a fresh Python, and Dynamo, which has to read your bytecode before it knows what to look for.
#
# ## The same on a real model
#
# *5 minutes.* So far the models were toys. Here's a BERT encoder from Hugging Face, built from its configuration with
# random weights, so you don't have to download anything. Dynamo has to follow it through several hundred lines of
# library code that has an option for everything.
#
# **Prediction.** How many graphs will you get?

# %%
bert = zoo.build("bert", device=device)
bert_graphs = capture(bert.model, bert.example_inputs)
print(f"{len(bert_graphs.graphs)} graph, {len(bert_graphs.graph_breaks)} graph breaks")
print(f"{sum(bert_graphs.operation_counts().values())} operations; the most frequent:")
for name, count in bert_graphs.operation_counts().most_common(6):
    print(f"  {name:32} {count}")

# %% tags=["claim"]
# One graph, and no break.
assert (len(bert_graphs.graphs), len(bert_graphs.graph_breaks)) == (1, 0)

# %% [markdown]
# One. Python decides about all those options before it touches a tensor, so Dynamo follows the one path that your model
# takes and leaves out the rest.
#
# A graph of this size would fill your wall, so the picture folds it up. A box stands for a module, or for several blocks
# that repeat one another, and says how many operations are inside.

# %%
draw(bert_graphs.graphs[0], title="A BERT encoder, collapsed")

# %% [markdown]
# ## A first look at `torch.export`
#
# *5 minutes.* What if you want to run the model where there's no Python? `torch.compile` is made for *running here*: it
# may break a graph and fall back to Python. `torch.export` is made for *taking away*: you get one whole graph in ATen,
# together with its weights, or you get an error. If a size may vary, you have to say so.

# %% tags=["nbval-check-output"]
exported = torch.export.export(
    nn.Sequential(nn.Linear(6, 4), nn.ReLU()),
    (torch.randn(2, 6),),
    dynamic_shapes=({0: torch.export.Dim("batch", min=2, max=64)},),
)
print([str(node.target) for node in exported.graph.nodes if node.op == "call_function"])
print([(spec.kind.name, spec.target) for spec in exported.graph_signature.input_specs])

# %% tags=["nbval-check-output"]
print("batch 64:", tuple(exported.module()(torch.randn(64, 6)).shape))
try:
    exported.module()(torch.randn(65, 6))
except AssertionError as error:
    print("batch 65: refused,", str(error).splitlines()[0])

# %% [markdown]
# On day 3 you'll compare all these ways of getting a graph.
#
# ## What to remember
#
# - [**Dynamo**](../Glossary.md#torchdynamo) reads bytecode and writes FX graphs. Its **guards** say when you can reuse one.
# - Whatever isn't a tensor operation **breaks** the graph. `fullgraph=True` turns a break into an error.
# - [**AOTAutograd**](../Glossary.md#aotautograd) adds the backward pass ahead of time and lowers everything to **ATen**.
# - [**Inductor**](../Glossary.md#inductor) fuses loops into kernels, writes C++, Triton or Metal, and caches the results on
#   disk.
# - Compiling pays off after the **break-even** number of calls, if it ever does.
#
# Now write pieces of it yourself: [exercise 1](ex_01_torch_compile_basics.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - J. Ansel et al., *PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode Transformation and Graph
#   Compilation*, ASPLOS 2024: Dynamo and Inductor, by their authors.
# - J. Reed et al., *torch.fx: Practical Program Capture and Transformation for Deep Learning in Python*, MLSys 2022.
# - PyTorch documentation: *torch.compile*, *torch.export*, *Dynamo overview*, *Compile-time caching*.
