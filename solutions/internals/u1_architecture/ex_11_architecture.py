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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex11-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 11: architecture
#
# Five tasks and two questions, about three hours. You build both kinds of engine, the one with a tape and the one
# with a graph. Then you write two tools for finding your way in PyTorch itself: one looks an operator up in the tables of
# your wheel, the other takes a profiler's trace apart. The last task belongs to the second lesson: you write the class that
# all layers are made of.
#
# Each task has a cell for your code and a check below it that answers at once. The check tries visible cases; `submit` at
# the end also tries hidden ones: other programs, other operators, other traces.

# %% nbgrader={"grade": false, "grade_id": "ex11-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import numpy as np

from autograder import check, submit


# %% [markdown] nbgrader={"grade": false, "grade_id": "tape_engine-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. An engine with a tape
#
# PyTorch's autograd, in sixty lines. A `Value` holds an array and computes at once. While it does, it takes notes: which
# values went in, and how a gradient comes back. Nobody declares a program, so loops and conditions of Python are allowed.
#
# | expression | data | gradient that goes back, for an incoming `g` |
# | --- | --- | --- |
# | `a + b` | `a + b`, stretched as NumPy does | `g` to both |
# | `a * b` | `a * b`, stretched as NumPy does | `g * b` to a, `g * a` to b |
# | `-a` | `-a` | `-g` |
# | `a @ b` | the product of two matrices | `g @ b.T` to a, `a.T @ g` to b |
# | `a.relu()` | `a` where it's above 0, else 0 | `g` where `a` is above 0, else 0 |
# | `a.tanh()` | `t = tanh(a)` | `g * (1 - t * t)` |
# | `a.sum()` | the sum of all numbers | `g` for each number |
# %% [markdown] nbgrader={"grade": false, "grade_id": "tape_engine-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *30 minutes, hard.* Write `Value`, with NumPy for the arithmetic. Both operands are always values.
#
# - `data` is an array of floats; all numbers are finite. `needs_gradient` of a result is true if any of its inputs needs one.
# - `backward()`, the first time and again, adds to `gradient` of the values that were made with `needs_gradient=True`, and
#   on which the result depends. A gradient has the shape of its data: where an operand was stretched, sum. All others keep `None`.
# - On a value with more than one number, and on one that needs no gradient, `backward` must raise `ValueError`.
# - An operation must not keep its inputs alive if none of them needs a gradient.
# - Programs may have thousands of operations, and values may be used again and again: each operation's rule runs once.
#
# After `x = Value(3.0, True)` and `(x * x).backward()`, `x.gradient` is 6.
#
# <details><summary>Hint 1: a question</summary>In <code>y = x.tanh()</code>, <code>z = y * y + y</code>: which gradients have to be there before the rule of <code>tanh</code> may run?</details>
# <details><summary>Hint 2: the idea</summary>Sort the values so that each comes after everything that was made of it. Then one pass over the list is enough. To sort without recursion, keep a stack of pairs (value, whether its inputs are done).</details>
# <details><summary>Hint 3: the shape</summary>A helper <code>made(data, inputs, rule)</code> makes each result; <code>rule(g)</code> returns one gradient for each input. <code>backward</code> has a dictionary from <code>id(value)</code> to its gradient, which starts with a one for the result.</details>
# %% nbgrader={"grade": false, "grade_id": "tape_engine-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def summed_to(gradient, shape):
    """A gradient, summed over the dimensions that were stretched, so that it has this shape."""
    ### BEGIN SOLUTION
    gradient = gradient.sum(axis=tuple(range(gradient.ndim - len(shape))))
    stretched = tuple(dim for dim, size in enumerate(shape) if size == 1)
    return gradient.sum(axis=stretched, keepdims=True)
    ### END SOLUTION


def made(data, inputs, rule):
    """The result of an operation. `rule(g)` returns the gradient for each input."""
    ### BEGIN SOLUTION
    result = Value(data, any(one.needs_gradient for one in inputs))
    if result.needs_gradient:
        result.inputs, result.rule = inputs, rule
    return result
    ### END SOLUTION


