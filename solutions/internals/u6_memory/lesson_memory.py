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
# # Unit 6: memory and profiling
#
# *About 80 minutes. You need Unit 2, and Unit 4 helps; a GPU isn't needed.*
#
# Two questions come up in every project. *Why is it out of memory, when there should be enough?* And: *why is the GPU at
# 40 %?* People guess at both for days. You don't have to. PyTorch writes down every byte that it hands out and every
# microsecond that it spends. You only need to know how to read it.

# %% [markdown]
# What you see here is of three kinds, and each says which it is. Most of it is **measured** on your machine while you read. Some
# is **quoted** from the PyTorch that's installed. And where a GPU would be needed, it's **simulated**: a timeline in virtual
# time, whose durations were chosen and not measured. No figure here claims to be a GPU's.

# %% [markdown]
# ## Who hands out memory
#
# *5 minutes.* A tensor's storage comes from an [**allocator**](../Glossary.md#allocator), one for each kind of device. This is
# all that PyTorch asks of one:

# %%
# %matplotlib inline
import gc
import json
import os
import tempfile
import weakref
from collections import Counter
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from fxopt_workbench.internals.memory_curve import memory_curve
from fxopt_workbench.internals.segments import describe_segments, draw_segments, segment
from fxopt_workbench.internals.timeline_picture import describe, draw_timeline, events_of
from fxopt_workbench.internals.timelines import training_loop
from fxopt_workbench.tables import format_bytes
from fxopt_workbench.torch_sources import source

os.environ["KINETO_LOG_LEVEL"] = "99"  # the profiler's own log would stand between the results
torch.set_num_threads(1)
source("c10/core/Allocator.h", "Allocator", most=8)

# %% [markdown]
# **Prediction.** The one for the CPU is simple. It asks the operating system each time, and gives back at once. You ask for 6 floats.
# How many bytes does the profiler see, and what is the address a multiple of?

# %% tags=["nbval-check-output"]
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
    six = torch.empty(6)
    del six
changes = [one.nbytes() for one in profiler.profiler.kineto_results.events() if one.name() == "[memory]"]
print("bytes that came and went:", changes)
print("address modulo 64:", torch.empty(6).data_ptr() % 64)

# %% [markdown]
# 24 bytes, not a byte more, and they begin on a cache line of their own. So on the CPU nothing is ever *reserved but
# unallocated*. On a GPU it's different. Asking CUDA for memory is slow, and giving it back makes the whole device wait. That's why
# PyTorch puts a cache in between.

# %% [markdown]
# ## The caching allocator
#
# *15 minutes.* The [**caching allocator**](../Glossary.md#caching-allocator) gets large
# [**segments**](../Glossary.md#segment) from CUDA, cuts them into [**blocks**](../Glossary.md#block), and keeps what you free for
# the next one who asks. Its sizes stand in the header:

# %%
for name in ("kMinBlockSize", "kSmallSize", "kSmallBuffer", "kMinLargeAlloc", "kRoundLarge", "large_segment_size_"):
    print(source("c10/core/AllocatorConfig.h", name).text)

# %% [markdown]
# In words: sizes are multiples of 512 bytes. Up to 1 MiB a request is small and shares a segment of 2 MiB with others. Up to 10 MiB it
# shares one of 20 MiB. Beyond that it gets a segment of its own, rounded up to 2 MiB.
#
# **Prediction.** A program asks for 300 KiB, 700 KiB and 1.5 MiB: 2.5 MiB together. How much does PyTorch get from CUDA?

