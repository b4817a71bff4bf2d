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
# # Unit 2: tensors
#
# *About 85 minutes. You need Python, a little PyTorch and, for one step, a C++ compiler; a GPU is not needed.*
#
# A tensor looks like a box of numbers. Inside it's something else: a plain row of memory, and a few whole numbers that say
# how to walk through it. Once you see those numbers, a good many mysteries go away: why `x.T` is free, why `view` sometimes
# complains, why the same sum can take ten times as long.

# %% [markdown]
# Everything you read here you can check, because you run it. The lines of PyTorch's own source come from the headers in
# your installation, so they are the ones your tensors really use. Before a surprising result there is a **prediction**:
# answer it in your head, then run the cell.

# %%
# %matplotlib inline
import gc
import io
import os
import subprocess
import sys

import torch
from matplotlib import pyplot
from torch.nn import functional

from fxopt_core.benchmark import measure_interleaved
from fxopt_workbench.internals.memory_picture import draw_memory
from fxopt_workbench.torch_sources import SourceNotFoundError, source

torch.set_num_threads(1)  # one core, so that the times are about memory and not about how many cores you have
torch.manual_seed(0)
print("torch", torch.__version__)

# %% [markdown]
# ## One result, two speeds
#
# *5 minutes.*
#
# Start with a riddle. `b` below is symmetric, so `b` and `b.t()` hold the same values, and adding either one gives the same
# answer.
#
# **Prediction.** Which line is slower, and by how much?

# %%


def quickest(runs, repeats=9):
    """Milliseconds of the quickest run of each, taken in turn: the slower ones also contain other programs' work."""
    times = measure_interleaved(runs, warmup=3, repeats=repeats)
    return {name: one.minimum * 1e3 for name, one in times.items()}


a, b = torch.randn(2, 2048, 2048)
b = b + b.t()
print("same answer:", torch.equal(a + b, a + b.t()))
times = quickest({"a + b": lambda: a + b, "a + b.t()": lambda: a + b.t()})
for name, milliseconds in times.items():
    print(f"{name:10} {milliseconds:6.1f} ms, {milliseconds / times['a + b']:4.1f} times the first")

# %% [markdown]
# Same values, same number of additions. So the arithmetic isn't what costs. By the end of this lesson you can say what does.
#
# ## What a tensor is made of
#
# *10 minutes.*
#
# Here is a matrix, and the memory that it lives in.

# %%
x = torch.arange(12.0).reshape(3, 4)
print(x)
draw_memory("A matrix of 3 rows and 4 columns in memory", line=4, x=x)

# %% [markdown]
# Memory has no rows. It's one line of numbers, and that line is the [**storage**](../Glossary.md#storage). What makes it a
# matrix is kept apart from it:

# %% tags=["nbval-check-output"]
print("storage:", x.untyped_storage().nbytes(), "bytes, of which nobody says what they mean")
print("dtype:  ", x.dtype, "of", x.element_size(), "bytes each")
print("sizes:  ", tuple(x.shape))
print("strides:", x.stride(), "(one row down is 4 elements on, one column right is 1)")
print("offset: ", x.storage_offset())

row, column = 2, 1
place = x.storage_offset() + row * x.stride(0) + column * x.stride(1)
print(
    f"x[2, 1] is {x[row, column].item()}; storage at {place} is {torch.tensor(x.untyped_storage().tolist(), dtype=torch.uint8).view(torch.float32)[place].item()}"
)

# %% [markdown]
# That formula, *offset plus index times [stride](../Glossary.md#stride)*, is all there is to indexing. In C++ these numbers
# are members of one class, [**`TensorImpl`**](../Glossary.md#tensorimpl). Every Python tensor is a thin wrapper around one.

# %%
source("c10/core/TensorImpl.h", "sizes_and_strides_")

# %%
source("c10/core/TensorImpl.h", "storage_offset_")

# %%
source("c10/core/TensorImpl.h", "data_type_")

# %%
source("c10/core/TensorImpl.h", "device_opt_")

