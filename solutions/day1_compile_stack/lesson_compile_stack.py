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
# *About two hours. You need Python and a little PyTorch; no compiler knowledge. Each step says how long it takes.*
#
# ```python
# model = torch.compile(model)
# ```
#
# One line, and your Python runs as machine code that was written for your model, your shapes and your processor. This
# lesson opens that line up. At every stage you will see the thing itself: the bytecode that is read, the graph that is
# captured, the conditions under which it may be reused, the derivative that is added, the C++ (or Triton) that is
# written, and the bill: how long compiling takes and after how many calls it has paid for itself.
#
# After today you can say what `torch.compile` does, step by step, and where to look when it does not do what you want.
# Before a surprising result there is a **prediction**: answer it in your head before you run the cell.

# %% [markdown]
# ## The road map
#
# *5 minutes.* Four programs hand your model on to each other. Each has a name that you will meet in error messages.

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
for (name, _, hands_on), (following, _, _) in zip(STAGES, STAGES[1:], strict=False):
    road.edge(name, following, label=f"  {hands_on}")
display(SVG(render_svg(road.source, "The five stages from Python to machine code; the same as text follows")))
for name, does, hands_on in STAGES:
    print(f"{name:22} {does:40} -> {hands_on}")

# %% [markdown]
# ## The model
#
# *5 minutes.* A small convolutional network, and the device that this machine offers. Everything below runs on CPU,
# CUDA and MPS; only the language that the last stage writes differs.

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
# *15 minutes.* Python does not run your source text. It runs [**bytecode**](../Glossary.md#bytecode): small instructions for a stack machine,
# made from the source. `dis` shows them. Dynamo hooks in just before a frame (one call of a function) starts, and
# reads the same instructions.
#
# **Prediction.** Does the bytecode of `forward` mention convolutions, shapes or dtypes?

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
# Names are looked up (`LOAD_GLOBAL torch`, `relu`), values are pushed and combined (`BINARY_OP *`). No shape, no dtype:
# bytecode does not know them. Dynamo runs these instructions *symbolically*, with stand-ins that know shape and dtype but
# hold no data ([**fake tensors**](../Glossary.md#fake-tensor)), and writes down every tensor operation that it meets.
# </details>
#
# What it writes down is an **FX graph**: a list of nodes, each an operation with its inputs. Whoever receives the graph
# is called a [**backend**](../Glossary.md#backend). A backend is any function that takes the graph and returns something callable, so the
# smallest tool for looking inside is five lines.


# %%
def looking_backend(graph_module, example_inputs):
    print(graph_module.code)
    return graph_module.forward


torch._dynamo.reset()
looked_at = torch.compile(small_step, backend=looking_backend)
_ = looked_at(torch.randn(3))

# %% [markdown] tags=[]
# The graph of the network, drawn. Boxes differ in shape as well as colour: inputs, weights, operations, output. The
# table below the picture says the same in text.

# %%
from fxopt_core.capture import capture
from fxopt_workbench.pictures import draw

captured = capture(model, example_inputs)
picture = draw(captured.graphs[0], title="The network, as Dynamo captured it")
picture

# %% tags=["nbval-check-output"]
for name, count in sorted(captured.operation_counts().items()):
    print(f"{name:24} {count}")

# %% [markdown]
# Note that the weights are *inputs* of the graph (`placeholder`): since they are handed in at each call, you may train the
# model without compiling it again.
#
# ## Guards: when may the graph be reused?
#
# *10 minutes.* The graph was made for one call. It may serve another call only if what Dynamo assumed still holds.
# These assumptions are [**guards**](../Glossary.md#guard), checked before every call.
#
# **Prediction.** The example input has batch size 2. Which of these calls compiles again: the same shape with other
# values, batch size 3, batch size 4, batch size 5?

# %%
for guard in captured.guards[:12]:
    print(guard.expression)

# %% tags=["nbval-check-output"]
compiled_for = []


def counting_backend(graph_module, example_inputs):
    shapes = [tuple(map(str, value.shape)) for value in example_inputs if isinstance(value, torch.Tensor)]
    compiled_for.append(shapes[0])
    return graph_module.forward