# %%
KIB, MIB = 2**10, 2**20
three = [
    segment(
        "small", ("active_allocated", 300 * KIB), ("active_allocated", 700 * KIB), ("inactive", 2 * MIB - 1000 * KIB)
    ),
    segment("large", ("active_allocated", 3 * MIB // 2), ("inactive", 20 * MIB - 3 * MIB // 2)),
]
print(describe_segments(three))
print("reserved:", format_bytes(sum(one["total_size"] for one in three)))
draw_segments(three, "Three requests, by the rules")

# %% [markdown]
# 22 MiB for 2.5. That's a fine bargain if more requests follow, and they do. PyTorch has two names for it:
# `torch.cuda.memory_allocated()` is what's in use, and `memory_reserved()` is what was got from CUDA.
#
# Now the bad case. Five tensors of 4 MiB fill a segment, and you free every second one. There are 8 MiB free. A request for
# 8 MiB comes.

# %%
crumbs = [
    segment("large", *[("inactive" if number % 2 else "active_allocated", 4 * MIB) for number in range(5)]),
    segment("large", ("active_allocated", 8 * MIB), ("inactive", 12 * MIB)),
]
print(describe_segments(crumbs))
draw_segments(crumbs, "8 MiB free in the first segment, and a second one for 8 MiB")

# %% [markdown]
# Blocks unite only with neighbours, so the two free ones stay apart, and a second segment is needed. That's
# [**fragmentation**](../Glossary.md#fragmentation), and *reserved but unallocated* in an error message means this. `empty_cache()`
# can't help: it gives back segments in which *nothing* is in use.
#
# PyTorch has a tool that reads such snapshots. It doesn't mind that ours comes from no GPU. (A letter is a page of
# 20 MiB with one block in it; a digit says how full a page with several is: 6 for 60 %.)

# %%
from torch.cuda._memory_viz import segsum

print("\n".join(segsum({"segments": crumbs}).splitlines()[:7]))

# %% tags=["claim"]
# PyTorch's tool counts as we do: 40 MiB reserved, of which 20 are in use.
assert "total_reserved: 40.0MiB" in segsum({"segments": crumbs})
assert "total_allocated: 20.0MiB" in segsum({"segments": crumbs})

# %% [markdown]
# With a GPU, two lines record the real thing. You'd drag the file onto
# [pytorch.org/memory_viz](https://pytorch.org/memory_viz), which shows every block over time, with the line of Python that asked
# for it:
#
# ```python
# torch.cuda.memory._record_memory_history()
# torch.cuda.memory._dump_snapshot("snapshot.pickle")
# ```
#
# Why does a history tell *free requested* and *free completed* apart?

# %%
source("c10/core/CachingDeviceAllocator.h", "Action")

# %% [markdown]
# Kernels are queued. When your Python frees a tensor, the kernel that reads it may not even have begun. On *one* stream that's
# harmless: whoever gets the block next is queued behind. So each stream has blocks of its own. If a tensor made on one stream is
# used on another, you must say so with `tensor.record_stream(other)`. Then the free completes later.
#
# Leave it out, and another tensor gets the memory while the other stream still reads it. No error, wrong numbers.

# %% [markdown]
# ## Pinned memory
#
# *5 minutes.* A GPU copies from the host by itself, while the host goes on, but only if the operating system promises not to move
# those pages. That's [pinned memory](../Glossary.md#pinned-memory). Pinning is slow, so there's a cache for it, too, and it rounds
# differently:

# %%
source("aten/src/ATen/core/CachingHostAllocator.h", "roundSize", occurrence=1)

# %% [markdown]
# **Prediction.** You pin a batch of 33 MiB. How much memory does it take?

# %% tags=["nbval-check-output"]
print(f"{2 ** (33 * MIB - 1).bit_length() // MIB} MiB")
try:
    torch.ones(2).pin_memory()
except RuntimeError as error:
    print("and here:", error)

# %% [markdown]
# Almost twice as much, and that memory is gone for everybody else on the machine. Pin batches, not datasets. And pinning alone
# changes nothing: the copy must say `non_blocking=True`, too.

# %% [markdown]
# ## What the profiler shows
#
# *15 minutes.* `torch.profiler` writes down every operator with its beginning and its end. Give it names of your own with
# [**`record_function`**](../Glossary.md#record_function), or you'll drown in operators. Here's a training step with four ranges.

# %%
torch.manual_seed(0)
network = torch.nn.Sequential(
    torch.nn.Linear(256, 1024),
    torch.nn.ReLU(),
    torch.nn.Linear(1024, 1024),
    torch.nn.ReLU(),
    torch.nn.Linear(1024, 10),
)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)


def load_batch():
    """Decodes a batch, slowly: in Python, one row at a time."""
    rows = torch.stack([torch.tensor([(row * column) % 7 for column in range(256)]) for row in range(512)])
    return rows.float(), torch.arange(512) % 10


def training_step():
    with record_function("data"):
        x, classes = load_batch()
    with record_function("forward"):
        loss = torch.nn.functional.cross_entropy(network(x), classes)
    with record_function("backward"):
        loss.backward()
    with record_function("update"):
        optimizer.step()
        optimizer.zero_grad()


# %% [markdown]
# The first steps aren't like the others: caches are cold, and the profiler itself starts up. A `schedule` leaves them out.
#
# **Prediction.** Which of the four ranges takes longest?

# %%
with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=1)) as profiler:
    for _ in range(3):
        training_step()
        profiler.step()
