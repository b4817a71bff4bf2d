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
# # Unit 7: ecosystem and deployment
#
# *About 75 minutes. You need Day 3 (export) and Unit 3. A C++ compiler and the extra `engines` make it complete; what's
# missing on your machine is named, and the rest runs without it.*
#
# Your model is right, in a notebook. The people who are waiting for it have a C++ service, a Windows program and a watch. None
# of these has your class, and most have no Python. What do you hand over?

# %% [markdown]
# In this lesson one small model leaves PyTorch by every door there is, and you measure each time: how large is it, how fast,
# and *what did it lose on the way?* At the end you train it with two processes, and see what `torch.compile` has to do with
# all of this.

# %% [markdown]
# ## One program, many ways out
#
# *10 minutes.* Here's the model. It has two layers, and it does something that many models do and few people think of when they
# ship one: it keeps **state**. A counter, a running mean, a key-value cache: all of them are buffers that `forward` writes.

# %%
# %matplotlib inline
import inspect
import warnings
import zipfile

import torch
from matplotlib import pyplot

from fxopt_workbench.internals import u7_ecosystem as shipping
from fxopt_workbench.internals.u7_ecosystem import MissingError
from fxopt_workbench.tables import format_bytes, format_seconds
from fxopt_workbench.torch_sources import source

torch.set_num_threads(1)
warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 warns of its own code
print(inspect.getsource(shipping.Small.forward))
model = shipping.small()
x = torch.randn(3, shipping.WIDTH, generator=torch.Generator().manual_seed(7))
for _ in range(3):
    probabilities, counted = model(x)
print(
    "called",
    counted.tolist(),
    "times: two counters, of shape",
    tuple(model.calls.shape),
    "and",
    tuple(model.scalar.shape),
)

# %% [markdown]
# Almost every way out begins with the same step: `torch.export` turns the model into an
# [exported program](../Glossary.md#exported-program). The class is gone; what's left is a graph, weights and a signature.
#
# **Prediction.** The program is exported for batches of 1 to 64. The `for` loop above and your class are gone. Will it still
# count its calls? And what will the signature say about the counters?

# %% tags=["nbval-check-output"]
program = shipping.exported()
module = program.module()
print("it counts:", [module(x)[1].tolist() for _ in range(3)])
print("written, as exported:        ", dict(program.graph_signature.buffers_to_mutate))
print("written, after decomposition:", dict(program.run_decompositions().graph_signature.buffers_to_mutate))

# %% [markdown]
# It counts, but look at the two dictionaries. In the program as it was exported, the write is an ordinary operator in the
# graph (`add_`), and the signature says nothing. Only `run_decompositions` makes the graph functional: now it *returns* the new
# value, and the signature says where that belongs.
#
# Remember this. Each runtime below gets such a program. Whether the counters survive depends on what it makes of that line.

# %% [markdown]
# ## A package for C++
#
# *15 minutes.* [**AOTInductor**](../Glossary.md#aotinductor) is [Inductor](../Glossary.md#inductor) without the *just in time*:
# it compiles the program now, on your machine, and puts the result into a package. The function behind it is
# `torch._inductor.aoti_compile_and_package`.
#
# **Prediction.** The package is a zip. What do you expect to find in it: Python code, C++ code, machine code, weights?

# %%
fresh = shipping.exported()  # the calls above have moved the counters of the other one
try:
    package = shipping.with_aoti(fresh)
    with zipfile.ZipFile(package) as opened:
        entries = [(entry.file_size, entry.filename.split("/", 1)[1]) for entry in opened.infolist()]
    for size, name in sorted(entries, reverse=True)[:8]:
        short = name if len(name) < 60 else f"…{name[-56:]}"
        print(f"{format_bytes(size):>10}  {short}")
except MissingError as error:
    package = None
    print(error)

# %% [markdown]
# Machine code (`.so`) with the weights inside, the C++ that it was made from, and a few lines of JSON. No Python. So who opens
# it? A class in PyTorch's C++ library, and this is all of its interface that you need:

# %%
source("torch/csrc/inductor/aoti_package/model_package_loader.h", "run")

# %% [markdown]
# And here's the middle of a C++ program that uses it. It includes two headers from your own wheel and links against the
# libraries there. Look for what *isn't* in it: no graph, no class, no tracing.

# %%
program_text = shipping.RUNNER.read_text()
print(program_text[program_text.index("    auto start = ") : program_text.index("    std::ofstream result")])

# %% [markdown]
# Now build it and run the package in it. Building takes half a minute the first time; after that it comes from a cache.