# %% [markdown]
# The dtype isn't in the storage: it's how *this tensor* reads the bytes. So the same bytes can be read as something else.
# And a tensor on the `meta` device has all the numbers and no memory at all: shapes without data, which is how compilers
# find out sizes.

# %% tags=["nbval-check-output"]
one = torch.ones(2)
bits = one.view(torch.int32)
print(
    "the bytes of 1.0 read as integers:", bits.tolist(), "- the exponent 127, 23 bits up:", bits[0].item() == 127 << 23
)
huge = torch.empty(1_000_000, 1_000_000, device="meta")
print("meta:", tuple(huge.shape), huge.stride(), "bytes that would be needed:", huge.untyped_storage().nbytes())

# %% [markdown]
# **A warning about maps.** The best first text about all this is still ezyang's *PyTorch internals* of 2019. The ideas
# hold. The addresses don't: here are three that were right in 2019.

# %%
for file, symbol in (
    ("c10/core/TensorTypeId.h", "TensorTypeId"),  # what a dispatch key was called
    ("aten/src/ATen/cpu/vec256/vec256.h", "Vec256"),  # vectors, when 256 bits were all there was
    ("c10/core/TensorImpl.h", "is_variable"),  # when a tensor with gradients was another kind of object
):
    try:
        print(source(file, symbol))
    except SourceNotFoundError as error:
        print(error, "\n")

# %% [markdown]
# Nor does a file have to be old to move. `MemoryFormat`, which you'll need below, was defined in `c10/core/MemoryFormat.h`
# for years. It's somewhere else now, and its old home just passes it on:

# %%
source("torch/headeronly/core/MemoryFormat.h", "MemoryFormat")

# %% [markdown]
# ## A view is new numbers over old memory
#
# *10 minutes.*
#
# If a tensor is a storage and a few numbers, then a transpose only has to swap two of them.
#
# **Prediction.** `x` has sizes (3, 4) and strides (4, 1). What are sizes, strides and offset of `x.t()`, of `x[1:]`, and of
# `x[:, ::2]`?

# %% tags=["nbval-check-output"]
views = {"x": x, "x.t()": x.t(), "x[1:]": x[1:], "x[:, ::2]": x[:, ::2], "x[1]": x[1]}
for name, tensor in views.items():
    print(
        f"{name:10} sizes {tuple(tensor.shape)!s:8} strides {tensor.stride()!s:8} offset {tensor.storage_offset()}, "
        f"{'the same storage' if tensor.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() else 'a copy'}"
    )

# %%
draw_memory(
    "Four views of one storage: which element lies where",
    line=4,
    x=x,
    transposed=x.t(),
    from_row_1=x[1:],
    every_other_column=x[:, ::2],
)

# %% [markdown]
# Read the second row of the picture: element 1 of the transpose lies at position 4, because that's where walking *down* a
# column leads. Nothing was moved. A tensor that shares another one's storage like this is a [**view**](../Glossary.md#view),
# and the two are [aliases](../Glossary.md#alias): write through one, and the other one sees it.
#
# How does PyTorch know when the memory can be freed? The storage counts who refers to it.
#
# **Prediction.** `big` is 40 MB. We keep ten numbers of it, and delete it. How many bytes are still in use?

# %% tags=["nbval-check-output"]
big = torch.zeros(10_000_000)
few = big[:10]
del big
gc.collect()
print("bytes that the ten numbers keep alive:", few.untyped_storage().nbytes())
print("after clone():", few.clone().untyped_storage().nbytes())
for name, tensor in {"the view": few, "its clone": few.clone()}.items():
    torch.save(tensor, file := io.BytesIO())
    print(
        f"saved as a file, {name} takes {'more than 40 million' if file.tell() > 40_000_000 else 'less than 2000'} bytes"
    )