class Value:
    """An array that remembers how it was made."""

    def __init__(self, data, needs_gradient=False):
        self.data = np.asarray(data, dtype=float)
        self.needs_gradient = needs_gradient
        self.gradient = None
        self.inputs, self.rule = (), None

    def __add__(self, other):
        ### BEGIN SOLUTION
        return made(self.data + other.data, (self, other), lambda g: (g, g))
        ### END SOLUTION

    def __mul__(self, other):
        ### BEGIN SOLUTION
        return made(self.data * other.data, (self, other), lambda g: (g * other.data, g * self.data))
        ### END SOLUTION

    def __neg__(self):
        ### BEGIN SOLUTION
        return made(-self.data, (self,), lambda g: (-g,))
        ### END SOLUTION

    def __matmul__(self, other):
        ### BEGIN SOLUTION
        return made(self.data @ other.data, (self, other), lambda g: (g @ other.data.T, self.data.T @ g))
        ### END SOLUTION

    def relu(self):
        ### BEGIN SOLUTION
        return made(np.maximum(self.data, 0), (self,), lambda g: (g * (self.data > 0),))
        ### END SOLUTION

    def tanh(self):
        ### BEGIN SOLUTION
        result = np.tanh(self.data)
        return made(result, (self,), lambda g: (g * (1 - result * result),))
        ### END SOLUTION

    def sum(self):
        ### BEGIN SOLUTION
        return made(self.data.sum(), (self,), lambda g: (g * np.ones_like(self.data),))
        ### END SOLUTION

    def backward(self):
        """Add to the gradients of everything that this value was made of."""
        ### BEGIN SOLUTION
        if self.data.size != 1 or not self.needs_gradient:
            raise ValueError("gradients start at a single number that needs one")
        order, met, stack = [], set(), [(self, False)]
        while stack:
            value, inputs_done = stack.pop()
            if inputs_done:
                order.append(value)
            elif id(value) not in met:
                met.add(id(value))
                stack.append((value, True))
                stack += [(one, False) for one in value.inputs if one.needs_gradient]
        gradients = {id(self): np.ones_like(self.data)}
        for value in reversed(order):
            gradient = gradients.pop(id(value))
            if value.rule is None:
                value.gradient = gradient if value.gradient is None else value.gradient + gradient
                continue
            for one, part in zip(value.inputs, value.rule(gradient), strict=True):
                if one.needs_gradient:
                    gradients[id(one)] = gradients.get(id(one), 0) + summed_to(part, one.data.shape)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "tape_engine", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u1.tape_engine(Value)

# %% [markdown] nbgrader={"grade": false, "grade_id": "static_graph-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. An engine with a graph
#
# Now the other kind, as Theano and TensorFlow 1 had it. You describe the whole computation, and nothing is computed: a graph
# holds shapes and no numbers. In return you can check it, differentiate it and plan its memory before it ever runs.
#
# A node is a tuple: operator, tuple of its inputs' numbers, tuple of its shape. With `s` a shape that is given:
#
# | operator | inputs | what it computes | gradient for each input, for an incoming `g` |
# | --- | --- | --- | --- |
# | `input` | shape `s` | what the caller gives | |
# | `ones`, `zeros` | shape `s` | this number everywhere | |
# | `add`, `mul` | a, b | as in NumPy, stretched | `g` to both; `g * b` to a, `g * a` to b |
# | `neg`, `relu`, `tanh` | a | as in Task 1 | as in Task 1; the slope of `relu` is `step(a)` |
# | `step` | a | 1 where `a` is above 0, else 0 | none |
# | `matmul`, `transpose` | matrices | product; matrix turned over | as in Task 1; `transpose(g)` |
# | `sum_to` | a, shape `s` | sums what would be stretched from `s` to a's shape | `g`, expanded to a's shape |
# | `expand` | a, shape `s` | `a`, stretched to `s` | `g`, summed to a's shape |

# %% [markdown] nbgrader={"grade": false, "grade_id": "static_graph-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *35 minutes, hard.* Write three things:
#
# - `Graph.call(operator, *inputs, shape=None)` adds a node and returns its number. An operator that isn't in the
#   table, and shapes that don't fit, must be refused with `ValueError` and leave the graph as it was.
# - `gradients(graph, loss, wanted)` adds what computes the gradient of `loss` for each node in `wanted`, and returns those
#   nodes' numbers; `zeros` where the loss doesn't depend on it. It works on its own results, too. A loss whose shape isn't
#   `()` must be refused with `ValueError`. Each node passes its gradient on once.
# - `program(graph, outputs)` returns instructions `("run", node)` and `("free", node)`. It runs what the outputs need, and
#   nothing else, each node once. It frees a node right after the last one that reads it, but no outputs. Inputs are
#   neither run nor freed.
#
# For example, `call("input", shape=(2, 3))` returns 0 in a new graph.
#
# <details><summary>Hint 1: a question</summary>In Task 1 a rule computed with arrays. What does <code>g * b</code> become when <code>g</code> and <code>b</code> are numbers of nodes?</details>
# <details><summary>Hint 2: the idea</summary>The numbers of the nodes are already in an order: inputs come first. Walk from <code>loss</code> down to 0, with a dictionary from a node to the node that holds its gradient; a second part that arrives makes an <code>add</code>.</details>
# <details><summary>Hint 3: the shape</summary><code>shape_of(operator, shapes, shape)</code> for the checks; <code>np.broadcast_shapes</code> raises <code>ValueError</code> by itself. <code>parts(graph, number, g)</code>: one <code>if</code> for each operator, which returns a list of nodes. In <code>program</code>, note for each needed node the last one that reads it.</details>


# %% nbgrader={"grade": false, "grade_id": "static_graph-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import numpy as np