torch._dynamo.reset()
counted = torch.compile(small_step, backend=counting_backend)
for batch in (2, 2, 3, 4, 5):
    before = len(compiled_for)
    counted(torch.randn(batch, 7))
    news = f"compiled for shape {compiled_for[-1]}" if len(compiled_for) > before else "reused"
    print(f"batch {batch}: {news}")

# %% [markdown]
# <details><summary>Why only twice?</summary>
#
# The first graph is made for exactly the shape that was seen. When a second batch size fails the guard, Dynamo concludes
# that this dimension varies, and compiles again with a **symbol** (such as `s77`) in its place. From then on any batch
# size will do. This is *automatic dynamic shapes*. In the exercise you count compilations, then make them stop.
# </details>
#
# ## Graph breaks: what Dynamo cannot put into a graph
#
# *10 minutes.* `print`, a decision that depends on the values in a tensor, a call into foreign code: none of them is
# a tensor operation. Dynamo then does what makes it usable on any model: it ends the graph, lets Python run the
# offending line, and starts a new graph after it.
#
# **Prediction.** How many graphs will this model give?


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
# A [graph break](../Glossary.md#graph-break) is no error. But it costs: nothing is fused across it, and each piece has guards of its own.
# `torch.compile(model, fullgraph=True)` turns a break into an error, which is how you find out.

# %% tags=["nbval-check-output"]
torch._dynamo.reset()
try:
    torch.compile(chatty, fullgraph=True, backend="eager")(torch.randn(4, 8))
except torch._dynamo.exc.Unsupported as error:
    print(type(error).__name__, "-", str(error).splitlines()[0])

# %% [markdown]
# ## Stage 2: AOTAutograd adds the backward pass
#
# *20 minutes.* Eager PyTorch records the backward pass while the forward pass runs. A compiler wants both **ahead of
# time**: then it can decide what to keep in memory between them, and optimise across the two. AOTAutograd traces
# forward and backward into one [**joint graph**](../Glossary.md#joint-graph), lowers every operation to [**ATen**](../Glossary.md#aten) (PyTorch's operator library: one
# name for what Python can spell as a function, a method or an operator sign), and cuts the joint graph in two.
#
# To keep the picture small, take a network of four operations.
#
# **Prediction.** Will the joint graph have about twice as many operations, or more?

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

# %% [markdown]
# The joint graph, drawn. Find the derivative of the convolution (`convolution_backward`), and that of ReLU
# (`threshold_backward`: let the gradient through where the output was positive).

# %%
draw(stages["joint"], title="Forward and backward in one graph of ATen operators")

# %% [markdown]
# Between the two halves, the forward graph hands over the values that the backward graph will need. They stay in memory
# all the time in between; on day 2 you will trade some of that memory for time.

# %%
outputs = next(node for node in stages["forward"].graph.nodes if node.op == "output").args[0]
print(f"the forward graph returns {len(outputs)} values: 1 result, {len(outputs) - 1} saved for the backward graph")

# %% [markdown]
# ## Stage 3: Inductor writes code
#
# *15 minutes.* Inductor turns the ATen graph into loops over memory, [**fuses**](../Glossary.md#fusion) neighbouring loops into one
# [**kernel**](../Glossary.md#kernel), and writes source code: Triton for CUDA, Metal for Apple's GPUs, C++ with OpenMP for the CPU. Why fuse?
# `relu(x) * 2 + 1` as three kernels reads and writes the whole tensor three times; as one kernel, once. Memory
# traffic is what most operations spend their time on.
#
# **Prediction.** How many kernels will it write for `relu(x) * 2 + 1`?

# %%
import re

from torch._inductor.utils import run_and_get_code

torch._dynamo.reset()
with torch.no_grad():
    _, sources = run_and_get_code(torch.compile(small_step), torch.randn(64, 64, device=device))
kernels = sorted(set(re.findall(r"\b(?:cpp|triton_poi|triton_per|mps|generated_kernel)_?fused_\w+", sources[0])))
print(len(kernels), "kernel:", ", ".join(kernels))

# %% [markdown]
# Its name lists what was fused into it: `add`, `mul`, `relu`. And this is the kernel, as your C++ compiler (or Triton)
# receives it. Find the multiplication by 2 and the addition of 1; there is one load and one store.

# %%
start = sources[0].find("void  kernel") if device.type == "cpu" else sources[0].find("def ")
print("\n".join(line[:120] for line in sources[0][start:].splitlines()[:24]))