# %% [markdown]
# <details><summary>Why it matters</summary>
#
# A view keeps the *whole* storage alive. Collect `loss[0]` or `logits[:, -1]` in a list, and you keep every batch you ever
# computed. `clone()` lets the big one go. `torch.save` writes the whole storage, too, so that views which shared memory still
# share it once they are loaded.
# </details>
#
# ## Who wrote last: the version counter
#
# *5 minutes.*
#
# Views make writing dangerous. `backward` may need a value that somebody has meanwhile overwritten, perhaps by another name.
# So each piece of memory carries a number that goes up with every write in place.
#
# **Prediction.** We write through a *view* of `base`. Whose number changes?

# %% tags=["nbval-check-output"]
base = torch.zeros(4)
view, copy = base[:2], base.clone()
view.add_(1)
print("base", base._version, "view", view._version, "copy", copy._version)

weight = torch.ones(3, requires_grad=True)
squared = weight * 1
loss = (squared * squared).sum()  # its derivative needs `squared` as it is now
squared[0] = 7.0
try:
    loss.backward()
except RuntimeError as error:
    print(str(error).split(" Hint")[0])

# %% [markdown]
# Base and view share one [**version counter**](../Glossary.md#version-counter), since they share memory. Autograd wrote down
# version 0 when it saved `squared`, found version 1, and stopped rather than compute a wrong gradient. Unit 4 comes back to
# this; here is what it looks at:

# %%
source("c10/core/TensorImpl.h", "VersionCounter")

# %% [markdown]
# Counting costs a little with each write and each view. Where nobody will ask for gradients, you can do without:

# %% tags=["nbval-check-output"]
with torch.inference_mode():
    uncounted = torch.ones(3)
try:
    print(uncounted._version)
except RuntimeError as error:
    print(error)

# %% [markdown]
# That's an [**inference tensor**](../Glossary.md#inference-tensor). Its `version_counter_` points to nothing, and autograd
# refuses to save it.
#
# ## The same numbers, from C++
#
# *10 minutes.*
#
# So far Python has told you all this. But a Python tensor only passes your questions on. The headers on your machine describe
# the objects behind it, so you can ask those yourself. You need a C++ compiler; `fxopt doctor` says whether you have one. The
# first build takes half a minute, because PyTorch's headers are compiled once, and after that it's seconds.
#
# `look` takes a tensor and finds two objects: the `TensorImpl`, and the storage that it refers to. It returns both addresses,
# and how many bytes the storage has. The lines at the end make it an operator, `torch.ops.unit2.look`; Unit 5 explains them.

# %%
from fxopt_workbench.cpp import load

LOOK = r"""
#include <ATen/core/Tensor.h>
#include <torch/library.h>

std::tuple<int64_t, int64_t, int64_t> look(const at::Tensor& x) {
  const c10::TensorImpl* tensor = x.unsafeGetTensorImpl();
  const c10::Storage& storage = tensor->storage();
  return {
      reinterpret_cast<int64_t>(tensor),
      reinterpret_cast<int64_t>(storage.unsafeGetStorageImpl()),
      storage.nbytes(),
  };
}

TORCH_LIBRARY(unit2, m) {
  m.def("look(Tensor x) -> (int, int, int)", &look);
}
"""
load(LOOK)
torch.ops.unit2.look(x)

# %% [markdown]
# **Prediction.** `y = x` is a second name. `x.t()` is a view, `x.clone()` a copy, and `x.detach()` is cut off from autograd.
# Counting `x` itself: how many `TensorImpl` objects are these five, and how many storages?

# %% tags=["nbval-check-output"]
five = {"x": x, "y = x": x, "x.t()": x.t(), "x.detach()": x.detach(), "x.clone()": x.clone()}
tensors, storages = {}, {}
for name, tensor in five.items():
    tensor_at, storage_at, size = torch.ops.unit2.look(tensor)
    which = tensors.setdefault(tensor_at, f"TensorImpl {len(tensors) + 1}")
    over = storages.setdefault(storage_at, f"storage {len(storages) + 1}")
    print(f"{name:10} {which}, {over} of {size} bytes")