def shape_of(operator, shapes, shape):
    """The shape of a result, from the shapes of the inputs and the shape that is given."""
    ### BEGIN SOLUTION
    if operator in ("input", "ones", "zeros"):
        return tuple(shape)
    if operator in ("add", "mul"):
        return np.broadcast_shapes(*shapes)
    if operator == "matmul":
        if len(shapes[0]) != 2 or len(shapes[1]) != 2 or shapes[0][1] != shapes[1][0]:
            raise ValueError(f"matmul of {shapes[0]} and {shapes[1]}")
        return (shapes[0][0], shapes[1][1])
    (given,) = shapes
    if operator == "transpose":
        if len(given) != 2:
            raise ValueError(f"transpose of {given}")
        return given[::-1]
    if operator in ("sum_to", "expand"):
        large, small = (given, tuple(shape)) if operator == "sum_to" else (tuple(shape), given)
        if np.broadcast_shapes(large, small) != large:
            raise ValueError(f"{small} can't be stretched to {large}")
        return tuple(shape)
    if operator in ("neg", "relu", "step", "tanh"):
        return given
    raise ValueError(f"there's no operator {operator}")
    ### END SOLUTION


class Graph:
    """Operations that are described and not computed."""

    def __init__(self):
        self.nodes = []

    def call(self, operator, *inputs, shape=None):
        """Add an operation, and return its number."""
        ### BEGIN SOLUTION
        found = shape_of(operator, [self.nodes[one][2] for one in inputs], shape)
        self.nodes.append((operator, inputs, found))
        return len(self.nodes) - 1
        ### END SOLUTION


def parts(graph, number, g):
    """For each input of a node, the node of the gradient that goes back to it."""
    ### BEGIN SOLUTION
    operator, inputs, _ = graph.nodes[number]
    shapes = [graph.nodes[one][2] for one in inputs]
    call = graph.call
    if operator == "add":
        return [call("sum_to", g, shape=shape) for shape in shapes]
    if operator == "mul":
        return [
            call("sum_to", call("mul", g, other), shape=shape)
            for other, shape in zip(inputs[::-1], shapes, strict=True)
        ]
    if operator == "matmul":
        a, b = inputs
        return [call("matmul", g, call("transpose", b)), call("matmul", call("transpose", a), g)]
    if operator == "neg":
        return [call("neg", g)]
    if operator == "transpose":
        return [call("transpose", g)]
    if operator == "relu":
        return [call("mul", g, call("step", inputs[0]))]
    if operator == "tanh":
        return [call("add", g, call("neg", call("mul", g, call("mul", number, number))))]
    if operator == "sum_to":
        return [call("expand", g, shape=shapes[0])]
    if operator == "expand":
        return [call("sum_to", g, shape=shapes[0])]
    return []
    ### END SOLUTION


def gradients(graph, loss, wanted):
    """Add the gradient of a loss for each wanted node, and return the numbers of those nodes."""
    ### BEGIN SOLUTION
    if graph.nodes[loss][2] != ():
        raise ValueError("gradients start at a single number")
    arrived = {loss: graph.call("ones", shape=())}
    for number in range(loss, -1, -1):
        if number in arrived:
            for one, part in zip(graph.nodes[number][1], parts(graph, number, arrived[number]), strict=False):
                arrived[one] = graph.call("add", arrived[one], part) if one in arrived else part
    return [arrived[one] if one in arrived else graph.call("zeros", shape=graph.nodes[one][2]) for one in wanted]
    ### END SOLUTION


def program(graph, outputs):
    """Instructions that compute the outputs, and free what nobody reads any more."""
    ### BEGIN SOLUTION
    needed, left = set(), list(outputs)
    while left:
        number = left.pop()
        if number not in needed and graph.nodes[number][0] != "input":
            needed.add(number)
            left += graph.nodes[number][1]
    last_reader = {one: number for number in sorted(needed) for one in graph.nodes[number][1]}
    instructions = []
    for number in sorted(needed):
        instructions.append(("run", number))
        for one in sorted(set(graph.nodes[number][1])):
            if one in needed and one not in outputs and last_reader[one] == number:
                instructions.append(("free", one))
    return instructions
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "static_graph", "locked": true, "points": 24, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u1.static_graph(Graph, gradients, program)

# %% [markdown] nbgrader={"grade": false, "grade_id": "static_graph-both-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Now let both of your engines train the same small network. (This isn't graded, and works once both checks pass.) The
# graph needs somebody who follows its program, which is a dozen lines: `execute`. What does each engine have to do in every
# step? And how many arrays are in memory at once?

# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "static_graph-both", "locked": true, "schema_version": 3, "solution": false, "task": false}
COMPUTE = {"add": np.add, "mul": np.multiply, "neg": np.negative, "matmul": np.matmul, "transpose": np.transpose}
COMPUTE |= {"tanh": np.tanh, "relu": lambda a: np.maximum(a, 0), "step": lambda a: (a > 0) * 1.0}
COMPUTE |= {"expand": np.broadcast_to, "sum_to": summed_to}


