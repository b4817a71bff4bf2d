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
# # Day 5, lesson: what a compiler gains, and what it costs
#
# Four days took the compiler stack apart. Today puts it together, and asks of each part what it brings. The methods are
# those of every day: run it, measure it, then name it.
#
# You will see shapes that turn into symbols one call at a time, a graph that loses a third of its nodes, two fresh processes
# of which one does not compile, the line between arithmetic and memory, and the code that Inductor writes.

# %%
import os
import re
import subprocess
import sys
import tempfile
import warnings

import torch
from torch import nn
from torch.export import Dim, export

from fxopt_core.analysis import analyze
from fxopt_core.devices import choose_device
from fxopt_core.optimizer import GraphOptimizer
from fxopt_core.visualize import draw

warnings.filterwarnings("ignore", category=FutureWarning)
device = choose_device()

# %% [markdown]
# ## Dynamic shapes, one call at a time
#
# *25 minutes.* A size is a number until something makes it a symbol. **Prediction.** The function below is called with
# batches of 4, 6, 8 and 1. How many graphs will Dynamo make, and in which of them is the batch a symbol?


# %% tags=["nbval-check-output"]
def describe(graph_module, example_inputs):
    print("   new graph for", [tuple(map(str, x.shape)) for x in example_inputs if isinstance(x, torch.Tensor)])
    return graph_module.forward


torch._dynamo.reset()
double = torch.compile(lambda x: torch.relu(x) * 2, backend=describe)
for batch in (4, 6, 8, 1):
    print("batch", batch)
    double(torch.ones(batch, 3, device=device))

# %% [markdown]
# The first graph holds the number. When the size *changes*, Dynamo makes one more graph with a symbol in its place, and that
# one serves every later size. But 1 is not among them: sizes 0 and 1 are treated apart, since one row may be broadcast, and
# an empty tensor has no elements to reduce.
#
# **Prediction.** An exported program promises a range. What does it do at 65 when it promised 2 to 64?


# %% tags=["nbval-check-output"]
class Scaled(nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2


program = export(Scaled(), (torch.ones(4, 3),), dynamic_shapes=({0: Dim("batch", min=2, max=64)},))
print("promised:", list(program.range_constraints.values()))
for batch in (64, 65):
    try:
        print(batch, tuple(program.module()(torch.ones(batch, 3)).shape))
    except (AssertionError, RuntimeError) as error:
        print(batch, "refused:", type(error).__name__)

# %% [markdown]
# Dynamo asks a [guard](../Glossary.md#guard) and compiles again; an exported program has nobody to ask, and refuses. Both are
# honest. What is not: a trace, which goes on with the number that it saw ([Day
# 3](../day3_model_extraction/lesson_model_extraction.ipynb)).
#
# ## What a graph-level view gains
#
# *25 minutes.* A compiler that sees one operation at a time can make it fast. What it cannot do is to see that the operation
# is not needed. **Prediction.** How many of the operations below will be left?


# %%
class Wasteful(nn.Module):
    """(batch, 16) to (batch, 16): what grows in a model over years of changes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        unused = torch.exp(x).sum()
        first = torch.sigmoid(self.layer(x))
        second = torch.sigmoid(self.layer(x))
        return (first + 0) * second.reshape(second.shape)


torch.manual_seed(0)
wasteful, x = Wasteful().to(device).eval(), torch.randn(8, 16, device=device)
optimizer = GraphOptimizer(wasteful, (x,))
result = optimizer.optimize("inference")

# %% tags=["nbval-check-output"]
[optimized] = result.report.graphs
for name, graph_module in (("before", optimized.before), ("after", optimized.result.graph_module)):
    targets = [str(node.target) for node in graph_module.graph.nodes if node.op == "call_function"]
    print(f"{name:7} {len(targets)} operations")
print("does what the model does:", bool(result.report.equivalence))

# %%
draw(optimized.result.graph_module, title="What is left: one layer, one sigmoid, one product")

# %% [markdown]
# Nothing here is faster arithmetic. It is arithmetic that is not done: a value that nobody reads, the same value computed
# twice, an addition of nothing. Each needs a view of the *whole* graph, and each was legal for a reason ([Day
# 2](../day2_fx_graphs/lesson_fx_graphs.ipynb)).
#
# ## What is cached where
#
# *25 minutes.* Compiling is paid once for each process, or once for each machine. **Prediction.** Two fresh processes compile
# the same model, with one cache folder. Which stages does the second one leave out?

# %%
PROGRAM = """
import torch
from torch import nn
from torch._dynamo.utils import counters
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, 4)).eval()
with torch.no_grad():
    torch.compile(model)(torch.randn(8, WIDTH))