# %% [markdown]
# Four and two. A name is nothing in C++. A view is one more `TensorImpl`, with numbers of its own over the same storage.
#
# How does a storage know that nobody needs it any more? It keeps no list of its tensors, only a number, the
# [**use count**](../Glossary.md#use-count). Whoever comes to hold it adds one, and takes one off on leaving. At 0 the memory
# is freed. `const c10::Storage&` in `look` is a reference in the sense of C++: it looks and doesn't hold.

# %%
source("c10/core/TensorImpl.h", "storage_")

# %%
source("c10/core/Storage.h", "use_count")

# %% [markdown]
# Python can read that count, through a function that PyTorch keeps for itself.
#
# **Prediction.** `alone` is the only tensor over its storage. What count does Python see?

# %% tags=["nbval-check-output"]
alone = torch.zeros(6)
asking = alone.untyped_storage()
print("users:", torch._C._storage_Use_Count(asking._cdata))

# %% [markdown]
# Two: the tensor, and the object that you asked with. By looking, Python has changed what it sees. From C++ you can look
# without being counted, and that's a task of the exercise.
#
# ## When a view is impossible
#
# *5 minutes.*
#
# `view` promises not to copy. It needs strides that reach the same elements in the same order, and one stride per dimension
# allows only equal steps.
#
# **Prediction.** Which of these can be a view of one dimension: `x`, `x.t()`, `x[:, ::2]`, `x[:, :3]`?

# %% tags=["nbval-check-output"]
for name, tensor in {"x": x, "x.t()": x.t(), "x[:, ::2]": x[:, ::2], "x[:, :3]": x[:, :3]}.items():
    try:
        flat = f"a view with stride {tensor.view(-1).stride()[0]}"
    except RuntimeError:
        flat = "refused"
    copied = tensor.reshape(-1).untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    print(
        f"{name:10} contiguous {tensor.is_contiguous()!s:5}  view(-1): {flat:22} reshape(-1): {'copies' if copied else 'view'}"
    )

# %% [markdown]
# `x[:, ::2]` surprises most people: it isn't [contiguous](../Glossary.md#contiguous), yet a view exists. Positions 0, 2, 4, 6,
# 8, 10 are evenly spaced. In `x[:, :3]` the step from one row to the next is longer than the others, and no single stride
# can say so. `reshape` then copies without a word, so a write to its result may or may not reach `x`. In the exercise you
# write this decision yourself. Here is how "contiguous" is decided:

# %%
source("c10/core/Contiguity.h", "_compute_contiguous")

# %% [markdown]
# ## Broadcasting is a stride of 0
#
# *5 minutes.*
#
# Add a row of 4 to a matrix of 3 by 4, and each row of the matrix gets it. Does PyTorch copy the row three times?
#
# **Prediction.** What stride makes three indices read the same element?

# %% tags=["nbval-check-output"]
row = torch.tensor([10.0, 20.0, 30.0, 40.0])
wide = row.expand(3, 4)
print("sizes", tuple(wide.shape), "strides", wide.stride(), "bytes of storage", wide.untyped_storage().nbytes())
left, right = torch.broadcast_tensors(x, row)
print("x + row reads x with strides", left.stride(), "and the row with strides", right.stride())
try:
    wide.add_(1)
except RuntimeError as error:
    print("writing:", str(error).split(".")[0])

# %%
draw_memory("Three rows that are one: elements 0, 4 and 8 at the same place", row_expanded=wide)

# %% [markdown]
# That's [**broadcasting**](../Glossary.md#broadcasting): line the shapes up at their *last* dimensions, let sizes of 1 (and
# missing ones) stretch, and give what was stretched a stride of 0. Nothing is copied. Writing in place is refused, because
# element 0 would be written three times.
#
# The bug to look for: shapes that broadcast though you never meant them to.

# %% tags=["nbval-check-output"]
predicted, wanted = torch.zeros(8, 1), torch.zeros(8)
print("errors of 8 predictions:", tuple((predicted - wanted).shape))

