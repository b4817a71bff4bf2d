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
# # Unit 1: architecture
#
# *About 60 minutes. You need Week 1, or a good idea of what an FX graph is.*
#
# You write `torch.add(a, b)` and get a sum. Somewhere between that line and the processor there are two languages, a code
# generator and a dozen C++ functions. Nobody needs to know them, until a gradient is wrong, a kernel is missing, or
# a model is ten times too slow. Then the question is always the same: *which layer, and in which file?*

# %% [markdown]
# This lesson answers it. You follow one addition from Python down to the loop that adds, on your own machine. You learn
# which folder of PyTorch's source answers which question. But first: why is it built like this at all? To see
# that, you build the two kinds of engine that a framework can have.
#
# Everything you see comes from the PyTorch that's installed here: its headers, its tables, its own stack.

# %% [markdown]
# ## Where define-by-run comes from
#
# *5 minutes.* Every framework has to answer one question: when does it learn what your model computes?
#
# | year | framework | how you describe a model |
# | --- | --- | --- |
# | 2002 | Torch, from 2011 with Lua | layers from a box, each with a forward and a backward function |
# | 2010 | Theano | a graph of symbols, compiled, then run |
# | 2013 | Caffe | a file that lists layers |
# | 2015 | TensorFlow 1 | a graph of symbols, run in a session |
# | 2015 | Chainer, autograd for NumPy | you just compute, and the library takes notes |
# | 2017 | PyTorch | the same, on Torch's libraries, in C++ for speed |
# | 2018 | JAX | you write functions; a tracer turns them into graphs, and a compiler takes those |
# | 2023 | PyTorch 2 | you just compute; a compiler records graphs from your bytecode |

# %% [markdown]
# Chainer's authors called their answer [**define-by-run**](../Glossary.md#define-by-run): running the program *is* defining
# the graph. The other answer is *define-and-run*: a [**static graph**](../Glossary.md#static-graph) first, numbers later.
# Researchers wanted loops, recursion and a debugger, so define-by-run won. Compilers want the whole program in
# advance, so PyTorch 2 records it after all. You can't understand either wish before you've felt both.
#
# PyTorch also stands on older ground. The arithmetic of scientific computing (BLAS, OpenMP, vector instructions, MPI) is
# what its kernels call:

# %%
# %matplotlib inline
import re
import warnings
from collections import Counter
from timeit import repeat

import torch
import yaml
from IPython.display import display
from matplotlib import pyplot

from fxopt_workbench.torch_sources import installed, source

settings = torch.__config__.show()
for line in settings.splitlines():
    if any(word in line for word in ("LAPACK", "OpenMP", "DNN", "CPU capability")) and "settings" not in line:
        print(line.strip("- ")[:100])
print("BLAS:", ", ".join(re.findall(r"BLAS_INFO=(\w+)", settings)) or "not stated")
print(
    "distributed backends:",
    ", ".join(name for name in ("gloo", "mpi", "nccl") if getattr(torch.distributed, f"is_{name}_available")()),
)

# %% [markdown]
# ## An engine with a tape
#
# *10 minutes.* Here's define-by-run in a dozen lines. Each `Number` computes at once, and remembers what it was made of and
# how steep the result is in each input. That memory is the [**tape**](../Glossary.md#tape).


# %%
class Number:
    def __init__(self, value, *made_of):
        self.value, self.made_of, self.gradient = value, made_of, 0.0

    def __add__(self, other):
        return Number(self.value + other.value, (self, 1.0), (other, 1.0))

    def __mul__(self, other):
        return Number(self.value * other.value, (self, other.value), (other, self.value))


def backward(result, gradient=1.0):
    """Give each number its gradient; returns how many calls that took."""
    result.gradient += gradient
    return 1 + sum(backward(inner, gradient * slope) for inner, slope in result.made_of)


# %% [markdown]
# **Prediction.** The program below doubles a number until it's above 100. Nobody told the engine how often. What's the
# gradient of the result with respect to `x`?

# %% tags=["nbval-check-output"]
x = Number(3.0)
y = x
while y.value < 100:
    y = y + y
calls = backward(y)
print(f"{y.value = }, {x.gradient = }")

check = torch.tensor(3.0, requires_grad=True)
z = check
while z < 100:
    z = z + z