def execute(graph, instructions, inputs):
    """Run a program; returns all arrays that are left, and the most that were there at once beside the inputs."""
    memory, most = dict(inputs), 0
    for what, number in instructions:
        if what == "free":
            del memory[number]
            continue
        operator, given, shape = graph.nodes[number]
        if operator in ("ones", "zeros"):
            memory[number] = np.full(shape, float(operator == "ones"))
        else:
            arrays = [memory[one] for one in given]
            memory[number] = COMPUTE[operator](*arrays, *([shape] if operator in ("expand", "sum_to") else []))
        most = max(most, len(memory) - len(inputs))
    return memory, most


rows, targets = np.linspace(-1, 1, 12).reshape(4, 3), np.array([[1.0], [0.0], [0.0], [1.0]])
start = np.linspace(-0.5, 0.5, 6).reshape(3, 2), np.array([[0.5], [-0.25]])

losses = {"tape": [], "graph": []}
first, second = start
for _ in range(5):
    a, b = Value(first, True), Value(second, True)
    error = (Value(rows) @ a).tanh() @ b + -Value(targets)
    loss = (error * error).sum()
    loss.backward()
    losses["tape"].append(round(float(loss.data), 6))
    first, second = first - 0.1 * a.gradient, second - 0.1 * b.gradient

graph = Graph()
x, y, a, b = (graph.call("input", shape=array.shape) for array in (rows, targets, *start))
error = graph.call("matmul", graph.call("tanh", graph.call("matmul", x, a)), b)
error = graph.call("add", error, graph.call("neg", y))
loss = graph.call("sum_to", graph.call("mul", error, error), shape=())
described = len(graph.nodes)
wanted = gradients(graph, loss, [a, b])
instructions = program(graph, [loss, *wanted])
first, second = start
for _ in range(5):
    memory, most = execute(graph, instructions, {x: rows, y: targets, a: first, b: second})
    losses["graph"].append(round(float(memory[loss]), 6))
    first, second = first - 0.1 * memory[wanted[0]], second - 0.1 * memory[wanted[1]]

print("losses, tape: ", losses["tape"])
print("losses, graph:", losses["graph"])
print("the same numbers:", losses["tape"] == losses["graph"])
runs = sum(what == "run" for what, _ in instructions)
print(f"graph: {described} nodes described once; a step runs {runs}, with at most {most} arrays at once")
print("tape: 6 operations noted in each step, and everything they computed is kept until backward is done")

# %% [markdown] nbgrader={"grade": false, "grade_id": "find_your_way-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. Find your way
#
# "Where's the code of `add`?" You could search GitHub for an hour. Or you ask the tables that PyTorch itself is built from.
# All three come with your wheel:
#
# - `installed("aten/src/ATen/native/native_functions.yaml")`: one entry for each operator. What serves an ordinary tensor on the
#   processor is the first of these that's there: the function for `CPU` in `dispatch` (one line may name several keys); with
#   `ufunc_inner_loop`, a generated `ufunc_NAME_CPU`; with `structured_delegate`, what serves *that* entry; the function for
#   `CompositeExplicitAutograd`, `CompositeExplicitAutogradNonFunctional` or `CompositeImplicitAutograd`, in this order. An
#   entry without any `dispatch` is `CompositeImplicitAutograd`, with the function `NAME`, or `NAME_out` if it writes into an
#   argument behind the `*`, such as `out`. One that writes into its first argument, such as `dropout_`, keeps its name.
# - `torch._C._dispatch_dump_table("aten::…")`: the operator's table in the dispatcher, as it is now.
# - `installed("tools/autograd/derivatives.yaml")`: the formulas.

# %% [markdown] nbgrader={"grade": false, "grade_id": "find_your_way-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *25 minutes, medium.* Write `facts(operator)` for an operator's name with its overload, such as `"add.Tensor"`. It returns a
# dictionary:
#
# | key | fact, or `None` if there's none |
# | --- | --- |
# | `"line"` | number of the line `- func: …` in native_functions.yaml, from 1 |
# | `"function"` | the C++ function that serves the processor, by the rules above |
# | `"key"` | the key that it stands for |
# | `"file"` | name of the file in which the kernel in the dispatcher's entry for `CPU` was registered, without its folders |
# | `"why"` | the words in the brackets at the end of that line |
# | `"derivatives"` | for each input that has one, its formula in derivatives.yaml, under the operator's own name; `{}` if there's none |
#
# One formula may stand for several inputs; where there are `dispatch` blocks, take `Default`. Formulas for *results* aren't
# asked for. A name that has no entry must raise `LookupError` with that name in its message.
#
# For example, `facts("relu")["function"]` is `"relu"`, and `facts("linear")["why"]` is `"math kernel"`.
#
# <details><summary>Hint 1: a question</summary><code>add.Tensor</code> has no line for CPU in its own entry. Which other entry of the file does it name?</details>
# <details><summary>Hint 2: the idea</summary><code>yaml.load(text, Loader=yaml.CSafeLoader)</code> reads each file in a tenth of a second, as a list of dictionaries. The names of inputs are in <code>torch._C._get_schema("aten::add", "Tensor").arguments</code>, and so is which of them are written, and which stand behind the <code>*</code>.</details>
# <details><summary>Hint 3: the shape</summary>Two dictionaries from names to entries, made once. <code>kernel(name)</code> goes down the list of rules and calls itself for a delegate. One regular expression, <code>^CPU: registered at (\S+):\d+.*\[([\w ]+)\]$</code> with <code>re.MULTILINE</code>, finds file and reason.</details>


