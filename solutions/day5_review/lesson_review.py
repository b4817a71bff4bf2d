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
# # Day 5: what a compiler gains, and what it costs
#
# *About 90 minutes. You need Days 1 and 2; Day 3 helps.*
#
# For four days you've taken the compiler stack apart. Today you put it back together, and you ask what each part gains
# you and what it costs. That's what people will ask you, too. They won't ask *what is a guard?* They'll ask *why is it
# slow the first time, why was it slow again this morning, and is it worth it?*

# %% [markdown]
# You'll run five experiments, with predictions before each:
#
# 1. Watch sizes turn from numbers into symbols, one call at a time.
# 2. See one graph lose more than half of its operations, and another one that must keep them.
# 3. Start two fresh processes, and find out why the second one hardly compiles at all.
# 4. Run two operations on the same matrices. One of them does many times as much work a second.
# 5. Read the code that Inductor wrote in the third experiment, line by line.

# %%
# %matplotlib inline
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import warnings
from collections import Counter
from pathlib import Path

import torch
from torch import nn

from fxopt_core.benchmark import measure
from fxopt_core.devices import choose_device, synchronize
from fxopt_core.optimizer import GraphOptimizer
from fxopt_workbench.hardware.hardware import published
from fxopt_workbench.hardware.roofline import estimate
from fxopt_workbench.hardware.roofline_plot import comparison, plot
from fxopt_workbench.pictures import draw
from fxopt_workbench.structure.model_costs import analyze

warnings.filterwarnings("ignore", category=FutureWarning)
device = choose_device()

# %% [markdown]
# ## Dynamic shapes, one call at a time
#
# *20 minutes.* Why does a model that ran fine yesterday suddenly compile again? Very often, because a size changed. On
# Day 3 you had to promise sizes to `torch.export`. `torch.compile` doesn't ask you for a promise. It watches.
#
# **Prediction.** You call the function below with batches of 4, 6, 8 and 1. Every line that says *new graph* is a
# compilation. How many will you see, and in which of them is the batch a symbol?


# %% tags=["nbval-check-output"]
graphs = []


def sizes_of(graph_module):
    """The sizes of each tensor that goes in; a symbol is a size that may vary."""
    values = [node.meta["example_value"] for node in graph_module.graph.find_nodes(op="placeholder")]
    return [list(value.shape) for value in values if isinstance(value, torch.Tensor)]


def describe(graph_module, example_inputs):
    """A backend that compiles nothing: it says what it got."""
    graphs.append(graph_module)
    for sizes in sizes_of(graph_module):
        print("   new graph for", ["symbol" if isinstance(size, torch.SymInt) else size for size in sizes])
    return graph_module.forward


def double(x):
    return torch.relu(x) * 2


torch._dynamo.reset()
compiled = torch.compile(double, backend=describe)
for batch in (4, 6, 8, 1):
    print("batch", batch)
    compiled(torch.ones(batch, 3, device=device))

# %%
draw(graphs[1], title="The second graph: the batch is a symbol")

# %% [markdown]
# Three compilations. The first graph holds the number 4. When a size *changes*, Dynamo expects it to change again. It
# makes a graph with a [symbol](../Glossary.md#symbolic-size) in its place, and that graph works for every later size.
#
# Every size but 1. A size of 1 can broadcast, and with a size of 0 there's nothing to reduce. There, the same program may
# mean something else, so 0 and 1 each get a graph of their own.
#
# If you know beforehand that a size varies, say so, and you save a compilation. **Prediction.** How many graphs will you
# get now?

# %% tags=["nbval-check-output"]
torch._dynamo.reset()
compiled = torch.compile(double, backend=describe)
for batch in (4, 6, 8):
    x = torch.ones(batch, 3, device=device)
    torch._dynamo.mark_dynamic(x, 0)
    print("batch", batch)
    compiled(x)

# %% [markdown]
# One instead of two. But a symbol can't stand for *any* number. **Prediction.** This function asks about its size. You
# tell Dynamo to use symbols from the first call (`dynamic=True`). How many graphs will these five calls need?


