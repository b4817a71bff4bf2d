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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex00-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 0: shapes and graphs
#
# Six small tasks, about an hour. Each has a cell for your code, and a check below it that answers at once. The check
# tries visible cases; `submit` at the end tries hidden ones, too.
#
# The first four tasks are about numbers. Write them in plain Python: PyTorch isn't even there while they're graded. The
# last two are about graphs.

# %% nbgrader={"grade": false, "grade_id": "ex00-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch import fx, nn

from autograder import check, submit

# %% [markdown] nbgrader={"grade": false, "grade_id": "conv_output_shape-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. The output shape of a convolution
#
# *8 minutes, easy.* You'll often need a layer's output shape long before there is a tensor to try it on. Write
# `conv_output_shape`: it returns the shape `(batch, channels, height, width)` of what a `Conv2d` puts out. `kernel_size`,
# `stride`, `padding` and `dilation` are pairs `(height, width)`.
#
# Think of one direction first. The kernel is a window that covers `dilation * (kernel - 1) + 1` positions. Padding makes
# the input longer at both ends. The window moves over it in steps of `stride`, and must fit in whole. The output has one
# value for each place of the window. In our cases there is always at least one.
#
# An example: `conv_output_shape((1, 3, 32, 32), 8, (3, 3), (2, 2), (1, 1), (1, 1))` is `(1, 8, 16, 16)`.
#
# <details><summary>Hint 1: a question</summary>How far can a window of 3 move over 5 positions? At how many places has it been then?</details>
# <details><summary>Hint 2: the idea</summary>Room to move = padded size minus what the window covers. There is one place before the first step, and one more for every <code>stride</code> positions of room.</details>
# <details><summary>Hint 3: the shape</summary>A small function of five numbers, called once for the height and once for the width: <code>room = …</code>, then <code>room // … + …</code>. Return a tuple of four.</details>