# %% nbgrader={"grade": false, "grade_id": "find_your_way-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import re
from functools import cache
from pathlib import PurePosixPath

import torch
import yaml

from fxopt_workbench.torch_sources import installed


@cache
def entries(file, key):
    """The entries of a file by the operator's name; `key` is where an entry says its schema."""
    ### BEGIN SOLUTION
    text = installed(file).read_text()
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith(f"- {key}: ")]
    found = yaml.load(text, Loader=yaml.CSafeLoader)
    return {entry[key].split("(")[0]: entry | {"line": line} for line, entry in zip(lines, found, strict=True)}
    ### END SOLUTION


FUNCTIONS = ("aten/src/ATen/native/native_functions.yaml", "func")
FORMULAS = ("tools/autograd/derivatives.yaml", "name")


def arguments(operator):
    """The arguments of an operator's schema."""
    ### BEGIN SOLUTION
    name, _, overload = operator.partition(".")
    return torch._C._get_schema(f"aten::{name}", overload).arguments
    ### END SOLUTION


def kernel(operator):
    """The key that serves an ordinary tensor on the processor, and the function for it."""
    ### BEGIN SOLUTION
    entry, name = entries(*FUNCTIONS)[operator], operator.split(".")[0]
    dispatch = {key: function for keys, function in entry.get("dispatch", {}).items() for key in keys.split(", ")}
    if "CPU" in dispatch:
        return "CPU", dispatch["CPU"]
    if "ufunc_inner_loop" in entry:
        return "CPU", f"ufunc_{name}_CPU"
    if "structured_delegate" in entry:
        return kernel(entry["structured_delegate"])
    for kind in ("ExplicitAutograd", "ExplicitAutogradNonFunctional", "ImplicitAutograd"):
        if f"Composite{kind}" in dispatch:
            return f"Composite{kind}", dispatch[f"Composite{kind}"]
    if "dispatch" in entry:
        return None, None
    written = any(one.kwarg_only and one.alias_info and one.alias_info.is_write for one in arguments(operator))
    return "CompositeImplicitAutograd", f"{name}_out" if written else name
    ### END SOLUTION


def facts(operator: str) -> dict:
    """What the wheel's tables say about an operator."""
    ### BEGIN SOLUTION
    if operator not in entries(*FUNCTIONS):
        raise LookupError(f"native_functions.yaml has no entry {operator}")
    line = entries(*FUNCTIONS)[operator]["line"]
    key, function = kernel(operator)
    table = torch._C._dispatch_dump_table(f"aten::{operator}")
    found = re.search(r"^CPU: registered at (\S+):\d+.*\[([\w ]+)\]$", table, re.MULTILINE)
    file, why = (PurePosixPath(found[1]).name, found[2]) if found else (None, None)
    formulas = entries(*FORMULAS).get(operator, {})
    formulas = formulas.get("dispatch", {}).get("Default", formulas)
    inputs = {one.name for one in arguments(operator)}
    derivatives = {name: formula for names, formula in formulas.items() for name in names.split(", ") if name in inputs}
    return {"line": line, "function": function, "key": key, "file": file, "why": why, "derivatives": derivatives}
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "find_your_way", "locked": true, "points": 16, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u1.find_your_way(facts)

# %% [markdown] nbgrader={"grade": false, "grade_id": "layers_of_a_call-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. The layers of a call
#
# A profiler writes down one event for each thing that began and ended: a Python function, an operator, a range that you named.
# It doesn't write down who called whom. You get that back from the times: within a thread, an event is inside another one if
# it doesn't begin earlier and doesn't end later. Here an event is a dictionary:
#
# | key | what it is |
# | --- | --- |
# | `"id"`, `"name"` | a number of its own; what ran |
# | `"kind"` | `"python"`, `"operator"`, or `"annotation"`: a range that somebody named. Only ranges may cross other events: begin inside one and end after it |
# | `"thread"`, `"start"`, `"end"` | where and when, in nanoseconds. Every event takes time, and no two are at exactly the same place |
# | `"sequence"` | for an operator that autograd may record: the number that the next recorded node would get on this thread. For what the engine runs: the number of its node. Else `None` |
# | `"forward thread"` | for what the engine runs: the thread on which the node was recorded. Else `None` |