# %% tags=["nbval-check-output"]
def describe_range(graph_module, example_inputs):
    size = sizes_of(graph_module)[0][0]
    limits = size.node.shape_env.bound_sympy(size.node.expr)
    print(f"   new graph for {limits.lower} to {limits.upper if limits.upper < 10**6 else 'any number'}")
    return graph_module.forward


def small_or_large(x):
    return x * 2 if x.shape[0] < 10 else x + 1


torch._dynamo.reset()
compiled = torch.compile(small_or_large, backend=describe_range, dynamic=True)
for batch in (4, 6, 20, 30, 9):
    print("batch", batch)
    compiled(torch.ones(batch, device=device))

# %% [markdown]
# When your program asks about a size, Dynamo answers for the example at hand. The answer becomes a
# [guard](../Glossary.md#guard) on the symbol. Each answer gets a graph of its own, and each graph works for a range. (It
# starts at 2, and you've seen why.)
#
# Compare that with Day 3. To an exported program the range is a *promise*: leave it, and you get an error. To Dynamo it's a
# *question* that it asks at each call: leave the range, and it compiles again. The more your program asks about sizes,
# the more often it compiles. `TORCH_LOGS=dynamic` prints every such question, with the line that asked it.

# %% [markdown]
# ## What a view of the whole graph gains
#
# *15 minutes.* A library can make one operation fast. To notice that you don't need the operation at all, you have to see
# the whole *graph*.
#
# **Prediction.** How many of the operations in `forward` will be left?


# %%
class Wasteful(nn.Module):
    """(batch, 16) to (batch, 16): what grows in a model over years of changes."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x):
        unused = torch.exp(x).sum()  # noqa: F841 (that nobody reads it is the point)
        first = torch.sigmoid(self.layer(x))
        second = torch.sigmoid(self.layer(x))
        return (first + 0) * second.reshape(second.shape)


torch.manual_seed(0)
wasteful, x = Wasteful().to(device).eval(), torch.randn(8, 16, device=device)
result = GraphOptimizer(wasteful, (x,)).optimize("inference")


# %% tags=["nbval-check-output"]
def operations(graph_module):
    """How often each operation is called."""
    names = (str(node.target).split(".")[1] for node in graph_module.graph.nodes if node.op == "call_function")
    return dict(Counter(names))


[optimized] = result.report.graphs
for name, graph_module in (("before", optimized.before), ("after", optimized.result.graph_module)):
    print(f"{name:7} {sum(operations(graph_module).values())} operations: {operations(graph_module)}")
print("does what the model does:", bool(result.report.equivalence))

# %%
draw(optimized.result.graph_module, title="What is left: one layer, one sigmoid, a sum, a product")

# %% [markdown]
# No arithmetic got faster here. The optimiser found arithmetic that it didn't have to do: a value that nobody reads, a
# layer computed twice, a reshape to the same shape. But `+ 0` is still there. Did it forget?

# %% tags=["nbval-check-output"]
for name, refusal in result.report.refusals:
    if name == "algebraic_simplification":
        print(refusal.reason)

# %% [markdown]
# Adding 0 turns -0.0 into 0.0, so leaving it out would change a bit. Does that matter? You decide: an optimiser can
# promise you every bit, or it can promise you less and do more. Here's what Inductor promises by default:


# %%
def plus_zeros(x):
    return x + torch.zeros(1)


torch._dynamo.reset()
signed = torch.tensor([-0.0])
with torch.no_grad():
    print("eager:   ", plus_zeros(signed).item())
    print("Inductor:", torch.compile(plus_zeros)(signed).item())

# %% tags=["claim"]
# By default, Inductor changes the sign of a zero: +0.0 in eager, -0.0 compiled.
with torch.no_grad():
    assert not torch.signbit(plus_zeros(signed)).item()
    assert torch.signbit(torch.compile(plus_zeros)(signed)).item()

# %% [markdown]
# Inductor left the addition out, and the zero kept its sign. Few programs notice. The presets of `fxopt_core` keep every
# bit unless you ask for `fast_math`, and that's why they sometimes look timid.
#
# **Prediction.** Here are three pairs of equal operations. Which pairs can the optimiser merge?


# %%
class Pairs(nn.Module):
    def forward(self, x):
        state = x.clone()
        waves = torch.sin(state)
        state.add_(1)
        waves = waves + torch.sin(state)
        noise = torch.rand_like(x) + torch.rand_like(x)
        return torch.exp(x) + torch.exp(x) + waves + noise


pairs = GraphOptimizer(Pairs().to(device), (x,)).optimize("exact")

# %% tags=["nbval-check-output"]
[graph] = pairs.report.graphs
before, after = operations(graph.before), operations(graph.result.graph_module)
for name in ("exp", "sin", "rand_like"):
    print(f"{name:10} {before[name]} before, {after[name]} after")

# %% [markdown]
# Only the first pair. Between the two sines, the program writes to what they read. And if you draw two random numbers,
# you get two numbers. The [effects](../Glossary.md#effect) of Day 2 are all that stands between a gain and a wrong answer.
#
# ## What is cached where
#
# *20 minutes.* On Day 1, a second process compiled faster than the first. What did it skip? And what would have made it do
# everything again?
#
# The program below compiles a small model in a fresh process, once for each word that you give it, and tells you what it
# found on disk. The first process starts with an empty folder.

# %%
PROGRAM = """
import json, sys, time
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor import config