z.backward()
print("PyTorch:", z.item(), check.grad.item())

# %% [markdown]
# The loop is Python's. The engine saw six additions, because this `x` needed six. That's all there is to it, and it's why
# you can put a breakpoint into a model.
#
# **Prediction.** The tape holds six additions. How many calls of `backward` did it take?

# %% tags=["nbval-check-output"]
print("calls:", calls)
for doublings in (10, 15):
    y = x
    for _ in range(doublings):
        y = y + y
    print(f"{doublings} additions: {backward(y)} calls")

# %% [markdown]
# This toy walks every *path*, and each `y + y` doubles their number. PyTorch's engine doesn't: it waits until a gradient is
# complete and runs each operation once. In the exercise you build that engine, with arrays, and it takes sixty lines.

# %% [markdown]
# ## An engine with a graph
#
# *10 minutes.* Now the other way. A `Node` has a name for what it does and no value at all.


# %%
class Node:
    count = 0

    def __init__(self, operator, *inputs):
        self.operator, self.inputs, self.number = operator, inputs, Node.count
        Node.count += 1

    def __add__(self, other):
        return Node("+", self, other)

    def __mul__(self, other):
        return Node("*", self, other)


def compiled(result, *inputs):
    """Python source for everything that the result needs, each node once, and the function that it makes."""
    lines, done = [], {node: f"v{node.number}" for node in inputs}

    def write(node):
        if node not in done:
            left, right = (write(one) for one in node.inputs)
            done[node] = f"v{node.number}"
            lines.append(f"    v{node.number} = {left} {node.operator} {right}")
        return done[node]

    last = write(result)
    arguments = ", ".join(done[node] for node in inputs)
    text = "\n".join([f"def run({arguments}):", *lines, f"    return {last}"])
    made = {}
    exec(text, made)
    return made["run"], text


# %% tags=["nbval-check-output"]
x, w = Node("input"), Node("input")
hidden = x * w
forgotten = hidden * hidden * hidden
run, text = compiled(hidden + hidden * x, x, w)
print(text)
print("run(3, 2) =", run(3.0, 2.0))

# %% tags=["claim"]
# The hidden product that nobody reads isn't in the function.
assert f"v{forgotten.number}" not in text

# %% [markdown]
# Nobody wrote a pass to remove dead code, and `forgotten` isn't there. The whole program is known, so each node that's
# needed can be written once and the rest left out. A real engine would go on: check shapes, plan memory, fuse loops. That's
# what you do in the exercise.
#
# **Prediction.** Now the loop from before: double until it's above 100. What happens?

# %% tags=["nbval-check-output"]
y = x
try:
    while y < 100:
        y = y + y
except TypeError as error:
    print("TypeError:", error)
print("and an if:", "taken" if x else "not taken", "whatever x will be")

# %% [markdown]
# There's no value to compare with, and the `if` is worse: it doesn't even complain. Python asked whether the *node* is
# true, and decided for all inputs. TensorFlow 1 had `tf.cond` and `tf.while_loop` for this: control flow that is itself
# a node. `torch.export` has `torch.cond` for the same reason (Day 3).

# %% [markdown]
# What does the graph buy? Time one small model both ways. Both are plain Python, so only the engines differ.


# %%
def model(x, w):
    y = x
    for _ in range(20):
        y = y * w + x
    return y


a, b = Node("input"), Node("input")
run, _ = compiled(model(a, b), a, b)
taped = min(repeat(lambda: model(Number(3.0), Number(0.5)), number=300, repeat=5)) / 300
static = min(repeat(lambda: run(3.0, 0.5), number=300, repeat=5)) / 300
assert model(Number(3.0), Number(0.5)).value == run(3.0, 0.5)
print(f"tape:  {taped * 1e6:6.1f} µs a run, taking notes each time")
print(f"graph: {static * 1e6:6.1f} µs a run, {taped / static:.0f} times as fast, after the work of describing it once")

# %% tags=["claim"]
# The graph's function is faster by far than taking notes each time.
assert taped > 3 * static