# %% [markdown] nbgrader={"grade": false, "grade_id": "layers_of_a_call-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *20 minutes, medium.* Write `take_apart(events)`. The events come in no order. It returns one dictionary for each operator that
# isn't inside another operator, in the order of their starts (then of their threads):
#
# | key | what it is |
# | --- | --- |
# | `"operator"` | the operator's id |
# | `"python"` | id of the innermost Python function around it, or `None` |
# | `"work"` | ids of the operators that do the work, in order: those inside it that call no operator; its own id if it calls none |
# | `"own"` | its time without the operators that it calls directly, whatever lies between them |
# | `"derivative of"` | if the engine runs it: id of the forward operator that recorded its node. That's the last to begin of those with this sequence number, on the forward thread; of two that begin at once, the inner one. Else `None` |
#
# For example, a lone `aten::relu` that runs for 8 ns and calls `aten::clamp_min` for 5 of them has 3 ns of its own.
#
# <details><summary>Hint 1: a question</summary>Two events touch: one ends at 40, the next begins at 40. And one begins at 40 inside another that began at 40. What tells the two situations apart?</details>
# <details><summary>Hint 2: the idea</summary>Traces here are small, so you may ask for each event which others are around it. Sorted by length they're the way from the innermost to the outermost.</details>
# <details><summary>Hint 3: the shape</summary><code>around(event)</code> is a sorted list; <code>caller(event)</code> is the first operator in it; <code>called(operator)</code> are the operators whose caller it is. The leaves follow by recursion, and the rows are the operators without a caller.</details>


# %% nbgrader={"grade": false, "grade_id": "layers_of_a_call-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def take_apart(events: list[dict]) -> list[dict]:
    """Who called whom in a trace."""

    ### BEGIN SOLUTION
    def inside(one, other):
        return (
            one is not other
            and one["thread"] == other["thread"]
            and other["start"] <= one["start"]
            and one["end"] <= other["end"]
        )

    def length(event):
        return event["end"] - event["start"]

    def begin(event):
        return event["start"], -event["end"]

    operators = [event for event in events if event["kind"] == "operator"]
    around = {one["id"]: sorted((other for other in events if inside(one, other)), key=length) for one in events}
    caller = {
        one["id"]: next((other["id"] for other in around[one["id"]] if other["kind"] == "operator"), None)
        for one in operators
    }
    called = {
        one["id"]: sorted((other for other in operators if caller[other["id"]] == one["id"]), key=begin)
        for one in operators
    }

    def leaves(one):
        return [leaf for other in called[one["id"]] for leaf in leaves(other)] or [one["id"]]

    def recorded_by(one):
        found = [
            other
            for other in operators
            if other["forward thread"] is None
            and other["thread"] == one["forward thread"]
            and other["sequence"] == one["sequence"]
        ]
        return max(found, key=begin)["id"] if found and one["forward thread"] is not None else None

    outermost = [one for one in operators if caller[one["id"]] is None]
    return [
        {
            "operator": one["id"],
            "python": next((other["id"] for other in around[one["id"]] if other["kind"] == "python"), None),
            "work": leaves(one),
            "own": length(one) - sum(length(other) for other in called[one["id"]]),
            "derivative of": recorded_by(one),
        }
        for one in sorted(outermost, key=lambda one: (one["start"], one["thread"]))
    ]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "layers_of_a_call", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u1.layers_of_a_call(take_apart)

# %% [markdown] nbgrader={"grade": false, "grade_id": "own_module-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 5. A module framework of your own
#
# You assign a `Parameter` to an attribute, and the optimizer finds it. You never told anybody. Write the class that makes
# it so. In here a tensor is a list of numbers in an object. That's all you need: the rules are about names.
#
# **Assigning.** A module has three dictionaries, for parameters, buffers and children. The first row that fits counts:
#
# | | if | then |
# | --- | --- | --- |
# | 1 | the value is a `Parameter` | register it as a parameter |
# | 2 | the name stands for a parameter | `None` empties the entry; `TypeError` for anything else |
# | 3 | the value is a `Module` | register it as a child |
# | 4 | the name stands for a child | as in row 2 |
# | 5 | the name stands for a buffer | a `Tensor` or `None` takes its place, and it's as persistent as before; otherwise `TypeError` |
# | 6 | none of these | a plain attribute |
#
# Rows 1 and 3 take the name out of all other places, plain attributes among them. Before `super().__init__()` has run, they
# raise `AttributeError`.
#
# **Empty entries** hold `None`. They keep their place in the order; walks, children and the state skip them.