ranges = {one.key: one for one in profiler.key_averages() if one.key in ("data", "forward", "backward", "update")}
for name, one in sorted(ranges.items(), key=lambda pair: -pair[1].cpu_time_total):
    print(f"{name:10} {one.cpu_time_total / 1000:8.2f} ms")

# %% [markdown]
# Now the same by operator. There are two columns that people mix up: *total* includes the operators that it called, *self* doesn't. Look
# for the hotspot in *self*.

# %%
print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=8, max_name_column_width=30))

# %% [markdown]
# A table has lost the order. A **trace** keeps it. The profiler writes one as a file, once for each profile. Here it is, as a
# picture: what lies below something was called by it.

# %%
file = Path(tempfile.mkdtemp()) / "step.json"
profiler.export_chrome_trace(str(file))
step = [one for one in events_of(file) if not one["name"].startswith("ProfilerStep")]
print(describe(step, most=6))
draw_timeline([one for one in step if one["dur"] > 20], "One training step, measured here")

# %% [markdown]
# For real work you want to zoom. [Perfetto](https://ui.perfetto.dev) and Chrome's `chrome://tracing` open that very file. It's
# JSON: a list of events with a name, a beginning and a duration. Nothing more is in that picture.

# %%
content = json.loads(file.read_text())
kinds = Counter(one.get("cat", one["ph"]) for one in content["traceEvents"])
print({key: kinds[key] for key in ("cpu_op", "user_annotation")})
one = next(one for one in content["traceEvents"] if one["name"] == "aten::addmm")
print({key: type(one[key]).__name__ for key in ("name", "cat", "ph", "ts", "dur", "pid", "tid", "args")})

# %% [markdown]
# `torch.profiler.tensorboard_trace_handler(folder)` writes the same file where TensorBoard looks for it. PyTorch's tutorial calls
# that plugin deprecated, and so do we: everything it showed is in the file. With a GPU you'd add
# `ProfilerActivity.CUDA`, and the trace would have a row for each stream.

# %% [markdown]
# ## Memory over time
#
# *10 minutes.* With `profile_memory=True` the profiler notes every allocation and every release as well. Add them up, and you
# have a curve. (`export_memory_timeline` used to draw one. It's marked as deprecated in this release, and you need only a sum.)
#
# **Prediction.** At which moment of a training step is most memory in use?

# %%
training_step()
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
    training_step()
curve = memory_curve(profiler)
print(curve.text)
curve.draw("Bytes of tensors during one step, measured here")

# %% tags=["claim"]
# The peak lies in the backward pass, the forward pass climbs, and the weights aren't in the curve.
[forward, backward] = [one for one in curve.ranges if one.name in ("forward", "backward")]
assert backward.start <= curve.peak_time <= backward.end
assert curve.at(forward.start) < curve.at(forward.end) < curve.peak
assert curve.at(0) == 0

# %% [markdown]
# The forward pass climbs: each activation is kept for its gradient. The backward pass frees them one by one, while gradients of the
# weights pile up. So the peak lies where both meet, in the backward pass. The weights aren't in this curve; they were there
# before it began.
#
# You can know that number without running anything: the graph says what's made, and who uses it last. In the
# exercise you compute it, to the byte. Almost:

# %% tags=["nbval-check-output"]
x, mask = torch.ones(512, 512), torch.ones(512, 512) > 0
with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
    kept = x * mask
print([one.nbytes() for one in profiler.profiler.kineto_results.events() if one.name() == "[memory]"])

# %% [markdown]
# One result of 1 MiB, and another MiB that came and went. To multiply floats by booleans, the kernel made a float copy of the mask.
# No graph shows that. When prediction and measurement differ, look for such scratch memory.

# %% [markdown]
# ## Reading a trace: who is waiting for whom?
#
# *15 minutes.* With a GPU there are two clocks. The host *launches* a kernel and goes on; the device runs it when its
# [**stream**](../Glossary.md#stream) gets there. **Holistic trace analysis** (the idea, and a tool of that name by Meta) asks one thing
# first: when is the device idle, and why?
#
# The following timelines are **simulated**. First, large kernels: a network that saturates its device.

# %%
saturated = training_loop(2, load=15, kernels=(90, 120, 90), prepare=4)
print(describe([one for one in saturated if one["cat"] != "cpu_op"], most=5))
draw_timeline(saturated, "Simulated: large kernels")