# %% [markdown]
# | | tape: define-by-run | graph: define-and-run |
# | --- | --- | --- |
# | loops and conditions on values | Python's own | special nodes, or refused |
# | print, debugger, error message | at the line that computes | inside the executor, far from your line |
# | wrong shape | found when that line runs | found before anything runs |
# | dead code, shared work, memory plan | unknown: the next line may need anything | known: everything is there |
# | cost of each operation | notes, every time | none, after compiling |
# | saving and running without Python | needs a recorder | the graph is the program |
#
# `torch.compile` tries to get the left column's freedom at the right column's price: it lets Python run, records what
# happened, and guards the assumptions. Where it can't, the graph breaks. You spent Week 1 there. The rest of this
# unit is about what lies beneath.

# %% [markdown]
# ## One call, six layers
#
# *15 minutes.* How does `torch.add` get to the processor? To see where a call has been, let it *fail* as deep inside as
# possible. These two shapes don't fit, and the code that finds out is almost at the bottom. PyTorch can put its C++ stack
# into the message.
#
# **Prediction.** The tensors are on the CPU, and one of them asks for a gradient. Through which layers will the call have
# gone? Write down your guess before you look.

# %%
from fxopt_workbench.internals.native_stack import NoNativeStackError, as_table, native_stack

try:
    frames = native_stack("torch.add(torch.ones(2, requires_grad=True), torch.ones(3))")
    display(as_table(frames))
except NoNativeStackError as error:
    frames = []
    print(error)

# %% tags=["claim"]
# The call went through these six layers, from the binding to TensorIterator, and twice through the dispatcher.
if frames:
    order = "Python binding, dispatcher, autograd kernel, CPU kernel, structured kernel, TensorIterator"
    assert ", ".join(dict.fromkeys(frame.layer for frame in frames)) == order
    assert [frame.layer for frame in frames].count("dispatcher") == 2

# %% [markdown]
# Read it from the top. Every name is a place in the source:
#
# 1. `THPVariable_add` is the **Python binding**. It's what `torch.add` is: it reads Python's arguments and chooses an overload.
# 2. `at::_ops::add_Tensor::call` is the [**dispatcher**](../Glossary.md#dispatcher): look at the tensors, find the entry in
#    the operator's table.
# 3. `VariableType::add_Tensor` is the **autograd kernel**. It notes `AddBackward0` and calls again, below itself:
#    `redispatch`. (Unit 3 explains how.)
# 4. `wrapper_CPU_add_Tensor` is the **CPU kernel**, or rather the shell that the code generator writes around it.
# 5. `structured_add_Tensor::meta` computes the result's shape. The same code serves the meta device.
# 6. [`TensorIterator`](../Glossary.md#tensoriterator) lines up the operands: stretching, dtypes, strides, threads. It found
#    the error.

# %%
if frames:
    layers = list(dict.fromkeys(frame.layer for frame in frames))
    figure, axes = pyplot.subplots(figsize=(8, 3.2), layout="constrained")
    for depth, frame in enumerate(frames):
        axes.barh(depth, len(frames) - depth, left=depth, color=f"C{layers.index(frame.layer)}", alpha=0.4)
        axes.text(depth + 0.1, depth, f"{frame.layer}: {frame.function.split('::', 1)[-1]}", va="center", fontsize=8)
    axes.invert_yaxis()
    axes.set(title="One torch.add, from Python inwards", xlabel="depth of the stack", yticks=[])
    axes.set_xlim(0, len(frames) + 6)
    pyplot.close(figure)
    display(figure)
    print("The picture as text:", " calls ".join(layers))

# %% [markdown]
# Now look at each of these layers by itself. The binding first: `torch.add` has no Python source.

# %% tags=["nbval-check-output"]
print("torch.add is a", type(torch.add).__name__)
sum_of_two = torch.add(torch.ones(2, requires_grad=True), torch.ones(2))
print("left behind by the autograd kernel:", type(sum_of_two.grad_fn).__name__)

# %% [markdown]
# The dispatcher and the autograd kernel are declared for each operator by generated code. Here's the operator as C++ sees
# it, with the two functions that were on the stack, and the node that was noted:

# %%
source("aten/src/ATen/ops/add_ops.h", "add_Tensor")

# %%
source("torch/csrc/autograd/generated/Functions.h", "AddBackward0", occurrence=3, most=8)