# %% [markdown]
# ## Indexing with lists and masks: a copy
#
# *5 minutes.*
#
# `x[[0, 2]]` picks rows by a list. Can that be stride arithmetic? Rows 0 and 2, yes: a step of 2. Rows 0, 1 and 3? No single
# stride goes there. And the list is *data*: PyTorch only learns what is in it when the kernel reads it. So
# [**advanced indexing**](../Glossary.md#advanced-indexing) always gathers into new memory.
#
# **Prediction.** `counts[[0, 0, 1]] += 1`: what's in `counts` afterwards?

# %% tags=["nbval-check-output"]
counts = torch.zeros(3)
counts[[0, 0, 1]] += 1
print("counts[[0, 0, 1]] += 1  ", counts.tolist())
counts = torch.zeros(3).index_add_(0, torch.tensor([0, 0, 1]), torch.ones(3))
print("index_add_              ", counts.tolist())

picked = x[[0, 2]]
picked.zero_()
print("x after zeroing x[[0, 2]]:", x[0].tolist(), "(untouched)")
x[[0, 2]] = x[[0, 2]] + 100
print("x after assigning to it:  ", x[0].tolist(), "(written: assignment scatters)")
x[[0, 2]] = x[[0, 2]] - 100

# %% [markdown]
# <details><summary>Why only 1?</summary>
#
# `+=` here is three steps: gather (0, 0, 0), add 1, scatter back. Element 0 is written twice with the same 1.
# `index_add_` (or `index_put_(…, accumulate=True)`) adds in place, one after the other. That's what the backward pass of an
# embedding needs.
# </details>
#
# Masks gather as well, and their result's *size* depends on the data. Weighted sums of rows are one gather and one product;
# `where` keeps the shape, where a mask doesn't. And when a slice stands between two lists, the new dimension moves to the
# front:

# %% tags=["nbval-check-output"]
print("x[x > 6] has size", tuple(x[x > 6].shape), "but where(x > 6, x, 0) has", tuple(torch.where(x > 6, x, 0.0).shape))
rows, weights = torch.tensor([0, 2, 2]), torch.tensor([0.5, 0.25, 0.25])
print("weighted rows:", (weights @ x[rows]).tolist())
cube = torch.zeros(5, 6, 7)
print(
    "cube[[0, 1], :, [0, 1]] has sizes",
    tuple(cube[[0, 1], :, [0, 1]].shape),
    "and cube[:, [0, 1], [0, 1]]",
    tuple(cube[:, [0, 1], [0, 1]].shape),
)

# %% [markdown]
# PyTorch's own table of operators tells views from copies. `(a)` marks a result that shares memory with its input; `index`
# has no such mark.

# %%
source("aten/src/ATen/native/native_functions.yaml", "slice.Tensor")

# %%
source("aten/src/ATen/native/native_functions.yaml", "index.Tensor", most=2)

# %% [markdown]
# ## What a stride costs
#
# *10 minutes.*
#
# Back to the riddle. We read the same *number* of elements each time, first side by side, then every second one, every
# fourth, and so on.
#
# **Prediction.** The work is the same. From which step on does it get slower, and where does that stop?

# %%
COUNT, STEPS = 1 << 18, (1, 2, 4, 8, 16, 32)
memory = torch.randn(COUNT * STEPS[-1])
result = torch.empty(COUNT)
reads = {step: memory[::step][:COUNT] for step in STEPS}
times = quickest({step: lambda one=one: torch.add(one, 1.0, out=result) for step, one in reads.items()}, repeats=60)
nanoseconds = {step: milliseconds / COUNT * 1e6 for step, milliseconds in times.items()}
for step, each in nanoseconds.items():
    print(f"one in {step:2}: {each:6.2f} ns each, {each / nanoseconds[1]:5.1f} times the first")