# %% [markdown] nbgrader={"grade": false, "grade_id": "own_module-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *50 minutes, hard.* Write `Module` by these rules, with these methods:
#
# | method | what it does |
# | --- | --- |
# | `register_parameter(name, value)` | registers a `Parameter` or `None` (`TypeError` for anything else), like an assignment |
# | `register_buffer(name, value, persistent=True)` | the same with a `Tensor` (perhaps a `Parameter`) or `None`, as a buffer |
# | `named_children()` | pairs of name and child, each child once |
# | `named_modules()` | pairs of path and module: itself under `""`, then each child with everything below it; each module once |
# | `named_parameters()`, `named_buffers()` | pairs of path and tensor, in the order of `named_modules`; each tensor once |
# | `state_dict()` | a dictionary from path to the tensor itself: its parameters, its persistent buffers, then the state of each child; a shared tensor under each of its paths |
# | `load_state_dict(state, strict=True)` | copies what fits into the tensors that are there, even if it raises then; returns a pair of lists: missing and unexpected paths |
# | `train(mode=True)`, `eval()` | set `training` here and below, and return the module |
# | `apply(function)` | applies it to each of its children, then calls `function(self)`; returns the module |
#
# Both `register` methods raise `KeyError` for a name that is empty, has a dot, or already stands for something else, such
# as a method. `load_state_dict` raises `RuntimeError` with the paths that are wrong, and no others: those with another
# size, and if it is strict, missing and unexpected ones too. Every other error's message names the attribute. `del` works for
# every kind; where nothing has the name, reading and deleting raise `AttributeError`.
#
# For example, after `net.child = Module()` and `net.child.w = Parameter([1, 2])`, `list(net.named_parameters())` has one pair,
# whose path is `"child.w"`.
#
# <details><summary>Hint 1: a question</summary>Python calls <code>__getattr__</code> only after it has looked into <code>self.__dict__</code>. What does that mean for an attribute that was plain first and is a parameter now?</details>
# <details><summary>Hint 2: the idea</summary>Keep each kind in a dictionary of its own; dictionaries remember their order, also when the value of a key changes. Write <code>named_modules</code> first and let the walks over tensors use it. Shared things are told by <code>is</code>, so collect their <code>id</code>s. <code>state_dict</code> needs its own recursion.</details>
# <details><summary>Hint 3: the shape</summary><code>self.__dict__.update(training=True, _parameters={}, …)</code> in <code>__init__</code>. In <code>__setattr__</code> a loop over three pairs of dictionary and accepted class, each with the same two <code>if</code>s, and <code>object.__setattr__(self, name, value)</code> at the end.</details>


# %% nbgrader={"grade": false, "grade_id": "own_module-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Tensor:
    """Numbers in a list: all that a framework of modules has to know about a tensor."""

    def __init__(self, values):
        self.values = list(values)


class Parameter(Tensor):
    """A tensor that is trained. A module registers it when you assign it."""