print("graphs by Dynamo", counters["stats"]["unique_graphs"])
print("found in the cache of Inductor", counters["inductor"]["fxgraph_cache_hit"])
print("not found", counters["inductor"]["fxgraph_cache_miss"])
"""


def fresh_process(folder, width):
    """What the program says about its caches, in a process of its own."""
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM.replace("WIDTH", str(width))],
        env=os.environ | {"TORCHINDUCTOR_CACHE_DIR": folder, "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"},
        capture_output=True,
        text=True,
        check=True,
    )
    return finished.stdout.strip().replace("\n", ", ")


with tempfile.TemporaryDirectory() as folder:
    answers = {name: fresh_process(folder, width) for name, width in (("cold", 16), ("warm", 16), ("other width", 24))}
    files = sum(len(names) for _, _, names in os.walk(folder))

# %% tags=["nbval-check-output"]
for name, answer in answers.items():
    print(f"{name:12} {answer}")

# %%
print(f"{files} files in the folder")

# %% [markdown]
# Dynamo runs in every process: guards live in memory, beside the code of the function. What Inductor made is kept on disk,
# under a [cache key](../Glossary.md#cache-key): a hash of the graph, the shapes, the settings and the version of PyTorch.
# Another width is another key. This is what makes it safe: nothing is ever *made invalid*, it is just not found.
#
# | cache | where | lives as long as |
# | --- | --- | --- |
# | compiled code and guards | memory, at the function's code | the process, or `torch._dynamo.reset()` |
# | AOTAutograd's result | disk | its key |
# | Inductor's graphs and kernels | disk, `TORCHINDUCTOR_CACHE_DIR` | their keys |
# | an exported or AOT-compiled package | a file of yours | you delete it |
#
# ## The roofline
#
# *25 minutes.* How fast *can* an operation be? A machine does so many operations a second, and moves so many bytes a second.
# **Prediction.** Which of the two holds back a product of matrices, and which an addition?

# %% tags=["nbval-check-output"]
PEAK_FLOPS, PEAK_BYTES = 1.0e12, 5.0e10  # a machine for this example: 1 TFLOP/s, 50 GB/s


class Add(nn.Module):
    def forward(self, a, b):
        return a + b


class Multiply(nn.Module):
    def forward(self, a, b):
        return a @ b


print(f"balance of the machine: {PEAK_FLOPS / PEAK_BYTES:.0f} FLOPs a byte")
for size in (32, 1024):
    a = torch.ones(size, size)
    for model in (Add(), Multiply()):
        analysis = analyze(model, (a, a))
        flops, moved = (sum(getattr(node.cost, name) for node in analysis.nodes) for name in ("flops", "bytes"))
        limit = "memory" if flops / moved < PEAK_FLOPS / PEAK_BYTES else "arithmetic"
        print(f"{type(model).__name__:9}{size:5}: {flops / moved:7.2f} FLOPs a byte, held back by {limit}")

# %% [markdown]
# FLOPs for each byte moved are the [arithmetic intensity](../Glossary.md#arithmetic-intensity). Below the balance of the
# machine an operation waits for memory, above it for arithmetic: this picture is the
# [roofline](../Glossary.md#roofline) (Williams et al., *Communications of the ACM*, 2009). An addition waits for memory at
# every size; a product of large matrices does not.
#
# That is why fusion pays: it does not save arithmetic, it saves trips to memory. And it is why fusing two large products
# with each other would gain next to nothing.
#
# ## Reading what Inductor wrote
#
# *20 minutes.* **Prediction.** Three elementwise operations: how many loops over memory does Inductor write?

# %%
from torch._inductor.utils import run_and_get_code


def three(x):
    return torch.relu(x * 2 + 1)


torch._dynamo.reset()
_, [source] = run_and_get_code(torch.compile(three), torch.randn(64, 64))
start = source.index('extern "C"') if 'extern "C"' in source else 0
print(source[start : start + 1200])

# %% tags=["nbval-check-output"]
print("kernels:", len(set(re.findall(r"\bcpp_fused\w+(?= = )", source))))

# %% [markdown]
# How to read it, from the bottom: `call(args)` checks sizes and strides, allocates the result and calls a kernel. Its name
# lists what was fused: `add`, `mul`, `relu`. In the kernel each value is loaded once (`loadu`, a vector at a time), goes
# through all three operations in registers, and is stored once. On a GPU the same loop is a Triton function with `tl.load` and
# `tl.store`; on MPS it is a Metal kernel. (This cell compiles for the CPU on every machine, so that you see the same code.)
#
# ## What to remember
#
# - A size becomes a symbol when it changes; 0 and 1 stay apart. An exported program refuses what it did not promise.
# - A view of the whole graph saves work; fusion saves memory traffic.
# - Dynamo runs in each process; Inductor's work is found on disk by a key of everything that it depends on.
# - Before you make an operation faster, ask what holds it back.