# %%
figure, axes = pyplot.subplots(figsize=(7, 3.5), layout="constrained")
axes.plot(STEPS, list(nanoseconds.values()), "o-", label="measured here")
axes.plot(
    STEPS, [min(step, 16) * nanoseconds[1] for step in STEPS], "s--", label="bytes fetched, with lines of 64 bytes"
)
axes.set(xscale="log", yscale="log", xlabel="stride, in elements of 4 bytes", ylabel="ns for each element")
axes.set_xticks(STEPS, STEPS)
axes.set_yscale("log", base=2)
axes.yaxis.set_major_formatter("{x:g}")
axes.minorticks_off()
axes.legend()
axes.set_title("The same number of elements, further and further apart")
pyplot.show()
print(
    "The plot shows time per element over the stride, both logarithmic. Measured time rises from "
    f"{nanoseconds[1]:.2f} ns at stride 1 to {nanoseconds[16]:.2f} ns at stride 16 and {nanoseconds[32]:.2f} ns at 32. "
    "The dashed line rises in proportion to the stride up to 16, then stays level."
)

# %% [markdown]
# Memory doesn't hand out numbers. It hands out [**cache lines**](../Glossary.md#cache-line), 64 bytes at a time on most
# processors (128 on Apple's): sixteen numbers of 4 bytes. Read every number, and you use all sixteen. Read every fourth, and
# you pay for sixteen and use four. From 16 on, each number costs a whole line, and in lines it can't get worse. If your curve
# goes on rising, you're seeing the next limits: many processors fetch lines in pairs, and further out there are more pages of
# memory than the processor's address table (the TLB) remembers.

# %%
line = torch.arange(32.0)
draw_memory(
    "Two cache lines of sixteen numbers: what a stride of 4 uses of them", line=16, all=line, every_fourth=line[::4]
)

# %% [markdown]
# Now the riddle: `b.t()` is read down the columns of `b`, with a stride of 2048. Each number costs a line. Its neighbours on
# that line are wanted too, but only one column later, 2048 lines on. Will the line still be in the cache by then? That
# depends on more than size.
#
# **Prediction.** Which of these matrices suffers most from `b.t()`?

# %%
for side in (1000, 1024, 1040):
    c, d = torch.randn(2, side, side)
    times = quickest({"plain": lambda c=c, d=d: c + d, "turned": lambda c=c, d=d: c + d.t()})
    each = {name: milliseconds / side**2 * 1e6 for name, milliseconds in times.items()}
    print(f"{side} by {side}: c + d {each['plain']:5.2f} ns for each element, c + d.t() {each['turned']:5.2f} ns")

# %% [markdown]
# On the machine where this was written, 1024 was by far the worst, and 16 columns *more* made it quick again. 1024 numbers
# are 4096 bytes, a power of two, and a cache files lines by the low bits of their address: all lines of a column end up in
# the same few drawers, and throw each other out. With 1040 they spread. Larger matrices meet one more limit: every row is
# another page of memory, and there are more of them than the processor's address table holds.
#
# PyTorch does look for a better order to walk in. But `a` and `b.t()` want opposite ones, and no order suits both.
#
# **Prediction.** And `a.t() + b.t()`: slow or fast?

# %%
c = torch.empty_like(a)  # written into again and again, so that no time goes into fresh memory
times = quickest(
    {
        "a + b": lambda: torch.add(a, b, out=c),
        "a + b.t()": lambda: torch.add(a, b.t(), out=c),
        "a.t() + b.t()": lambda: torch.add(a.t(), b.t(), out=c.t()),
        "a.sum(dim=1)": lambda: a.sum(dim=1),
        "a.t().sum(dim=1)": lambda: a.t().sum(dim=1),
    },
    repeats=15,
)
for name, milliseconds in times.items():
    print(f"{name:16} {milliseconds:6.1f} ms")
print("strides of a.t() + b.t():", (a.t() + b.t()).stride())

# %% [markdown]
# Fast. The kernel sorts dimensions by stride first, walks in the order of *memory*, and gives a new result that layout, too. So
# "not contiguous" doesn't mean slow: **disagreeing** layouts do. The class that sorts is `TensorIterator`:

# %%
source("aten/src/ATen/TensorIterator.h", "reorder_dimensions")