# %% [markdown]
# Generated from what? From one entry in a table, and a formula in another one. Everything above was written by `torchgen`
# from these few lines:

# %%
source("aten/src/ATen/native/native_functions.yaml", "add.out")

# %%
source("tools/autograd/derivatives.yaml", "add.Tensor")

# %% [markdown]
# `structured: True` makes it a [**structured kernel**](../Glossary.md#structured-kernel): the shape is computed in one function
# (`meta`) and the numbers in another (`impl`). `ufunc_inner_loop: add` names the loop's body. The loop itself belongs to
# TensorIterator:

# %%
source("aten/src/ATen/TensorIterator.h", "TensorIteratorBase", most=6)

# %% [markdown]
# A profiler sees the same call from outside. It has no event for the layers inside one operator, but it shows which
# operators call which, with times. Here's one `linear`, with its relu:

# %%
import os

from torch.profiler import ProfilerActivity, profile

os.environ["KINETO_LOG_LEVEL"] = "99"  # The profiler would write into this cell that it has begun.
layer, rows = torch.nn.Linear(3, 2), torch.ones(4, 3)
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    torch.relu(layer(rows))


def show(event, depth=0):
    print(f"{'  ' * depth}{event.name:{40 - 2 * depth}} {event.cpu_time_total:7.1f} µs")
    for inner in event.cpu_children:
        show(inner, depth + 1)


for event in profiler.events():
    if event.cpu_parent is None:
        show(event)

# %% [markdown]
# **Prediction.** All these layers take time. With how many elements does a tensor have to come before the *adding* takes
# longer than the way there: ten, a thousand, or a hundred thousand?

