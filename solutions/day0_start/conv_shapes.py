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
# # Shapes of convolutions
#
# *25 minutes. You've used `nn.Conv2d`. Here you'll learn to predict what comes out of it.*
#
# A compiler decides almost everything from shapes: how much memory to take, which loops to write, which layers it can
# join. To follow its decisions you have to see shapes the way it does. This page answers four questions. How large is
# the output? How many numbers does training change? Where do those numbers sit in memory? And which layers fit
# together?

# %% [markdown]
# ## A window that moves
#
# *6 minutes.* Start in one dimension: a row of 7 numbers and a kernel of size 3. The kernel is a window. Wherever it
# stands, it turns the three numbers that it covers into one. Here are all the places where it can stand.

# %% tags=["nbval-check-output"]
import torch
from torch import nn
from torch.nn import functional

from fxopt_core.devices import choose_device

device = choose_device()


def show_places(size, kernel, stride=1, padding=0, dilation=1):
    padded = size + 2 * padding
    covers = dilation * (kernel - 1) + 1
    print(f"size {size}, kernel {kernel}, stride {stride}, padding {padding}, dilation {dilation}")
    places = range(0, padded - covers + 1, stride)
    for place in places:
        row = ["·" if padding <= i < size + padding else "0" for i in range(padded)]
        for i in range(kernel):
            row[place + i * dilation] = "█"
        print("   ", " ".join(row))
    print("    places:", len(places))


show_places(7, 3)
show_places(7, 3, stride=2)

# %% [markdown]
# (Here, a *kernel* is the window of a convolution. On day 1 the same word will mean a piece of machine code.) With
# stride 2, the window moves two positions at a time. **Padding** adds zeros on both sides. **Dilation** leaves gaps
# between the numbers that the window covers.
#
# **Prediction.** How many places are there for size 8, kernel 3, stride 2 and padding 1? And with stride 1, dilation 2
# and no padding? Count before you run the cell.

# %% tags=["nbval-check-output"]
show_places(8, 3, stride=2, padding=1)
show_places(8, 3, dilation=2)

# %% [markdown]
# With dilation, the window covers $d(k-1)+1$ positions. What's left of the padded size is its room to move. It takes
# one step every $s$ positions, and it stands in one place more than it takes steps:
#
# $$n_{out} = \left\lfloor \frac{n + 2p - d(k-1) - 1}{s} \right\rfloor + 1$$
#
# Don't take our word for it. Compare the formula with PyTorch for every combination of a few numbers:

# %% tags=["nbval-check-output"]
from itertools import product