# %% [markdown]
# ## Channels last
#
# *10 minutes.*
#
# A batch of images has sizes (batch, channels, height, width). By default all red values lie together, then all green ones.
# But a convolution needs *all channels of one pixel*, and those lie a whole plane apart. So put them side by side: that's
# [channels last](../Glossary.md#channels-last). The sizes stay as they are, only strides change.

# %%
image = torch.arange(24.0).reshape(1, 3, 2, 4)
nhwc = image.to(memory_format=torch.channels_last)
print("contiguous:   ", image.stride())
print("channels last:", nhwc.stride(), "equal values:", torch.equal(image, nhwc))
draw_memory("Contiguous: plane after plane", line=8, image=image, pixel_0=image[0, :, 0, 0])

# %%
draw_memory("Channels last: pixel after pixel", line=3, image=nhwc, pixel_0=nhwc[0, :, 0, 0])

# %% [markdown]
# Such an order is a [**memory format**](../Glossary.md#memory-format). Convert with `.to(memory_format=…)`, for a whole model
# too, and check with `is_contiguous(memory_format=…)`.
#
# **Prediction.** Which of the two is faster: convolution, and pooling? And does the output keep the format of its input?

# %%
images = torch.randn(4, 64, 56, 56)
last = images.to(memory_format=torch.channels_last)
convolution = torch.nn.Conv2d(64, 64, 3, padding=1)
with torch.no_grad():
    for name, run in {"convolution": convolution, "max pooling": lambda given: functional.max_pool2d(given, 2)}.items():
        times = quickest({"contiguous": lambda run=run: run(images), "channels last": lambda run=run: run(last)})
        kept = run(last).is_contiguous(memory_format=torch.channels_last)
        print(
            f"{name}: contiguous {times['contiguous']:6.2f} ms, channels last {times['channels last']:6.2f} ms "
            f"({times['contiguous'] / times['channels last']:.1f} times as fast), output still channels last: {kept}"
        )

# %% [markdown]
# Pooling gains a lot: with the channels side by side, one instruction can compare sixteen of them (you'll see how in a
# moment). Convolution gains little here, or nothing: the library that computes it on the CPU, oneDNN, may rearrange its input
# to suit itself. On a GPU with tensor cores it's convolution that gains, since their kernels want this order and would
# otherwise convert to it and back; that we couldn't measure here.
#
# So measure before you convert. And once the input is channels last, most operators keep it: one conversion at the start is
# enough. What turns it back is a `contiguous()`, or an operator without such a kernel. Check in the middle of your model, not
# only at its start.
#
# One more trap. No tensor *stores* its format: PyTorch reads it off the strides. With one channel, strides can say both.

# %% tags=["nbval-check-output"]
for sizes in ((2, 3, 4, 5), (2, 1, 4, 5), (2, 3, 1, 1)):
    made = torch.empty(sizes, device="meta")
    answers = [made.is_contiguous(memory_format=one) for one in (torch.contiguous_format, torch.channels_last)]
    print(f"new tensor of sizes {sizes}: contiguous {answers[0]}, channels last {answers[1]}")

# %% [markdown]
# When it matters which, a rule breaks the tie. You'll read it in C++ in the exercise, and write it in Python.
#
# ## Sixteen at a time: vector instructions
#
# *5 minutes.*
#
# A processor core can add 8 or 16 numbers with one instruction, if they lie side by side. PyTorch's CPU kernels contain
# such code for several instruction sets, and choose when they start. `ATEN_CPU_CAPABILITY=default` tells them to do without,
# in a process of its own:

# %%
PROGRAM = """
import torch
from fxopt_core.benchmark import measure
torch.set_num_threads(1)
x = torch.rand(100_000)
spread = torch.rand(200_000)[::2]
out = torch.empty(100_000)
row = [measure(lambda v=v: torch.sigmoid(v, out=out), warmup=3, repeats=15).minimum * 1e6 for v in (x, spread)]
print(f"{torch.backends.cpu.get_cpu_capability():8} side by side {row[0]:7.0f} µs, every other {row[1]:7.0f} µs")
"""
for setting in ({}, {"ATEN_CPU_CAPABILITY": "default"}):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=os.environ | setting, capture_output=True, text=True, check=True
    )
    print(done.stdout.strip())