# %% [markdown]
# The host is done after a fraction of the time and runs ahead. The stream has no gaps. To be faster here, you need faster
# kernels, and nothing else helps.
#
# **Prediction.** Now loading a batch takes 600 µs, twice as long as its kernels. Where will the gap be, and what stands above it?

# %%
starved = training_loop(2, load=600, kernels=(90, 120, 90), prepare=4)
print(describe([one for one in starved if one["cat"] != "cpu_op"], most=5))
draw_timeline(starved, "Simulated: the data pipeline starves the device")

# %% [markdown]
# The device has caught up and waits while `data` runs. That's a data pipeline: more workers, prefetching, decoding elsewhere.
# Faster kernels would only make the gap longer.
#
# Next case: someone prints `loss.item()` in each step. It copies 4 bytes, and it's a
# [**synchronisation**](../Glossary.md#synchronisation): the host stops until the device has got there.

# %%
for reads in (False, True):
    loop = training_loop(3, load=5, kernels=(60, 60, 60), bookkeeping=150, reads_loss=reads)
    end = max(one["ts"] + one["dur"] for one in loop)
    print(f"{'with' if reads else 'without'} item(): {end} µs of virtual time")
print(describe([one for one in loop if one["cat"] == "cuda_runtime"], most=5))
draw_timeline(loop, "Simulated: the loss is read in every step")

# %% tags=["claim"]
# The gap after a synchronisation shows the bookkeeping that was hidden: in both steps that follow one.
lasts = [
    max(one["ts"] + one["dur"] for one in loop_with)
    for loop_with in (
        training_loop(3, load=5, kernels=(60, 60, 60), bookkeeping=150, reads_loss=reads) for reads in (False, True)
    )
]
assert lasts[1] - lasts[0] >= 2 * 150

# %% [markdown]
# The trap: the time stands under `cudaStreamSynchronize`, where the device is *busy*. What it costs is the gap afterwards. The
# queue is empty, the host starts from nothing, and its 150 µs of bookkeeping, which were hidden before, now show. Other calls that wait
# like that: `tensor.cpu()`, `print(tensor)`, `if tensor > 0:`, `tensor.nonzero()`, a copy from memory that isn't pinned.
#
# `torch.cuda.set_sync_debug_mode("warn")` reports them:

# %%
source("torch/cuda/__init__.py", "set_sync_debug_mode", most=14)

# %% [markdown]
# Last case, **mixed precision**. Say each kernel takes half as long, and nothing else changes.
#
# **Prediction.** The kernels of this loop are short already. How much faster does the loop become?

# %%
for name, kernels in (("full precision", (16,) * 6), ("half the time", (8,) * 6)):
    loop = training_loop(4, load=2, copy=5, kernels=kernels, prepare=8)
    end = max(one["ts"] + one["dur"] for one in loop)
    busy = sum(one["dur"] for one in loop if one["cat"] in ("kernel", "gpu_memcpy"))
    print(f"{name:16} {end} µs of virtual time, {busy} of them busy")
print(describe([one for one in loop if one["cat"] != "cpu_op"], most=4))
draw_timeline(loop, "Simulated: kernels became shorter, launches didn't")

# %% [markdown]
# Shorter kernels uncover the next bottleneck: now the launches hold the device up. Fewer, larger kernels help (`torch.compile`),
# or launching many at once (CUDA graphs).
#
# And autocast adds work of its own. This one is measured, on the CPU:

# %% tags=["nbval-check-output"]
layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
for enabled in (False, True):
    with profile() as profiler, torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
        out = layers(torch.ones(8, 64))
    counts = {one.key: one.count for one in profiler.key_averages()}
    print(f"{out.dtype!s:15} products {counts['aten::addmm']}, casts {counts.get('aten::_to_copy', 0)}")

# %% [markdown]
# ## Leaks
#
# *10 minutes.* Memory grows from step to step, although you delete everything. Python frees an object when its last reference
# goes: **reference counting**, at once. So somebody still refers to it. The most common somebody is you:
#
# **Prediction.** Three steps, and each appends its loss to a list, for a plot. How many bytes stay, and how many if you append
# `loss.item()`?

# %%
weights = torch.ones(256, 256, requires_grad=True)


def grows(keep):
    """Bytes that three steps leave behind."""
    history = []
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(3):
            activation = (weights * 2).exp()
            history.append(keep(activation.mean()))
            del activation
    return memory_curve(profiler).held[-1]