def places(size, kernel, stride, padding, dilation):
    return (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1


tried = 0
for size, kernel, stride, padding, dilation in product((7, 8, 15), (1, 3, 5), (1, 2, 3), (0, 1, 2), (1, 2)):
    if places(size, kernel, stride, padding, dilation) < 1:
        continue
    row, weight = torch.ones(1, 1, size, device=device), torch.ones(1, 1, kernel, device=device)
    found = functional.conv1d(row, weight, None, stride, padding, dilation).shape[-1]
    assert found == places(size, kernel, stride, padding, dilation)
    tried += 1
print(f"{tried} combinations, all as the formula says")

# %% [markdown]
# A `Conv2d` does this in two directions, and each direction has numbers of its own. A batch of images has the shape
# (batch, channels, height, width). The batch size stays the same, and the channels become `out_channels`.

# %% tags=["nbval-check-output"]
images = torch.randn(2, 3, 32, 48, device=device)
for stride, padding in ((1, 1), (2, 1), ((2, 4), 0)):
    layer = nn.Conv2d(3, 8, kernel_size=3, stride=stride, padding=padding).to(device)
    print(f"stride {stride!s:7} padding {padding}: {tuple(images.shape)} -> {tuple(layer(images).shape)}")

# %% [markdown]
# ## What learns
#
# *5 minutes.* Which numbers does training change, and how many are there? Look at what these layers hold.

# %% tags=["nbval-check-output"]
layers = {
    "Conv2d(3, 8, 3)": nn.Conv2d(3, 8, 3),
    "Conv2d(8, 8, 3, groups=8)": nn.Conv2d(8, 8, 3, groups=8),
    "BatchNorm2d(8)": nn.BatchNorm2d(8),
    "Linear(512, 10)": nn.Linear(512, 10),
}
for name, layer in layers.items():
    print(name)
    for kind, tensors in (("parameter", layer.named_parameters()), ("buffer", layer.named_buffers())):
        for what, tensor in tensors:
            print(f"    {kind:10} {what:20} {tuple(tensor.shape)}")

# %% [markdown]
# The weight of a convolution has the shape (out channels, in channels, height, width): every output channel has its own
# filter, and that filter sees all input channels. With [**groups**](../Glossary.md#groups), it only sees its share of
# them. Training changes a [**parameter**](../Glossary.md#parameter). A [**buffer**](../Glossary.md#buffer) belongs to
# the layer too, but no gradient changes it: the running mean of a batch norm, for example.
#
# **Prediction.** Here's a small network for images of 32 × 32. Which layer has the most parameters: one of the
# convolutions, or the linear layer at the end?

# %% tags=["nbval-check-output"]
network = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1),
    nn.BatchNorm2d(16),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Flatten(),
    nn.Linear(32 * 8 * 8, 10),
).to(device)
total = sum(parameter.numel() for parameter in network.parameters())
for layer in network:
    count = sum(parameter.numel() for parameter in layer.parameters())
    print(f"{type(layer).__name__:12} {count:6} {'█' * round(40 * count / total)}")

# %% tags=["claim"]
# The linear layer has the most parameters; a convolution's do not depend on the size of the image.
counts = {type(layer).__name__: sum(each.numel() for each in layer.parameters()) for layer in network}
assert max(counts, key=counts.get) == "Linear"

# %% [markdown]
# A convolution uses the same filter everywhere, so the filter stays small however large the image is. A linear layer
# needs a weight of its own for every single input.

# %% [markdown]
# ## Where the numbers lie
#
# *7 minutes.* Two tensors can hold the same numbers, and one can still be twice as fast as the other. The reason is
# where the numbers sit. Memory is one long row. A tensor is a row plus a rule for finding an element in it: how far do
# you go for the next index of each dimension? Those distances are its [**strides**](../Glossary.md#stride).

# %% tags=["nbval-check-output"]
matrix = torch.arange(12).reshape(3, 4)
print(matrix)
print("strides:", matrix.stride(), " in memory:", matrix.flatten().tolist())
turned = matrix.t()
print("transposed: shape", tuple(turned.shape), "strides", turned.stride())
print("the same memory:", turned.data_ptr() == matrix.data_ptr())

# %% tags=["claim"]
# A write to one of the two is a write to the other.
one = torch.zeros(2, 3)
one.t()[2, 1] = 5.0
assert one[1, 2] == 5.0

# %% [markdown]
# Transposing didn't move a single number. It only swapped the strides. (So if you write to one of the two, the other
# one changes too. That will matter on day 2.) A tensor is [**contiguous**](../Glossary.md#contiguous) if you can read
# its elements in order by walking along memory, without a gap or a jump.
#
# **Prediction.** What are the strides of a contiguous tensor of shape (2, 3, 4, 5)? And in the layout called *channels
# last*, which of the four dimensions has stride 1?

# %% tags=["nbval-check-output"]
batch = torch.arange(120.0).reshape(2, 3, 4, 5)
last = batch.contiguous(memory_format=torch.channels_last)
for name, tensor in (("contiguous", batch), ("channels last", last)):
    row = torch.as_strided(tensor, (9,), (1,)).tolist()
    print(
        f"{name:14} shape {tuple(tensor.shape)} strides {tensor.stride()!s:16} memory {[int(value) for value in row]} …"
    )
print("equal:", torch.equal(batch, last))

# %% [markdown]
# Shape and values are the same. Only the order in memory differs. In [**channels
# last**](../Glossary.md#channels-last), the channels of one pixel sit side by side, which is how many fast
# convolutions like them. Whether that's faster depends on your machine, so measure it:

# %%
from statistics import median
from time import perf_counter

from fxopt_core.devices import synchronize


def milliseconds(layer, x, repeats=15):
    with torch.no_grad():
        for _ in range(3):
            layer(x)
        seconds = []
        for _ in range(repeats):
            synchronize(device)
            started = perf_counter()
            layer(x)
            synchronize(device)
            seconds.append(perf_counter() - started)
    return 1000 * median(seconds)


layer = nn.Conv2d(64, 64, 3, padding=1).to(device).eval()
x = torch.randn(4, 64, 56, 56, device=device)
print(f"contiguous:    {milliseconds(layer, x):6.2f} ms")
last_layer, last_x = (thing.to(memory_format=torch.channels_last) for thing in (layer, x))
print(f"channels last: {milliseconds(last_layer, last_x):6.2f} ms")

# %% [markdown]
# ## Layers that fit
#
# *7 minutes.* Put the pieces together and follow one batch through a whole network. The picture shows the network from
# above, with the shape of every value. (Dynamo, which captured it, names a value after the Python variable that held
# it. `nn.Sequential` calls that variable `input` every time, so you'll see `input_1`, `input_2` and so on.)
#
# **Prediction.** Before you look: what shape comes out of the second pooling?

# %%
from fxopt_core.capture import capture
from fxopt_workbench.pictures import draw

small = network.eval()
captured = capture(small, (torch.randn(2, 3, 32, 32, device=device),))
draw(captured.graphs[0], title="Shapes on the way", parameters="hide")

# %% tags=["nbval-check-output"]
shape = torch.randn(2, 3, 32, 32, device=device)
with torch.no_grad():
    for layer in small:
        shape = layer(shape)
        print(f"{type(layer).__name__:12} -> {tuple(shape.shape)}")

# %% [markdown]
# What if two layers don't fit? Here are four mistakes, and what PyTorch says about each.
#
# **Prediction.** The last one does *not* raise an error. Why?

# %%
image = torch.randn(2, 3, 8, 8, device=device)
stacks = {
    "wrong channels": [nn.Conv2d(4, 8, 3)],
    "window too large": [nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 7)],
    "no Flatten": [nn.Conv2d(3, 8, 3), nn.Linear(8 * 6 * 6, 10)],
    "no Flatten, by chance": [nn.Conv2d(3, 8, 3), nn.Linear(6, 10)],
}
for name, stack in stacks.items():
    try:
        print(f"{name}: {tuple(nn.Sequential(*stack).to(device)(image).shape)}")
    except RuntimeError as error:
        print(f"{name}: {str(error).splitlines()[0][:110]}")

# %% tags=["claim"]
# The last of the four raises no error, and the three before it do.
fits = {}
for name, stack in stacks.items():
    try:
        fits[name] = bool(nn.Sequential(*stack).to(device)(image).numel())
    except RuntimeError:
        fits[name] = False
assert [name for name, fit in fits.items() if fit] == ["no Flatten, by chance"]

# %% [markdown]
# A convolution checks its channels, and it checks that its window fits. A linear layer only looks at the *last* size. If
# you forget the `Flatten` behind a convolution, it takes each row of pixels for a set of features. If the width
# happens to fit, you get no error and a network that is wrong. That's why the exercise asks you to check stacks
# yourself.
#
# ## What to remember
#
# - Output size: take the room to move, divide by the stride, round down, add one. Do it for each direction.
# - A convolution has one filter for each output channel, over the input channels of its group, and one bias for each.
# - Strides say where elements sit. A transpose moves nothing. Channels last is another order of the same values.
# - A linear layer only looks at the last size.
#
# Now the [exercise](ex_00_shapes_and_graphs.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - V. Dumoulin, F. Visin, *A guide to convolution arithmetic for deep learning*, arXiv:1603.07285, 2016: every case
#   drawn.
# - PyTorch documentation: [Conv2d](https://docs.pytorch.org/docs/stable/generated/torch.nn.Conv2d.html),
#   [channels last](https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html).