class Scaled(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, 32)

    def forward(self, x):
        return torch.relu(self.layer(x) * 2 + 1)

RUNS = {"the same": (16, 0, 64), "other weights": (16, 1, 64), "other width": (24, 0, 64), "other setting": (16, 0, 32)}
for name in sys.argv[1:]:
    width, seed, fusion = RUNS[name]
    torch.manual_seed(seed)
    model, x = Scaled(width), torch.randn(8, width)
    torch._dynamo.reset()
    counters.clear()
    start = time.perf_counter()
    with torch.no_grad(), config.patch(max_fusion_size=fusion):
        torch.compile(model)(x)
    print(json.dumps({
        "run": name,
        "graphs captured by Dynamo": counters["stats"]["unique_graphs"],
        "found: AOTAutograd's result": counters["aot_autograd"]["autograd_cache_hit"],
        "found: Inductor's result": counters["inductor"]["fxgraph_cache_hit"],
        "seconds": time.perf_counter() - start,
    }))
"""
folder = tempfile.TemporaryDirectory()


def fresh_process(*runs):
    """What the program says, in a process of its own."""
    settings = {
        "TORCHINDUCTOR_CACHE_DIR": folder.name,
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        "TORCHINDUCTOR_VEC_ISA_OK": "0",  # plain C++ without vector instructions: compiled sooner, easier to read
    }
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, *runs],
        env=os.environ | settings,
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    return [json.loads(line) for line in finished.stdout.splitlines()]


[cold] = fresh_process("the same")
written = next(path.read_text() for path in Path(folder.name).rglob("*.py") if "async_compile" in path.read_text())

# %% [markdown]
# Now start a second process with that same folder. **Prediction.** First it compiles the same model, then the model with
# other weights, then with another width, then with another setting of Inductor. In which of these four runs will it find
# what it needs?

# %%
warm = fresh_process("the same", "other weights", "other width", "other setting")

# %% tags=["nbval-check-output"]
columns = [name for name in cold if name not in ("run", "seconds")]
for process, answers in (("first process", [cold]), ("second process", warm)):
    print(process)
    for answer in answers:
        print(f"  {answer['run']:14}", ", ".join(f"{name} {answer[name]}" for name in columns))

# %%
for process, answer in (("first process", cold), ("second process", warm[0])):
    print(f"{process}: {answer['seconds']:.1f} s to compile the same model")
kinds = Counter(path.suffix or "entry" for path in Path(folder.name).rglob("*") if path.is_file())
print("in the folder:", dict(kinds))
folder.cleanup()

# %% tags=["claim"]
# Other weights are found, another width and another setting are not; Dynamo captures each time.
assert [bool(run["found: Inductor's result"] or run["found: AOTAutograd's result"]) for run in warm] == [
    True,
    True,
    False,
    False,
]
assert all(run["graphs captured by Dynamo"] == 1 for run in (cold, *warm))

# %% [markdown]
# **Dynamo runs in every process.** Its code and its guards live in memory, with the function. What the later stages make
# goes to disk, under a [**cache key**](../Glossary.md#cache-key): a hash of the graph, the shapes, the settings, the
# version of PyTorch, and whatever else the code depends on.
#
# Change the width or a setting, and you get another key. Change the *weights*, and you don't: they're inputs of the graph,
# not part of the code. So nothing on disk ever has to be invalidated. A process that needs something else looks
# under another key.
#
# | what | where | how long |
# | --- | --- | --- |
# | captured code, guards | memory, at the function | the process, or until `torch._dynamo.reset()` |
# | AOTAutograd's graphs | disk | found by their key |
# | Inductor's code, compiled | disk, `TORCHINDUCTOR_CACHE_DIR` | found by their key |
# | an exported program | a file of yours | until you delete it |

# %% [markdown]
# ## The roofline
#
# *20 minutes.* Before you make something faster, find out how fast it *could* be. Measure two operations on the same
# matrices. **Prediction.** A sum does one operation for each element, a matrix product does thousands. Which of them does
# more operations *a second*?


# %%
WORK = {
    "a + b": (lambda a, b: a + b, lambda n: n**2),
    "a @ b": (lambda a, b: a @ b, lambda n: 2 * n**3),  # for each element n products and n sums
}
for n in (32, 1024):
    a, b = torch.rand(2, n, n, device=device)
    for name, (function, count) in WORK.items():
        time = measure(
            lambda run=function, a=a, b=b: run(a, b), synchronize=lambda: synchronize(device), warmup=3, repeats=20
        )
        print(f"{name}, {n:4} rows: {count(n) / time.median / 1e9:8.2f} billion floating-point operations a second")

# %% [markdown]
# The product of large matrices is far ahead. No machine adds more slowly than it multiplies, so something else must be
# holding the sum back. Count the bytes that each of them *moves*: it reads two matrices and writes one, at four bytes a
# number.

# %% tags=["nbval-check-output"]
for n in (32, 1024):
    moved = 3 * 4 * n**2
    for name, (_, count) in WORK.items():
        print(f"{name}, {n:4} rows: {count(n):>13,} FLOPs, {moved:>10,} bytes, {count(n) / moved:6.2f} FLOPs a byte")
m2 = published("m2")
print(f"An Apple M2 at best: {m2.rate('float32') / 1e12:.2f} TFLOP and {m2.bandwidth / 1e12:.2f} TB a second,")
print(f"so {m2.rate('float32') / m2.bandwidth:.0f} FLOPs in the time in which it moves a byte")

# %% [markdown]
# FLOPs per byte moved: that's the [**arithmetic intensity**](../Glossary.md#arithmetic-intensity) of an operation. Compare
# it with what the machine can compute in the time it takes to move a byte. If the operation does less than that, it waits
# for memory. If it does more, it waits for arithmetic. A sum waits for memory at every size.
#
# **Prediction.** Take one layer of a transformer and two machines. The second machine does 19 times as many FLOPs a second
# and moves 33 times as many bytes. How many times faster can the layer be there?

# %%
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(256, 4, dim_feedforward=1024, batch_first=True).eval()
analysis = analyze(layer, (torch.randn(4, 128, 256),))
estimates = [estimate(analysis, published(name)) for name in ("m2", "h100")]
plot(estimates)

# %% tags=["nbval-check-output"]
for one in estimates:
    bounds = Counter(node.bound for node in one.nodes if node.bound)
    print(f"{one.hardware.description}: at least {one.seconds * 1e6:.0f} microseconds,", end=" ")
    print(f"{bounds['memory']} operations wait for memory, {bounds['compute']} for arithmetic")
print(f"factor: {estimates[0].seconds / estimates[1].seconds:.0f}")

# %% [markdown]
# The picture is called the [**roofline**](../Glossary.md#roofline) (Williams et al., *Communications of the ACM*, 2009). On
# the slope, memory is the limit. Under the flat roof, arithmetic is. Each mark is a matrix product, and its intensity
# says how far to the right it goes. (As usual, we only count the FLOPs of products and convolutions. Everything else
# would be far to the left, waiting for memory.) Here are the two machines as a table:

# %%
comparison(estimates)

# %% [markdown]
# The answer lies between the two factors, because each operation has a factor of its own. Take away two things:
#
# - **Fusion pays on the slope.** It doesn't save arithmetic. It saves trips to memory.
# - Before you make an operation faster, ask what holds it back. A faster sum is no use to a machine that's waiting for
#   memory.
#
# ## Reading what Inductor wrote
#
# *15 minutes.* You'll trust a compiler more once you've read what it writes. The first process of the third experiment left
# its code in the folder, and you kept a copy. The model was `relu(layer(x) * 2 + 1)`. **Prediction.** A linear layer, a
# product, a sum, a `relu`: how many loops over memory did Inductor write, and how many times does it call a library?

# %% tags=["nbval-check-output"]
kernel, _, rest = written.partition("async_compile.wait")
start = rest.index("def call")
call = textwrap.dedent(" " * 4 + rest[start : rest.index("return", start)])
print("kernels written:   ", kernel.count("async_compile.cpp_pybinding("))
print("calls of a library:", call.count("extern_kernels."))

# %%
print(kernel[kernel.index('extern "C"') : kernel.index("''')")])

# %% [markdown]
# One loop over 8 × 32 numbers. It loads each number once, takes it through all three operations in registers (`tmp2`,
# `tmp4`, `tmp5`), and stores it once, over what the layer left there. That's what [fusion](../Glossary.md#fusion) looks
# like. (You'll find the lines with `integer_div_error` in every kernel, even though this one doesn't divide.)
#
# With vector instructions, which we switched off to make this readable, the same loop takes 8 or 16 numbers at a time. On
# a CUDA device you'd see a Triton function with `tl.load` and `tl.store`, on an Apple device a kernel in Metal. Look for
# the same things: how many kernels, and how many loads and stores in each.

# %% tags=["claim"]
# One loop, one call of a library.
assert kernel.count("async_compile.cpp_pybinding(") == 1
assert call.count("extern_kernels.") == 1

# %%
print(call.strip())

# %% [markdown]
# Read `call` from the top. It checks the sizes and strides that the code relies on. It allocates. It calls a library for
# the matrix product (`extern_kernels`: a tuned product is hard to beat). Then it runs the kernel in place on the result.
# The kernel's name, `cpp_fused_…`, tells you what's in it. With `del`, it frees what nobody needs any more.
#
# To see this for a function of your own, run `TORCH_LOGS=output_code python program.py`, or use
# `torch._inductor.utils.run_and_get_code` in a notebook, as on Day 1.

# %% [markdown]
# ## What to remember
#
# - When a size changes, it becomes a **symbol**. Each question about it splits its range and costs a graph. 0 and 1 always
#   get their own.
# - Seeing the **whole graph** saves work. **Fusion** saves trips to memory. Effects tell you where to stop.
# - **Dynamo** runs in every process. The later stages look on disk, under a **cache key**: graph, shapes, settings and
#   versions, but not weights.
# - The **roofline** tells you what holds an operation back: memory or arithmetic.
# - To read Inductor's code, count: kernels, library calls, loads, stores.
#
# Next: [the optimiser in action](demo_fxopt.ipynb), then [an example of a write-up](writeup_example.ipynb), then
# [exercise 5](ex_05_end_to_end_pipeline.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - J. Ansel et al., *PyTorch 2*, ASPLOS 2024: guards on sizes, the specialisation of 0 and 1, Inductor's fusion.
# - S. Williams, A. Waterman, D. Patterson, *Roofline: An Insightful Visual Performance Model for Multicore
#   Architectures*, Communications of the ACM 52(4), 2009.
# - PyTorch documentation: [dynamic shapes](https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html),
#   [compile-time caching](https://docs.pytorch.org/tutorials/recipes/torch_compile_caching_tutorial.html), which also
#   shows how to take a cache to another machine.