class Module:
    """Owns parameters, buffers and children, and finds them again by their names."""

    def __init__(self):
        ### BEGIN SOLUTION
        self.__dict__.update(training=True, _parameters={}, _modules={}, _buffers={}, _passing=set())
        ### END SOLUTION

    def __getattr__(self, name):
        """Python asks here when it has found no plain attribute."""
        ### BEGIN SOLUTION
        for place in ("_parameters", "_modules", "_buffers"):
            if name in self.__dict__.get(place, {}):
                return self.__dict__[place][name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        ### END SOLUTION

    def __setattr__(self, name, value):
        """Decide what an assignment means."""
        ### BEGIN SOLUTION
        for place, kind in (("_parameters", Parameter), ("_modules", Module), ("_buffers", Tensor)):
            entries = self.__dict__.get(place)
            if isinstance(value, kind) and place != "_buffers":
                if entries is None:
                    raise AttributeError(f"cannot assign {name!r} before super().__init__()")
                self.take_out(name, but=place)
                entries[name] = value
                return
            if name in (entries or {}):
                if value is not None and not isinstance(value, kind):
                    raise TypeError(f"{name!r} takes a {kind.__name__} or None, not a {type(value).__name__}")
                entries[name] = value
                return
        object.__setattr__(self, name, value)
        ### END SOLUTION

    def __delattr__(self, name):
        """Take a name away."""
        ### BEGIN SOLUTION
        if not any(name in self.__dict__[place] for place in ("_parameters", "_modules", "_buffers")):
            object.__delattr__(self, name)
        self.take_out(name)
        ### END SOLUTION

    def register_parameter(self, name, value):
        """Register a parameter, or an empty entry for one."""
        ### BEGIN SOLUTION
        if value is not None and not isinstance(value, Parameter):
            raise TypeError(f"{name!r} takes a Parameter or None, not a {type(value).__name__}")
        self.check(name, self._parameters)
        self._parameters[name] = value
        ### END SOLUTION

    def register_buffer(self, name, value, persistent=True):
        """Register a buffer, or an empty entry for one."""
        ### BEGIN SOLUTION
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"{name!r} takes a Tensor or None, not a {type(value).__name__}")
        self.check(name, self._buffers)
        self._buffers[name] = value
        if persistent:
            self._passing.discard(name)
        else:
            self._passing.add(name)
        ### END SOLUTION

    def named_children(self):
        """Pairs of name and child."""
        ### BEGIN SOLUTION
        seen = set()
        for name, child in self._modules.items():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                yield name, child
        ### END SOLUTION

    def named_modules(self, path="", seen=None):
        """Pairs of path and module, of which none has been seen."""
        ### BEGIN SOLUTION
        seen = set() if seen is None else seen
        if id(self) not in seen:
            seen.add(id(self))
            yield path, self
            for name, child in self._modules.items():
                if child is not None:
                    yield from child.named_modules(f"{path}.{name}" if path else name, seen)
        ### END SOLUTION

    def named_parameters(self):
        """Pairs of path and parameter."""
        ### BEGIN SOLUTION
        return self.members("_parameters")
        ### END SOLUTION

    def named_buffers(self):
        """Pairs of path and buffer."""
        ### BEGIN SOLUTION
        return self.members("_buffers")
        ### END SOLUTION

    def state_dict(self):
        """The tensors to save, by path."""
        ### BEGIN SOLUTION
        lasting = {name: one for name, one in self._buffers.items() if name not in self._passing}
        state = {name: one for name, one in (self._parameters | lasting).items() if one is not None}
        for name, child in self._modules.items():
            if child is not None:
                state |= {f"{name}.{path}": one for path, one in child.state_dict().items()}
        return state
        ### END SOLUTION

    def load_state_dict(self, state, strict=True):
        """Copy numbers into the tensors of this module and of all below."""
        ### BEGIN SOLUTION
        own = self.state_dict()
        missing = [path for path in own if path not in state]
        unexpected = [path for path in state if path not in own]
        wrong = [*missing, *unexpected] if strict else []
        for path in (path for path in own if path in state):
            if len(own[path].values) == len(state[path].values):
                own[path].values[:] = state[path].values
            else:
                wrong.append(path)
        if wrong:
            raise RuntimeError(f"these don't fit: {', '.join(wrong)}")
        return missing, unexpected
        ### END SOLUTION

    def train(self, mode=True):
        """Switch to training mode, here and below."""
        ### BEGIN SOLUTION
        self.training = mode
        for _, child in self.named_children():
            child.train(mode)
        return self
        ### END SOLUTION

    def eval(self):
        """Switch training mode off, here and below."""
        ### BEGIN SOLUTION
        return self.train(False)
        ### END SOLUTION

    def apply(self, function):
        """Call a function with every module below, and with this one last."""
        ### BEGIN SOLUTION
        for _, child in self.named_children():
            child.apply(function)
        function(self)
        return self
        ### END SOLUTION

    # Further methods of your own go here. These are only suggestions.
    def check(self, name, entries):
        """Refuse a name that cannot be registered, or stands for something that is not in these entries."""
        ### BEGIN SOLUTION
        if not name or "." in name or (hasattr(self, name) and name not in entries):
            raise KeyError(f"{name!r} is empty, has a dot, or stands for something else")
        ### END SOLUTION

    def take_out(self, name, but=None):
        """Remove a name from everywhere, or from all places but one."""
        ### BEGIN SOLUTION
        for place in {"_parameters", "_modules", "_buffers"} - {but}:
            self.__dict__[place].pop(name, None)
        self.__dict__.pop(name, None)
        self._passing.discard(name)
        ### END SOLUTION

    def members(self, place):
        """The tensors of all modules that one of their dictionaries holds."""
        ### BEGIN SOLUTION
        seen = set()
        for path, module in self.named_modules():
            for name, one in module.__dict__[place].items():
                if one is not None and id(one) not in seen:
                    seen.add(id(one))
                    yield f"{path}.{name}" if path else name, one
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "own_module", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u1.own_module(Module, Parameter, Tensor)

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_two_engines-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 1. What a graph makes easy, and hard
#
# *10 minutes, medium.* You've built both engines. For each of these four wishes say which of the two you'd rather have, and
# which lines of *your* code decide it: stop when the loss is small enough; know before the run whether it fits into memory;
# print a value in the middle of the model; leave out what nobody reads. Then say in two sentences what `torch.compile` does to
# get both, and one thing that it can't get. At most 150 words.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_two_engines", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"a choice for each of the four wishes that fits": 4, "grounded in the code of the two engines: where a value exists, where the whole graph is known": 3, "torch.compile: a graph of what Python did, guarded, with breaks where data decides; one thing it cannot get": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_first_place-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 2. Where would you look first?
#
# *10 minutes, medium.* Three reports: `torch.relu` is wrong for numbers that aren't contiguous; the gradient of
# `torch.nn.functional.gelu` is wrong, though its result is right; `torch.add` raises *could not run … with arguments from the
# 'SparseCsrMeta' backend*. For each, name the layer you suspect, the file you'd open first, how your `facts` or a trace got
# you there, and what you'd have to see to change your mind. At most 150 words.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_first_place", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"each report leads to its layer: CPU kernel, derivative formula, registration for a key": 4, "files that were looked up and not guessed": 3, "an observation that would change one's mind": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex11-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and where the
# feedback page lies.

# %%
# submit("ex_11")