# %% nbgrader={"grade": false, "grade_id": "conv_output_shape-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def conv_output_shape(
    input_shape: tuple[int, int, int, int],
    out_channels: int,
    kernel_size: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
) -> tuple[int, int, int, int]:
    """Shape of the output of a 2-d convolution; every pair is (height, width)."""
    ### BEGIN SOLUTION
    batch, _, *image = input_shape
    height, width = (
        (size + 2 * p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(image, kernel_size, stride, padding, dilation, strict=True)
    )
    return batch, out_channels, height, width
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "conv_output_shape", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day0.conv_output_shape(conv_output_shape)

# %% [markdown] nbgrader={"grade": false, "grade_id": "count_parameters-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. Counting parameters
#
# *8 minutes, easy.* Before you shrink a network, you want to know where its parameters are. Write
# `count_parameters(layers)`: it returns a list with the number of parameters of each layer, in order. A layer is a
# dictionary of its numbers, as below. Three kinds learn:
#
# - `Conv2d`: each output channel has a filter, which sees `in_channels / groups` channels through a window of
#   `kernel_size`. It has a bias, too, if `bias` is true.
# - `Linear`: each output feature weighs every input feature. It has a bias, too, if `bias` is true.
# - `BatchNorm2d`: a scale and a shift for each channel. Its running mean and variance are measured, not learned.
#
# Every other kind of layer counts 0, whatever its dictionary says. Leave the layers as they are: asked twice about the same
# list, your function must answer the same, in a new list.
#
# <details><summary>Hint 1: a question</summary>How many numbers does one output channel need, and how many output channels are there?</details>
# <details><summary>Hint 2: the idea</summary>Write down the shape of the weight and multiply it out: <code>(out_channels, in_channels // groups, height, width)</code>. Then add the bias, one number for each output.</details>
# <details><summary>Hint 3: the shape</summary>A loop over the layers with a branch for each kind and one for all others. Each branch sets <code>count</code>, and the loop ends with one <code>append</code>.</details>

# %% nbgrader={"grade": false, "grade_id": "count_parameters-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
network = [
    {"kind": "Conv2d", "in_channels": 3, "out_channels": 8, "kernel_size": (3, 3), "groups": 1, "bias": False},
    {"kind": "BatchNorm2d", "num_features": 8},
    {"kind": "ReLU"},
    {"kind": "MaxPool2d", "kernel_size": (2, 2)},
    {"kind": "Linear", "in_features": 128, "out_features": 10, "bias": True},
]


# %% nbgrader={"grade": false, "grade_id": "count_parameters-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def count_parameters(layers: list[dict]) -> list[int]:
    """The number of parameters of each layer."""
    ### BEGIN SOLUTION
    counts = []
    for layer in layers:
        count = 0
        if layer["kind"] == "Conv2d":
            height, width = layer["kernel_size"]
            count = layer["out_channels"] * (layer["in_channels"] // layer["groups"] * height * width + layer["bias"])
        elif layer["kind"] == "Linear":
            count = layer["out_features"] * (layer["in_features"] + layer["bias"])
        elif layer["kind"] == "BatchNorm2d":
            count = 2 * layer["num_features"]
        counts.append(count)
    return counts
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "count_parameters", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day0.count_parameters(count_parameters)

# %% [markdown] nbgrader={"grade": false, "grade_id": "memory_layout-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. Strides and positions
#
# *8 minutes, medium.* Code that gets strides wrong reads wrong numbers without an error. A tensor is a row of numbers in
# memory; its **strides** say how far the next index of each dimension lies. Write
#
# - `strides_of(shape, channels_last=False)`: the strides of a contiguous tensor with any number of dimensions, none
#   included. With `channels_last=True` the shape is (batch, channels, height, width). There the channels of one
#   pixel lie side by side; then come the pixels of a row, the rows, the images.
# - `position(index, strides)`: how many elements lie before the one at `index`. Strides may fall or rise, and may be 0.
#
# All sizes are at least 1. A dimension of size 1 has a stride like any other.
#
# An example: `strides_of((2, 3, 4, 5))` is `(60, 20, 5, 1)`, and `position((1, 0, 2, 3), (60, 20, 5, 1))` is 73.
#
# <details><summary>Hint 1: a question</summary>In a matrix of 4 rows and 6 columns, how many numbers lie between an element and the one below it?</details>
# <details><summary>Hint 2: the idea</summary>A stride is the product of the sizes of all dimensions that are faster. Which dimensions are faster than the channels, when the channels are the fastest?</details>
# <details><summary>Hint 3: the shape</summary>Go through the sizes from the fastest to the slowest and keep a product: <code>for size in …: strides.insert(0, step); step *= …</code>. Channels last: the same walk in the order of memory, and then each stride back to its own dimension.</details>


# %% nbgrader={"grade": false, "grade_id": "memory_layout-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def strides_of(shape: tuple[int, ...], channels_last: bool = False) -> tuple[int, ...]:
    """How many elements apart neighbours in each dimension lie."""
    ### BEGIN SOLUTION
    if channels_last:
        _, channels, height, width = shape
        return height * width * channels, 1, width * channels, channels
    strides, step = [], 1
    for size in reversed(shape):
        strides.insert(0, step)
        step *= size
    return tuple(strides)
    ### END SOLUTION


def position(index: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Where in memory the element at `index` lies, counted in elements from the first."""
    ### BEGIN SOLUTION
    return sum(i * stride for i, stride in zip(index, strides, strict=True))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "memory_layout", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day0.memory_layout(strides_of, position)

# %% [markdown] nbgrader={"grade": false, "grade_id": "check_stack-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. Do these layers fit?
#
# *12 minutes, medium.* The most common error in a new network is a layer that doesn't fit the one before. Find it without
# running anything. Write `shapes_through(input_shape, layers)`: it returns the list of the shapes after each layer. At
# the first layer that doesn't fit what comes in, it raises a `ValueError`. Its message begins with that layer's
# position, counted from 0: `layer 3: …`. Leave the layers as they are, and return a new list.
#
# | kind | numbers | fits when | its output |
# | --- | --- | --- | --- |
# | `Conv2d` | `in_channels`, `out_channels`, `kernel_size`, `stride`, `padding` | four sizes, the right channels, window not too large | as in task 1 |
# | `MaxPool2d` | `kernel_size`, `stride` (`None`: as the kernel) | four sizes, window not too large | channels stay |
# | `ReLU` | | always | as it came |
# | `Flatten` | | always | `(batch, all the rest multiplied)` |
# | `Linear` | `in_features`, `out_features` | the *last* size is `in_features` | the last size is `out_features` |
#
# Four sizes means exactly four: PyTorch would take three for one image, we don't. `Flatten` gets two sizes or more. A batch may be empty.
# Kernels, strides and paddings are single numbers here, the same for height and width. There is no dilation.
#
# <details><summary>Hint 1: a question</summary>Which one number of the input does a linear layer look at, and what happens to the others?</details>
# <details><summary>Hint 2: the idea</summary>Keep the shape in one variable. Each kind first says what must hold, then makes the new shape. A window fits when the height and the width that come out are at least 1.</details>
# <details><summary>Hint 3: the shape</summary><code>for position, layer in enumerate(layers): … raise ValueError(f"layer {position}: …") … shapes.append(shape)</code></details>


# %% nbgrader={"grade": false, "grade_id": "check_stack-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def shapes_through(input_shape: tuple[int, ...], layers: list[dict]) -> list[tuple[int, ...]]:
    """The shape after each layer; `ValueError` at the first layer that does not fit."""
    ### BEGIN SOLUTION
    shape, shapes = tuple(input_shape), []
    for position, layer in enumerate(layers):
        kind = layer["kind"]
        if kind in ("Conv2d", "MaxPool2d"):
            if len(shape) != 4:
                raise ValueError(f"layer {position}: {kind} takes four sizes, not {shape}")
            if kind == "Conv2d" and shape[1] != layer["in_channels"]:
                raise ValueError(f"layer {position}: takes {layer['in_channels']} channels, not {shape[1]}")
            stride = layer["stride"] or layer["kernel_size"]
            room = [size + 2 * layer.get("padding", 0) - layer["kernel_size"] for size in shape[2:]]
            if min(room) < 0:
                raise ValueError(f"layer {position}: its window is larger than {shape[2:]}")
            shape = (shape[0], layer.get("out_channels", shape[1]), *(size // stride + 1 for size in room))
        elif kind == "Flatten":
            features = 1
            for size in shape[1:]:
                features *= size
            shape = (shape[0], features)
        elif kind == "Linear":
            if shape[-1] != layer["in_features"]:
                raise ValueError(f"layer {position}: takes {layer['in_features']} features, not {shape[-1]}")
            shape = (*shape[:-1], layer["out_features"])
        shapes.append(shape)
    return shapes
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "check_stack", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day0.check_stack(shapes_through)

# %% [markdown] nbgrader={"grade": false, "grade_id": "build_mlp-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 5. A graph, node by node
#
# *12 minutes, medium.* Every optimisation of this course makes nodes and wires them up. Do it once by hand. Write
# `build_mlp(first, second)`: it takes two linear layers and returns a `torch.fx.GraphModule` that computes
# `second(relu(first(x)))`. Build its graph with the methods of `fx.Graph`, with a node for each operation. Don't trace:
# `fx.symbolic_trace`, `fx.Tracer` and `fxopt_core.capture` are out of reach while this task is graded.
#
# The graph must pass `graph.lint()`, and run for any batch size and dtype of the layers. It must leave its input as it is,
# and use the very layers that it was given, as they are: to train it must be to train them, and what was frozen stays
# frozen.
#
# The cell below builds another graph, of one operation. `{"layer": layer}` says what the names in `call_module` mean.
#
# <details><summary>Hint 1: a question</summary>What are the inputs, what are the operations, and what is returned? Each is a node; there are five.</details>
# <details><summary>Hint 2: the idea</summary>A method of <code>fx.Graph</code> makes a node and returns it, and the next node takes it as an argument. Nothing is returned unless there is an output node.</details>
# <details><summary>Hint 3: the shape</summary><code>placeholder</code>, <code>call_module</code>, <code>call_function</code>, <code>call_module</code>, <code>output</code>; then a <code>GraphModule</code> of the graph and a dictionary that names both layers.</details>

# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "build_mlp-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
layer = nn.Linear(4, 2)
example = fx.Graph()
x = example.placeholder("x")
y = example.call_module("layer", (x,))
example.output(y)
one_layer = fx.GraphModule({"layer": layer}, example)
print(example)
print(tuple(one_layer(torch.ones(3, 4)).shape))


# %% nbgrader={"grade": false, "grade_id": "build_mlp-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def build_mlp(first: nn.Linear, second: nn.Linear) -> fx.GraphModule:
    """A graph that computes `second(relu(first(x)))` with the layers themselves."""
    ### BEGIN SOLUTION
    graph = fx.Graph()
    x = graph.placeholder("x")
    hidden = graph.call_module("first", (x,))
    active = graph.call_function(torch.relu, (hidden,))
    graph.output(graph.call_module("second", (active,)))
    graph.lint()
    return fx.GraphModule({"first": first, "second": second}, graph)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "build_mlp", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day0.build_mlp(build_mlp)

# %% [markdown] nbgrader={"grade": false, "grade_id": "run_graph-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 6. Run a graph yourself
#
# *12 minutes, hard.* A graph module runs *code* that was once written from its graph. Here the graph has changed since,
# and it can't be written anew: one of its constants has no form in code. Write `run_graph(graph_module, *inputs)`, which
# computes the graph itself. Don't call the module, nor `recompile()`, nor a fresh `GraphModule`. `torch.fx.interpreter`,
# with `fx.Interpreter`, is out of reach while you're graded.
#
# Go through `graph_module.graph.nodes` in order and keep the value of each node. Every node has its turn, also when nobody
# reads its value: it may write into a tensor or draw random numbers. Gradients must flow back as through the model.
#
# | `node.op` | its value |
# | --- | --- |
# | `placeholder` | the next input |
# | `get_attr` | what lies in the module under the path `node.target` (`block.scale`) |
# | `call_function` | `node.target`, called with the arguments |
# | `call_method` | the method named `node.target` of the first argument, called with the others |
# | `call_module` | the submodule under the path `node.target`, called itself (so that its hooks run) with the arguments |
# | `output` | ends the run: its first argument is what the graph returns |
#
# Arguments are in `node.args` and `node.kwargs`, for all three calls. They may hold nodes at any depth: in lists, tuples,
# slices and dictionaries. The cell below shows how `map_arg` replaces every node in them.
#
# <details><summary>Hint 1: a question</summary>When a node's turn comes, what do you know of the nodes in its arguments?</details>
# <details><summary>Hint 2: the idea</summary>A dictionary from node to value. Look up all arguments first, in the same way for each kind of node; then it is one line for each kind.</details>
# <details><summary>Hint 3: the shape</summary><code>args = map_arg(node.args, …)</code>, likewise <code>kwargs</code>; then a branch for each kind; <code>graph_module.get_submodule(path)</code> for modules; for attributes a loop of <code>getattr</code> over the parts of the path.</details>

# %% tags=["nbval-check-output"] nbgrader={"grade": false, "grade_id": "run_graph-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
from torch.fx.node import map_arg

graph = fx.Graph()
x = graph.placeholder("x")
joined = graph.call_function(torch.cat, ([x, x],), {"dim": 1})
print(joined.args, joined.kwargs)
print(map_arg(joined.args, lambda node: f"the value of {node.name}"))


# %% nbgrader={"grade": false, "grade_id": "run_graph-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def run_graph(graph_module: fx.GraphModule, *inputs):
    """What the graph returns for these inputs, node by node."""
    ### BEGIN SOLUTION
    values, left = {}, list(inputs)
    for node in graph_module.graph.nodes:
        args = map_arg(node.args, values.__getitem__)
        kwargs = map_arg(node.kwargs, values.__getitem__)
        if node.op == "placeholder":
            values[node] = left.pop(0)
        elif node.op == "get_attr":
            value = graph_module
            for name in node.target.split("."):
                value = getattr(value, name)
            values[node] = value
        elif node.op == "call_function":
            values[node] = node.target(*args, **kwargs)
        elif node.op == "call_method":
            values[node] = getattr(args[0], node.target)(*args[1:], **kwargs)
        elif node.op == "call_module":
            values[node] = graph_module.get_submodule(node.target)(*args, **kwargs)
        else:
            return args[0]
    raise ValueError("the graph has no output node")
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "run_graph", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day0.run_graph(run_graph)

# %% [markdown] nbgrader={"grade": false, "grade_id": "run_graph-use-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Here is your interpreter on a traced network. **Prediction.** Will its result be close to the network's own, or equal to
# the last bit?

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "run_graph-use", "locked": true, "schema_version": 3, "solution": false, "task": false}
torch.manual_seed(0)
small = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10)).eval()
images = torch.randn(2, 3, 8, 8)
try:
    with torch.no_grad():
        print("equal:", torch.equal(run_graph(fx.symbolic_trace(small), images), small(images)))
except NotImplementedError:
    print("not yet written")

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex00-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), take the `#` away, and run this cell. It tells you how many points you have and where to
# find the feedback page.

# %%
# submit("ex_00")