# %%
if package is not None:
    found = shipping.run_in_cpp(package, x, calls=500)
    with torch.no_grad():
        wanted = shipping.small()(x)[0]
    print("largest difference from Python:", float((found.output - wanted).abs().max()))
    print("opened in", format_seconds(found.loading) + ", a call takes", format_seconds(found.call))
    print("after 500 calls its counters say", found.counted)

# %% tags=["claim"]
# Probabilities are right; one counter says 1 after 500 calls, and the other one is right.
if package is not None:
    assert torch.allclose(found.output, wanted, atol=1e-6)
    assert found.counted == (1, 500)

# %% [markdown]
# Probabilities: right, without Python, in microseconds. And now look at the counters. With torch 2.13.0, one of them says 1
# after 500 calls. No error, no warning. Whose fault is it? The package holds the C++ that was compiled, so ask it:

# %%
if package is not None:
    with zipfile.ZipFile(package) as opened:
        [kernels] = [opened.read(name).decode() for name in opened.namelist() if name.endswith("kernel.cpp")]
    lines = kernels.splitlines()
    for number, line in enumerate(lines):
        if "static_cast<int64_t>(1);" in line:
            print("\n".join(one.strip() for one in lines[number - 1 : number + 3]), "\n")

# %% [markdown]
# One place reads the counter and adds 1. Another one *writes a 1*, whatever was there: `calls + 1` was worked out while it
# compiled, as if the buffer were a constant. That's the answer for this release. Another one may do better or worse. What you
# take home is the method: call twice, compare, and read the code.

# %% [markdown]
# **Prediction.** The program was exported for at most 64 rows. What does the package do with 65: refuse, compute, or compile
# again? And what does it do with rows that are too short?

# %%
if package is not None:
    for shape in ((64, shipping.WIDTH), (65, shipping.WIDTH), (3, shipping.WIDTH - 1)):
        try:
            shipping.run_in_cpp(package, torch.ones(shape))
            print(shape, "computed")
        except RuntimeError as error:
            print(shape, error)

# %% [markdown]
# Your promise of 64 isn't checked: by default a package trusts its caller. What stopped the short rows was only the matrix
# product inside. For tests there's a switch, an environment variable named `AOTI_RUNTIME_CHECK_INPUTS`:

# %%
if package is not None:
    try:
        shipping.run_in_cpp(package, torch.ones(65, shipping.WIDTH), checked=True)
    except RuntimeError as error:
        print(error)

# %% [markdown]
# ## A file for other runtimes
#
# *10 minutes.* A package of machine code runs on one kind of processor, with one version of PyTorch. [ONNX](../Glossary.md#onnx)
# is the opposite: a file that says *what* to compute, in operators that a dozen runtimes know. `torch.onnx.export` translates
# the exported program, node by node. (You write such a translator in the exercise.)
#
# **Prediction.** What becomes of the counter? ONNX graphs have no state: a model is a function.

# %%
try:
    content = shipping.with_onnx(fresh)
    import onnx

    graph = onnx.load_from_string(content).graph
    for node in graph.node:
        print(f"{node.op_type:12} {', '.join(node.input)} -> {', '.join(node.output)}")
    for kind, values in (("input", graph.input), ("output", graph.output)):
        for value in values:
            sizes = [one.dim_param or one.dim_value for one in value.type.tensor_type.shape.dim]
            print(f"{kind}: {value.name} {sizes}")
except MissingError as error:
    content = None
    print(error)

# %%
if content is not None:
    in_onnx = shipping.way_onnx()
    print("it counts:", shipping.counts(in_onnx))
    print({batch: shipping.right_for(in_onnx, batch) for batch in (1, 7, 64, 65, 1000)})

# %% tags=["claim"]
# Every size is right, but it counts 1, 1, 1.
if content is not None:
    assert all(shipping.right_for(in_onnx, batch) == "right" for batch in (1, 7, 64, 65, 1000))
    assert shipping.counts(in_onnx) == ([1, 1, 1], [1, 1, 1])

# %% [markdown]
# Every size is right, but it counts 1, 1, 1. The counters are `initializer`s now, which means constants. Each call computes
# 0 + 1 and forgets it. Again nobody complains. Imagine a key-value cache instead of a counter.
#
# If a model for ONNX needs state, make it an argument and a result: the caller keeps it and hands it back. That's how
# language models in ONNX carry their caches.
#
# ## What ONNX cannot say
#
# *5 minutes.* The exporter has a translation for each operator that it knows, and none for yours. So here's an operator that
# PyTorch runs and exports without a word:

# %%
library = torch.library.Library("unit7", "FRAGMENT")
library.define("soften(Tensor x) -> Tensor")
library.impl("soften", lambda x: x / (1 + x.abs()), "CompositeExplicitAutograd")


class Soft(torch.nn.Module):
    def forward(self, x):
        return torch.ops.unit7.soften(x)


soft = torch.export.export(Soft(), (torch.ones(2, 2),))
print("exported:", [str(node.target) for node in soft.graph.nodes if node.op == "call_function"])
if content is not None:
    try:
        shipping.with_onnx(soft)
    except Exception as error:
        print(type(error).__name__, "|", next(line for line in str(error).splitlines() if "unit7" in line)[:120])

# %% [markdown]
# This is the good kind of loss: an error, on your desk. The counter was the bad kind: everything works, and it's wrong. Task 4
# of the exercise finds both before anybody ships.

# %% [markdown]
# ## A device with no room
#
# *10 minutes.* A watch has no file system to speak of, no threads, and perhaps 4 MB for all of your model.
# [**ExecuTorch**](../Glossary.md#executorch) is PyTorch's runtime for it: a small interpreter, kernels that you choose, and a
# [**memory plan**](../Glossary.md#memory-plan). Before the program ships, it's decided where in one block of memory every tensor
# will lie. The runtime allocates nothing.
#
# **Prediction.** The program was exported for 1 to 64 rows. If all places are fixed beforehand, what happens with 1 row? With
# 65?

# %%
try:
    in_executorch = shipping.way_executorch()
    print("size:", format_bytes(in_executorch.size))
    print("it counts:", shipping.counts(in_executorch))
    print({batch: shipping.right_for(in_executorch, batch) for batch in (1, 64, 65)})
except MissingError as error:
    print(error)
    print("Recorded with executorch 1.5.1 and torch 2.13.0 on Linux, Intel Xeon, 2026-11-23:")
    print("size: 78.6 KiB")
    print("it counts: ([1, 2, 3], [1, 2, 3])")
    print("{1: 'right', 64: 'right', 65: 'refused'}")

# %% [markdown]
# The whole program is hardly larger than its weights. Both counters work: written buffers have their place in the plan. With
# 65 rows it's an error, and it has to be one, because there's no room for the 65th. So here the range that you gave to
# `torch.export` became a budget: promise 10,000 rows, and memory for 10,000 is set aside.
#
# `pip install executorch` leaves torch alone (1.5.1 was tried beside torch 2.13.0), but it brings about twenty further
# packages. That's why it's an extra of its own here.

# %% [markdown]
# ## Several processes
#
# *15 minutes.* So far one machine ran the model. To train a large one, several processes work together. Each is a
# [**rank**](../Glossary.md#rank). In [**data parallelism**](../Glossary.md#data-parallelism), each has the whole model and a part
# of the batch, and after the backward pass they average their gradients with an [**all-reduce**](../Glossary.md#all-reduce).
#
# On GPUs the library below is NCCL. On processors it's **gloo**, and that runs here: two processes, a file in which they meet,
# and your machine's own network.

# %%
from fxopt_workbench.internals.u7_ranks import together, train

print(inspect.getsource(train)[: inspect.getsource(train).index("    return")])

# %% [markdown]
# **Prediction.** Rank 0 gets 6 rows of the batch, rank 1 gets 2. Each computes the *mean* loss of its rows, and
# `DistributedDataParallel` averages the gradients. Is that the gradient of the whole batch?

# %%
found = together([6, 2])
for one in found:
    print(f"rank {one.rank}: {one.rows} rows, sums {one.sums}")
    print(f"    gradient off by {one.off_by:.2g}; with the loss weighed by its share of rows {one.weighed_off_by:.2g}")

# %% tags=["claim"]
# The average of averages is not the gradient of the batch; weighed by rows it is.
assert all(one.off_by > 1e-3 and one.weighed_off_by < 1e-6 for one in found)

# %% [markdown]
# It isn't. An average of averages gives each *rank* the same weight, not each row. No error tells you, and with equal parts
# you'd never notice. This is the line that does it: it divides by how many ranks there are, and nothing else.

# %%
source("torch/distributed/algorithms/ddp_comm_hooks/default_hooks.py", "_allreduce_fut")

# %% [markdown]
# All ranks must call a [**collective**](../Glossary.md#collective) such as this one, in the same order. Otherwise they wait for
# ever. That's why `DistributedDataParallel` puts gradients into [**buckets**](../Glossary.md#bucket) by a rule that's the same
# everywhere, the last layer's first: its gradient is ready while the others are still being computed.
#
# What does it cost? Three algorithms, and how many numbers the busiest rank sends for a list of one million:

# %%
length = 1_000_000
worlds = [2, 4, 8, 16, 32]
sent = {
    "through rank 0": [(world - 1) * length for world in worlds],
    "everybody to everybody": [(world - 1) * length for world in worlds],
    "ring": [2 * (world - 1) * -(-length // world) for world in worlds],
}
for name, numbers in sent.items():
    print(f"{name:24}", "  ".join(f"{number / 1e6:6.2f} M" for number in numbers), f"  with {worlds} ranks")
figure, axes = pyplot.subplots(figsize=(6, 2.8), layout="constrained")
for (name, numbers), style in zip(sent.items(), ("-o", "--x", "-s"), strict=True):
    axes.plot(worlds, [number / 1e6 for number in numbers], style, label=name)
axes.set(title="What the busiest rank sends", xlabel="ranks", ylabel="million numbers", xticks=worlds)
axes.legend()
pyplot.close(figure)
figure

# %% [markdown]
# The first two lines lie on each other. In the ring, each rank is responsible for one part of the list, and what it sends
# stays below twice the list, with 2 ranks or with 2,000. You build it in Task 1. And so long does gloo take here, with two
# processes that share your machine:

# %%
for size, seconds in found[0].seconds.items():
    print(f"{size:>9,} numbers: {format_seconds(seconds)}")

# %% [markdown]
# ## torch.compile, which uses all of this
#
# *5 minutes.* Where does `torch.compile` stand? It has the same compiler as the package for C++, at the other end of the same
# road: it stays in your process, checks [guards](../Glossary.md#guard) before each call, compiles again when one fails, and falls
# back to Python at a [graph break](../Glossary.md#graph-break). You ship nothing, and you lose nothing: counter, custom operator,
# class. In return, Python, torch and a compiler have to be there.
#
# It also knows `DistributedDataParallel`. Gradients of one big graph would all be ready at its end, so no bucket could leave
# early. Dynamo cuts the graph where a bucket is full:

# %%
source("torch/_dynamo/backends/distributed.py", "DDPOptimizer", most=24)

# %% [markdown]
# ## One table
#
# *5 minutes.* Everything at once, measured on your machine, now. *First* is what it takes until the first call is possible;
# what was compiled before only has to be opened. *Counts* and *scalar* are what the model's two counters say, call after call.

# %%
ways = []
for name, make in shipping.WAYS.items():
    try:
        ways.append(make())
    except MissingError as error:
        print(f"{name} is left out. {error}")
shipping.compare(ways, 100)

# %% [markdown]
# Read it from your need:
#
# | you have | take | mind |
# | --- | --- | --- |
# | Python and torch there | `torch.compile` | the first call of each new kind compiles |
# | a C++ service of your own, known processors | AOTInductor | one package for each kind of machine and torch; try its state |
# | machines that nobody knows, other languages | ONNX | no state; your own operators have to be written there, too |
# | a few megabytes, no system | ExecuTorch | the largest size is a promise; only the kernels you bring |
# | a model too large or slow for one | several ranks | each must do the same, and uneven parts need weights |
#
# You'll find TorchServe in older lists. [Its repository](https://github.com/pytorch/serve) was archived in August 2025.

# %% [markdown]
# ## What to remember
#
# - An **exported program** is the source of every package. State is in the signature only after `run_decompositions`.
# - An **AOTInductor** package is a library in a zip. C++ runs it without Python, and without checking sizes.
# - **ONNX** says what to compute. It has no state, and no operators of yours.
# - **ExecuTorch** plans memory before it ships, so the largest size is fixed.
# - Loud losses are cheap. Look for the silent ones: state, training mode, arguments that became constants.
# - An **all-reduce** in a ring costs each rank less than twice the data. Averages of averages are wrong for uneven parts.
#
# Now write the pieces yourself: [exercise 17](ex_17_ecosystem.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - PyTorch documentation: [AOTInductor](https://docs.pytorch.org/docs/stable/torch.compiler_aot_inductor.html),
#   [torch.onnx](https://docs.pytorch.org/docs/stable/onnx.html),
#   [DistributedDataParallel](https://docs.pytorch.org/docs/stable/notes/ddp.html).
# - [ExecuTorch documentation](https://docs.pytorch.org/executorch/stable/index.html), *Memory planning*.
# - P. Patarasuk and X. Yuan, *Bandwidth optimal all-reduce algorithms for clusters of workstations*, 2009: why no algorithm
#   can send less than `2 (n - 1) / n` of the list.
# - S. Li et al., *PyTorch Distributed: Experiences on accelerating data parallel training*, 2020: buckets and their order.