print("appending the loss:       ", format_bytes(grows(lambda loss: loss)))
print("appending loss.item():    ", format_bytes(grows(lambda loss: loss.item())))

# %% tags=["claim"]
# A loss holds its graph, which holds every activation; item() cuts that.
assert grows(lambda loss: loss) >= 3 * 256 * 256 * 4
assert grows(lambda loss: loss.item()) == 0

# %% [markdown]
# A loss is four bytes, and it holds its graph, which holds every activation. `detach()` or `item()` cuts that.
#
# The second kind is worse, because nobody can see it: a [**reference cycle**](../Glossary.md#reference-cycle). Two objects refer to each other,
# so no count ever gets to 0. Here's one that looks like good style. What would you change?


# %%
class Exp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.result = x.exp()  # wanted in backward
        return ctx.result

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.result


class TidyExp(Exp):
    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0]


# %% [markdown]
# **Prediction.** You call each, and delete the result. Is it gone?

# %% tags=["nbval-check-output"]
gc.collect()
gc.disable()  # so that the collector doesn't run by chance just here
for function in (Exp, TidyExp):
    result = function.apply(torch.ones(4, requires_grad=True))
    watch = weakref.ref(result)
    del result
    alive = watch() is not None
    gc.collect()
    print(f"{function.__name__:8} alive after del: {alive}, after the collector: {watch() is not None}")
gc.enable()

# %% [markdown]
# The result's `grad_fn` holds `ctx`, and `ctx` holds the result. `save_for_backward` knows about that, and keeps the result without
# closing the circle.
#
# Python's collector finds cycles, but it runs when there are *many* new objects. It doesn't know that each of these few
# holds a gigabyte. So memory goes up and down like a saw, and now and then it doesn't go down in time. To find out: call
# `gc.collect()` after a step. If memory drops, there was a cycle, and `gc.get_referrers(tensor)` leads you to it.

# %% [markdown]
# ## What helps
#
# *5 minutes.* Before you change anything, record a trace and a memory curve. Then:
#
# | you see | try |
# | --- | --- |
# | gaps under `data` | workers, `pin_memory=True`, `non_blocking=True`, prefetching |
# | gaps after a synchronisation | keep losses on the device, read them every hundredth step |
# | gaps between tiny kernels | `torch.compile`, CUDA graphs, `foreach=True` in optimisers |
# | no gaps | lower precision, better kernels, less work |
# | much reserved, little allocated | `expandable_segments:True`, equal shapes |
# | a peak in the backward pass | checkpointing, smaller batches |
# | growth from step to step | a list, a cache, a hook, a cycle |

# %% [markdown]
# Some of that is set by environment variables, before Python starts. `PYTORCH_ALLOC_CONF` is the allocator's:

# %%
source("c10/core/AllocatorConfig.h", "use_expandable_segments")

# %% [markdown]
# Others help you look: `CUDA_LAUNCH_BLOCKING=1` makes every launch wait, so that an error names the right line (and every timing
# is wrong); `PYTORCH_NO_CUDA_MEMORY_CACHING=1` switches the cache off, so that tools see each tensor's own bytes.
# `OMP_NUM_THREADS` says how many cores an operator may use on the CPU.

# %% [markdown]
# ## What to remember
#
# - On the CPU, memory comes and goes exactly. On a GPU a **caching allocator** reserves segments and hands out blocks.
# - *Reserved but unallocated* is fragmentation: free blocks that can't unite.
# - A profile is a list of events. Tables lose the order, traces keep it; `record_function` makes either one readable.
# - The peak of a training step lies where kept activations and new gradients meet. The graph knows it beforehand.
# - Ask of every gap: who was late, and what was it doing? A synchronisation costs what comes *after* it.
# - A list that holds losses holds graphs. A cycle waits for the collector.
#
# Now do it yourself: [exercise 16](ex_16_memory.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - The headers quoted above, and the comment at the head of `c10/cuda/CUDACachingAllocator.cpp`, which isn't in the wheel.
# - PyTorch documentation: [CUDA semantics: memory management](https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management),
#   [understanding CUDA memory usage](https://docs.pytorch.org/docs/stable/torch_cuda_memory.html),
#   [torch.profiler](https://docs.pytorch.org/docs/stable/profiler.html),
#   [profiler with TensorBoard](https://docs.pytorch.org/tutorials/intermediate/tensorboard_profiler_tutorial.html) (deprecated there).
# - Meta, [Holistic Trace Analysis](https://hta.readthedocs.io): idle time breakdown.