# %% [markdown]
# ## Backends: stopping after each stage
#
# *5 minutes.* `backend=` chooses how far down the road to go. This is also how you find which stage is guilty when
# compiled code misbehaves: try `eager` (Dynamo only), then `aot_eager` (Dynamo and AOTAutograd), then `inductor`
# (everything).

# %%
print("for users:", ", ".join(torch.compiler.list_backends()))
print("all:      ", ", ".join(torch._dynamo.list_backends(exclude_tags=())))

# %% [markdown]
# ## The bill
#
# *10 minutes.* Compiling costs seconds, once; running compiled code saves a little, each time. Honest figures need
# care: the first call is the compilation, so it must not count as a run; a GPU computes behind Python's back, so wait
# for it before you read the clock; timings scatter, so repeat, take the median and say how far they spread.
#
# **Prediction.** `aot_eager` compiles, too. Will it be faster than no compilation?

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
# Where the lines cross, compiling has paid for itself: the [**break-even**](../Glossary.md#break-even) number of calls,
#
# $$n = \frac{\text{compile time}}{\text{time per call without} - \text{time per call with}}.$$
#
# If the compiled model is no faster, there is no such number. That happens: small models on few cores often gain
# nothing, since what they call (matrix products, convolutions) already is tuned library code. And where the spread is
# larger than the difference, the honest answer is "unclear". Measure, then decide.
#
# ## The compile cache
#
# *10 minutes.* Inductor keeps what it has compiled on disk, under a key made from the graph and everything else that
# the code depends on. A fresh process with the same model then only reads. Below, two fresh processes share a cache
# folder.
#
# **Prediction.** The second process must still run Dynamo. What share of the time will it save?

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
# ## The same on a real model
#
# *10 minutes.* A BERT encoder from HuggingFace, built from its configuration with random weights (so that nothing is
# downloaded). Dynamo follows it through the library's code, several hundred lines of Python with options for
# everything.
#
# **Prediction.** In how many graphs?

# %%
bert = zoo.build("bert", device=device)
bert_graphs = capture(bert.model, bert.example_inputs)
print(f"{len(bert_graphs.graphs)} graph, {len(bert_graphs.graph_breaks)} graph breaks")
print(f"{sum(bert_graphs.operation_counts().values())} operations; the most frequent:")
for name, count in bert_graphs.operation_counts().most_common(6):
    print(f"  {name:32} {count}")

# %% [markdown]
# A graph of this size is drawn collapsed: a box stands for a module, or for blocks that repeat each other, and says how
# many operations are in it.

# %%
draw(bert_graphs.graphs[0], title="A BERT encoder, collapsed")

# %% [markdown]
# ## A first look at `torch.export`
#
# *5 minutes.* `torch.compile` is made to *run*: it may break a graph and fall back to Python. `torch.export` is made
# to *take away*: it gives one whole graph in ATen, with its weights, that needs no Python any more, or an error. What
# may vary must be declared.

# %% tags=["nbval-check-output"]
exported = torch.export.export(
    small_step_module := nn.Sequential(nn.Linear(6, 4), nn.ReLU()),
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
# Day 3 is about the differences between all these ways of getting a graph.
#
# ## What to remember
#
# - [**Dynamo**](../Glossary.md#torchdynamo) reads bytecode and writes FX graphs, with **guards** that say when a graph may be reused.
# - What is no tensor operation **breaks** the graph; `fullgraph=True` forbids it.
# - [**AOTAutograd**](../Glossary.md#aotautograd) adds the backward pass ahead of time and lowers to **ATen**.
# - [**Inductor**](../Glossary.md#inductor) fuses loops into kernels and writes C++, Triton or Metal; results are cached on disk.
# - Compiling pays after the **break-even** number of calls, if ever.
#
# Now write pieces of it yourself: [exercise 1](ex_01_torch_compile_basics.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - J. Ansel et al., *PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode Transformation and Graph
#   Compilation*, ASPLOS 2024: Dynamo and Inductor, by their authors.
# - J. Reed et al., *torch.fx: Practical Program Capture and Transformation for Deep Learning in Python*, MLSys 2022.
# - PyTorch documentation: *torch.compile*, *torch.export*, *Dynamo overview*, *Compile-time caching*.