# %% [markdown]
# The first row is your processor at its best. Below, the loop that does it: it is used only where strides are those of
# neighbours (or 0, one number for all). Everything else takes numbers one by one.
# That's [**vectorisation**](../Glossary.md#vectorisation), and a second reason why layout matters.

# %%
source("aten/src/ATen/native/cpu/Loops.h", "vectorized_loop", most=20)

# %% [markdown]
# ## The same on a GPU
#
# *5 minutes.*
#
# This part is told, not measured: the course was made on a machine without a GPU, and we don't invent figures.
#
# A GPU runs 32 threads in step, a *warp*. When they read memory together, the hardware merges their reads into as few
# transactions as it can, in pieces of 32 bytes. Thread 0 reads element 0, thread 1 element 1, …: 32 numbers of 4 bytes
# are 128 bytes, four pieces, nothing wasted. That's [**coalescing**](../Glossary.md#coalescing). With a stride of 8 or more,
# every thread needs a piece of its own: 32 pieces, of which an eighth is used. It's the cache-line argument again, except
# that *neighbouring threads* take the place of *one thread's next step*.

# %% [markdown]
# So on a GPU we'd expect a curve like the one above, but level from a stride of about 8 on. Run this where you have one, and
# see whether we're right:

# %%
if torch.cuda.is_available():
    from torch.utils.benchmark import Timer

    long = torch.randn(1 << 28, device="cuda")
    for step in (1, 2, 4, 8, 16):
        chosen = long[::step][: 1 << 23]
        took = Timer("chosen + 1", globals={"chosen": chosen}).blocked_autorange().median
        print(f"every {step:2}. element: {took / chosen.numel() * 1e12:6.1f} ps each")
else:
    print("No CUDA device here, so nothing was measured.")

# %% [markdown]
# And the way there? A GPU fetches from main memory by itself (DMA), without the processor. It may do so only if the operating
# system promises not to move the pages meanwhile: [**pinned memory**](../Glossary.md#pinned-memory). From ordinary memory the
# driver first copies into a pinned buffer of its own, and your program waits for that. `pin_memory=True` in a `DataLoader`,
# with `x.to("cuda", non_blocking=True)`, lets the transfer run while the GPU computes. It isn't free: pinned pages can't
# be swapped out, and pinning itself takes time. Pin what is sent again and again, nothing else.

# %% [markdown]
# ## What to remember
#
# - A tensor is a **storage** and a few numbers: sizes, strides, offset, dtype. *Offset plus index times stride* is all of
#   indexing.
# - A **view** changes the numbers only. It keeps the whole storage alive, and shares its **version counter**.
# - In C++ each view is a **`TensorImpl`** of its own. The storage's **use count** says how many there are.
# - `view` refuses where one stride per dimension can't do it; `reshape` copies instead, silently.
# - **Broadcasting** is a stride of 0. **Advanced indexing** gathers, because its indices are data.
# - Time goes into **cache lines**. What's slow is not "non-contiguous" but layouts that disagree with the walk, or with each
#   other.
# - A **memory format** is read off the strides, and strides can be ambiguous.
#
# %% [markdown]
# The measurements, with a profile, as a script: `python -m fxopt_workbench.internals.u2_tensors`. Now write it all yourself:
# [exercise 12](ex_12_tensors.ipynb).
#
# ## Where this comes from
#
# - E. Z. Yang, [*PyTorch internals*](https://blog.ezyang.com/2019/05/pytorch-internals/), 2019; the headers quoted above.
# - U. Drepper, *What Every Programmer Should Know About Memory*, 2007, on cache lines and address tables.
# - NVIDIA, *CUDA C++ Best Practices Guide*, on coalesced access and pinned memory.