# %%
torch.set_num_threads(1)
costs = {}
for elements in (1, 10, 100, 1_000, 10_000, 100_000, 1_000_000):
    a, b = torch.ones(elements), torch.ones(elements)
    number = max(3, min(2_000, 2_000_000 // elements))
    costs[elements] = min(repeat(lambda a=a, b=b: torch.add(a, b), number=number, repeat=5)) / number
for elements, seconds in costs.items():
    print(f"{elements:>9,} elements: {seconds * 1e6:9.2f} µs a call, {seconds / elements * 1e9:9.3f} ns an element")
way = min(costs.values())
print(
    f"The way to the kernel takes about {way * 1e6:.1f} µs here; a call takes twice that from "
    f"{next(count for count, seconds in costs.items() if seconds > 2 * way):,} elements on."
)

# %% tags=["claim"]
# A call with one element takes about as long as one with a hundred; the adding takes over long before a million.
assert costs[100] < 3 * costs[1]
assert costs[1_000_000] > 5 * costs[1]

# %% [markdown]
# That figure is the reason for much of Week 1. A model of many small operators spends its time on the way there, and a
# compiler that makes one [kernel](../Glossary.md#kernel) of ten operators saves nine ways.

# %% [markdown]
# ## A map of the source
#
# *10 minutes.* PyTorch's repository has some thousands of folders. You need about a dozen. The names tell you the layer:
#
# | folder | the question it answers | in your wheel |
# | --- | --- | --- |
# | `torch/*.py`, `torch/nn`, `torch/optim` | what does this Python function do? | all of it |
# | `torch/_dynamo`, `_functorch`, `_inductor` | what does `torch.compile` do with it? | all of it |
# | `torch/csrc/autograd` | how does the engine work, how is Python bound? | headers |
# | `torch/csrc/autograd/generated` | what exactly does the autograd kernel do? | headers; the build writes them |
# | `tools/autograd/derivatives.yaml` | what's the formula of this gradient? | the file |
# | `aten/src/ATen/native/native_functions.yaml` | which function serves this operator on this device? | the file |
# | `aten/src/ATen/native` | how is it computed? | headers |
# | `aten/src/ATen/core/dispatch` | how is a kernel chosen? | headers |
# | `c10/core` | what is a tensor, a storage, a key? | headers |
# | `torchgen` | who wrote this generated file? | all of it |
# | `test`, `torch/testing` | how is it meant to behave? | `torch/testing` |

# %% [markdown]
# `ATen` is "A TENsor library": the operators. `c10` is the core beneath it that knows no operator (it reads "C-ten": Caffe2
# and ATen in one). `csrc` is C source for Python. And `aten/src/ATen/native` is where people write kernels by hand; most
# of the rest around it is generated.
#
# **Prediction.** How many header files does your wheel hold for ATen, and how many of them has a person written?

# %%
headers = installed("aten/src/ATen/Tensor.h").parent
generated = sum(1 for _ in (headers / "ops").glob("*.h"))
everything = sum(1 for _ in headers.rglob("*.h"))
print(f"ATen: {everything:,} headers, {generated:,} of them generated: {generated / everything:.0%}")
for folder in ("c10/core", "torch/csrc/autograd", "torch/csrc/jit", "torch/csrc/inductor"):
    print(f"{folder:22} {sum(1 for _ in (headers.parent / folder).rglob('*.h')):5} headers")

# %% tags=["claim"]
# Most of ATen's headers are generated.
assert generated > everything / 2

# %% [markdown]
# So don't read generated files from top to bottom. Find the entry in the table that they come from. Each question has a
# locator: a file and a symbol. This is how every unit of this track quotes:

# %%
source("c10/core/TensorImpl.h", "storage_offset_")

# %%
source("torch/csrc/autograd/engine.h", "ReadyQueue", most=8)

# %% [markdown]
# And the tests? They aren't in the wheel, but the list that drives most of them is. An *OpInfo* says of each operator which
# dtypes it takes and how to make inputs for it. `test/test_ops.py` runs hundreds of checks over that list.

# %% tags=["nbval-check-output"]
from torch.testing._internal.common_methods_invocations import op_db

(info,) = (one for one in op_db if one.name == "add")
example = next(iter(info.sample_inputs("cpu", torch.float32)))
print("add:", len(info.dtypes), "dtypes on the CPU; a first input of shape", tuple(example.input.shape))

# %% [markdown]
# ## Ask the tables
#
# *5 minutes.* You've seen one entry. What do the others say? A rule of thumb gives you the kernel for an ordinary tensor: the
# function for `CPU`, if the entry (or the one that it delegates to) has one; else a
# [composite](../Glossary.md#composite-operator) one.
#
# **Prediction.** PyTorch has more than 2,500 entries. For how many is there a kernel just for the CPU?

# %%
entries = {
    entry["func"].split("(")[0]: entry
    for entry in yaml.load(installed("aten/src/ATen/native/native_functions.yaml").read_text(), Loader=yaml.CSafeLoader)
}
REASON = re.compile(r"^CPU: registered.*\[([\w ]+)\]$", re.MULTILINE)
reasons = Counter()
for name in entries:
    found = REASON.search(torch._C._dispatch_dump_table(f"aten::{name}"))
    reasons[found[1] if found else "nothing: other devices only"] += 1
for reason, count in reasons.most_common():
    print(f"{reason:28} {count:5}  {'█' * round(30 * count / max(reasons.values()))}")
figure, axes = pyplot.subplots(figsize=(7, 2), layout="constrained")
axes.barh(list(reasons), list(reasons.values()), color="tab:blue")
axes.set(title="What serves an ordinary tensor on the CPU", xlabel="entries of native_functions.yaml")
axes.invert_yaxis()
pyplot.close(figure)
figure

# %% tags=["claim"]
# More than 2,500 entries; composite ones alone are more than half.
assert len(entries) > 2_500
assert reasons["math kernel"] + reasons["default backend kernel"] > len(entries) / 2
assert reasons["kernel"] < len(entries) / 2

# %% [markdown]
# *Kernel* is one for the CPU alone; *math kernel* is composite implicit, made of other operators; *default backend kernel* is
# composite explicit, one function for every device. So more than half of PyTorch runs on a new device without a line
# written for it. In the exercise you turn this into a tool: name an operator, get its line, its function, its file and its
# formula.

# %% [markdown]
# ## What has moved since 2019
#
# *5 minutes.* The best introduction to all this is still Edward Yang's *PyTorch internals* from 2019. The layers are the same.
# Some names aren't, and each of his landmarks can be looked up. Where does he send you, and what's there now?
#
# **Prediction.** Which of these will still be found: `TH`, the old C library; `CPUFloatType`, the class that dispatched for a
# device and a dtype; `AT_DISPATCH_ALL_TYPES`, the macro for dtypes; `THPVariable_add`, the binding?

# %%
LANDMARKS = {
    "TH, kernels in C": ("aten/src/TH/THTensor.h", "THTensor"),
    "CPUFloatType: a class for device and dtype": ("aten/src/ATen/CPUFloatType.h", "CPUFloatType"),
    "type_id_: one number that dispatches": ("c10/core/TensorImpl.h", "type_id_"),
    "key_set_: a set of keys": ("c10/core/TensorImpl.h", "key_set_"),
    "AT_DISPATCH_ALL_TYPES: the dtype's switch": ("aten/src/ATen/Dispatch.h", "AT_DISPATCH_ALL_TYPES"),
    "native_functions.yaml": ("aten/src/ATen/native/native_functions.yaml", "add.Tensor"),
    "derivatives.yaml": ("tools/autograd/derivatives.yaml", "add.Tensor"),
}
for name, (file, symbol) in LANDMARKS.items():
    try:
        print(f"there  {name}: {source(file, symbol).where.partition(' (')[0]}")
    except LookupError:
        print(f"gone   {name}")
if frames:
    print(f"there  the binding: {frames[0].function}, as the stack showed")

# %% tags=["claim"]
# Of the landmarks of 2019, these have gone, and the others are there.
gone = []
for name, (file, symbol) in LANDMARKS.items():
    try:
        source(file, symbol)
    except LookupError:
        gone.append(name.partition(":")[0])
assert gone == ["TH, kernels in C", "CPUFloatType", "type_id_"]

# %% [markdown]
# `TH` was rewritten in C++ and removed. In 2019 a call was dispatched *twice*, first over a `Variable` around the tensor, then
# over a `Type` for device and dtype. Both became keys of one dispatcher, so `Variable` is only a name now, and the
# dtype is left to a `switch` inside the kernel. The third thing that has gone is a promise:

# %% tags=["nbval-check-output"]
print("Variable is", torch.autograd.Variable(torch.ones(1)).__class__.__name__)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    torch.jit.script(torch.nn.ReLU())
print(next(str(one.message) for one in caught if "deprecated" in str(one.message)).splitlines()[0])

# %% [markdown]
# TorchScript was how a model left Python in 2019. Its place has been taken by Week 1's tools: Dynamo, AOTAutograd, Inductor
# and `torch.export`, most of them written in Python, on top of the layers that you've just walked down.

# %% [markdown]
# ## What to remember
#
# - Define-by-run: the engine learns your program by running it. A static graph is known before. Each makes easy what the
#   other makes hard, and `torch.compile` wants both.
# - `torch.add`: binding → dispatcher → autograd kernel → dispatcher → CPU kernel → TensorIterator.
# - Two tables make most of the C++: `native_functions.yaml` says what serves an operator, `derivatives.yaml` how it's
#   derived. `torchgen` writes the rest.
# - `c10` knows tensors, ATen knows operators, `csrc` knows Python and gradients.
# - To see where a call has been, let it fail inside; to see what called what, profile it.
#
# Now build both engines, and two tools: [exercise 11](ex_11_architecture.ipynb). Above all this C++ there's one more layer, in
# plain Python: the [second lesson](lesson_modules.ipynb) takes `nn.Module` apart.

# %% [markdown]
# ## Where this comes from
#
# - E. Z. Yang, *PyTorch internals*, 2019 (blog post).
# - A. Paszke et al., *PyTorch: An Imperative Style, High-Performance Deep Learning Library*, NeurIPS 2019.
# - S. Tokui et al., *Chainer: a Next-Generation Open Source Framework for Deep Learning*, 2015.
# - J. Bergstra et al., *Theano: a CPU and GPU Math Expression Compiler*, 2010; M. Abadi et al., *TensorFlow: A System for
#   Large-Scale Machine Learning*, 2016; Y. Jia et al., *Caffe*, 2014; R. Frostig, M. J. Johnson and C. Leary, *Compiling
#   machine learning programs via high-level tracing*, 2018 (JAX); R. Collobert, K. Kavukcuoglu and C. Farabet, *Torch7*, 2011.
# - J. Ansel et al., *PyTorch 2*, ASPLOS 2024.
# - What's quoted above, from the release that is installed here.
