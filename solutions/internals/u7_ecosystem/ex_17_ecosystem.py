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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex17-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 17: ecosystem and deployment
#
# Four tasks and two questions, a bit under three hours. You write what the libraries around PyTorch are made of: an
# all-reduce, the averaging of gradients, an exporter to ONNX, and a check that says what a program would lose on its way to
# another runtime.
#
# Each task has a cell for your code and a check below it that answers at once. The check tries visible cases; `submit` at
# the end also tries hidden ones: other worlds, other batches, other programs, other sizes.

# %% nbgrader={"grade": false, "grade_id": "ex17-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import importlib.util

from autograder import check, submit

absent = [name for name in ("onnx", "onnxruntime") if importlib.util.find_spec(name) is None]
if absent:
    print(f"Task 3 needs {' and '.join(absent)}, from the extra `engines`. The other tasks run without.")

# %% [markdown] nbgrader={"grade": false, "grade_id": "own_all_reduce-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. An all-reduce of your own
#
# Several processes train one model. Each is a **rank** and has a number, from 0 on; how many there are is the **world**.
# After each step all of them need the *sum* of what each has. The obvious way sends everything to rank 0 and back, and rank 0
# suffocates. Here you write one in which nobody carries more than the others.

# %% [markdown] nbgrader={"grade": false, "grade_id": "own_all_reduce-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *30 minutes, medium.* Write `all_reduce`. Every rank runs it at the same time, with its own list of whole numbers, all of one
# length. On every rank it must return the list of sums over all ranks, element by element. You may write into `numbers`.
#
# | | what it does |
# | --- | --- |
# | `send(to, numbers)` | hands a list to another rank; returns at once |
# | `receive(source)` | waits for the oldest list that this rank sent you, and returns it |
#
# - A message holds elements, and sums of elements over some ranks, nothing else.
# - No rank may send or receive more than `2 * (world - 1) * ceil(len(numbers) / world)` numbers. That's less than twice the
#   list and a bit, however large the world is.
# - Each message must be received, and ranks share no variables.
#
# In the check, element 3 of rank 1 is `400`: two digits per rank, so you see in `40404` who has been added.
#
# <details><summary>Hint 1: a question</summary>If every rank is to do the same amount of work, how much of the list should each of them be responsible for?</details>
# <details><summary>Hint 2: the idea</summary>Cut the list into as many parts as there are ranks. All stand in a ring and send to the next one. In the first round each part travels on and grows; after <code>world - 1</code> steps each rank has one finished part. In the second round the finished parts travel on.</details>
# <details><summary>Hint 3: the shape</summary>One loop over <code>2 * (world - 1)</code> steps. In each: send part <code>(rank - step) % world</code> to <code>(rank + 1) % world</code>, receive part <code>(rank - step - 1) % world</code>, and add it (first round) or put it in its place (second round). Part <code>p</code> goes from <code>len * p // world</code> to <code>len * (p + 1) // world</code>.</details>


# %% nbgrader={"grade": false, "grade_id": "own_all_reduce-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def all_reduce(numbers: list[int], rank: int, world: int, send, receive) -> list[int]:
    """The sums over all ranks, as seen by one of them."""
    ### BEGIN SOLUTION
    bounds = [len(numbers) * part // world for part in range(world + 1)]
    result = list(numbers)
    for step in range(2 * (world - 1)):
        leaving, coming = (rank - step) % world, (rank - step - 1) % world
        send((rank + 1) % world, result[bounds[leaving] : bounds[leaving + 1]])
        for place, number in enumerate(receive((rank - 1) % world), bounds[coming]):
            result[place] = result[place] + number if step < world - 1 else number
    return result
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "own_all_reduce", "locked": true, "points": 25, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u7.own_all_reduce(all_reduce)

# %% [markdown] nbgrader={"grade": false, "grade_id": "average_gradients-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. Gradients of uneven batches
#
# This is what `DistributedDataParallel` does after each backward pass, in small. A batch is dealt out to the ranks, not always
# evenly: at the end of an epoch one of them may get fewer rows, or none. And a parameter may have taken no part on some rank.
# The result has to be what a single process would have computed for the whole batch.

# %% [markdown] nbgrader={"grade": false, "grade_id": "average_gradients-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *35 minutes, medium.* Write `average_gradients`. Every rank runs it, with its own `gradients` and `rows`:
#
# - `gradients[p]` is a list of `sizes[p]` numbers, the gradient of the *mean* loss over this rank's rows. It's `None` where
#   parameter `p` took no part, as with 0 rows. Some rank has rows.
# - `all_reduce(numbers)` returns the sums over all ranks. It answers once every rank has called it, with lists of one length.
#
# Lists may be overwritten. Return, for each parameter, the gradient of the mean loss over the rows of *all* ranks; `None` if no rank used it.
#
# Fill **buckets**: from the last parameter to the first, each goes whole into the open bucket, or, whatever its size,
# a new one if that would hold over `most` numbers. What no rank used doesn't travel. Each bucket is one call. Before them, one
# call of at most `1 + len(sizes)` numbers is free.
#
# <details><summary>Hint 1: a question</summary>Rank 0 has a gradient for parameter 3 and rank 1 has none. How does rank 1 learn that it has to send zeros?</details>
# <details><summary>Hint 2: the idea</summary>In the free call, every rank tells its number of rows, and for each parameter a 1 or a 0. Now all know the same, so all make the same buckets. Weigh with <code>rows / total</code> before you add.</details>
# <details><summary>Hint 3: the shape</summary><code>told = all_reduce([rows, *(…)])</code>. Then a list of buckets, each a list of parameters, from <code>reversed(range(len(sizes)))</code>. For each bucket: make one flat list, call, and cut the sums into pieces again.</details>


# %% nbgrader={"grade": false, "grade_id": "average_gradients-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def average_gradients(gradients: list, sizes: list[int], rows: int, most: int, all_reduce) -> list:
    """The gradients of the mean loss over the rows of all ranks."""
    ### BEGIN SOLUTION
    total, *users = all_reduce([rows, *(int(one is not None) for one in gradients)])
    buckets = []
    for parameter in reversed(range(len(sizes))):
        if not users[parameter]:
            continue
        if not buckets or sum(sizes[one] for one in buckets[-1]) + sizes[parameter] > most:
            buckets.append([])
        buckets[-1].append(parameter)
    result = [None] * len(sizes)
    for bucket in buckets:
        flat = []
        for parameter in bucket:
            own = gradients[parameter] or [0.0] * sizes[parameter]
            flat += [number * rows / total for number in own]
        sums = all_reduce(flat)
        for parameter in bucket:
            result[parameter], sums = sums[: sizes[parameter]], sums[sizes[parameter] :]
    return result
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "average_gradients", "locked": true, "points": 25, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u7.average_gradients(average_gradients)

# %% [markdown] nbgrader={"grade": false, "grade_id": "own_exporter-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. An exporter to ONNX
#
# An ONNX model is a list of nodes with names for what goes in and comes out, and the weights. That's nearly what you get from
# `torch.export`, so how hard can a translation be? You meet every trap of it here: numbers without a type, shapes that are
# only known when the model runs, and operators that the other side doesn't have. This task needs the packages `onnx` and
# `onnxruntime` (the extra `engines`).
#
# | in the graph | its counterpart in ONNX |
# | --- | --- |
# | `aten.view`, to sizes that are numbers, `-1`, or nodes | `Reshape`, whose second input is the shape as a tensor |
# | `aten.sym_size.int(x, d)` | `Shape` with `start` and `end`: a tensor of one number |
# | `operator.mul` of two sizes | `Mul` |
# | `aten.permute` | `Transpose` with `perm` |
# | `aten.cat`, `aten._softmax` | `Concat`, `Softmax`, each with `axis` |
# | `aten.mean.dim(x, dims, keepdim)` | `ReduceMean`, whose second input is the axes; `keepdims` is 1 unless you say 0 |
# | `aten.addmm(bias, a, b)`, `aten.mm(a, b)` | `Gemm(a, b, bias)`, `MatMul(a, b)` |
# | `relu`, `tanh`, `sigmoid`, `add`, `sub`, `mul`, `div` of `aten` | see `ONE_INPUT` and `TWO_INPUTS` |

# %% [markdown] nbgrader={"grade": false, "grade_id": "own_exporter-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *45 minutes, hard.* Write `to_onnx(graph, weights, sizes)`, which returns the bytes of an ONNX model. An exported program has
# all three after `run_decompositions()`:
#
# - `graph`: an `fx.Graph` whose nodes have no `meta`. Its placeholders are the weights, then the inputs; its output is a
#   tuple of nodes, maybe one twice, or an input.
# - `weights`: the tensor of each weight's placeholder, by name.
# - `sizes`: for each input a list such as `["batch", 4]`. A name is a size that varies. All is float32.
#
# The model has the graph's inputs and outputs, in order. Inputs keep their placeholders' names; other names are free.
# ONNX Runtime runs it with sizes that you don't know.
#
# Second arguments of `add`, `sub`, `mul` and `div` may be Python numbers; `alpha` of `add` and `sub` scales that argument.
# Dimensions may be negative. For any other operator, raise a `NotImplementedError` that names it, such as
# `aten.erf.default`.
#
# <details><summary>Hint 1: a question</summary><code>view(x, [batch, -1, 6])</code>: which of these three do you know while you write the file, and which only the model, when it runs?</details>
# <details><summary>Hint 2: the idea</summary>Walk through the graph once. Each FX node becomes one ONNX node with the same name, or a few. Constants, with the weights, go to <code>initializer</code>. Let a small function give the name for an argument: a node's name, or that of a new constant.</details>
# <details><summary>Hint 3: the shape</summary>Let every size be a tensor of one int64, as <code>Shape(x, start=d, end=d + 1)</code> gives it (no <code>end</code> for <code>d = -1</code>). Then the shape for <code>Reshape</code> is a <code>Concat</code> of such tensors and constants. At the end: <code>helper.make_graph</code>, <code>helper.make_model</code> with <code>opset_imports=[helper.make_opsetid("", 18)]</code>, <code>SerializeToString()</code>. For an output whose sizes you don't know, <code>None</code> will do as its shape.</details>


# %% nbgrader={"grade": false, "grade_id": "own_exporter-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import operator

import numpy
import torch
from torch import fx

ONE_INPUT = {"aten.relu.default": "Relu", "aten.tanh.default": "Tanh", "aten.sigmoid.default": "Sigmoid"}
TWO_INPUTS = {"aten.add.Tensor": "Add", "aten.sub.Tensor": "Sub", "aten.mul.Tensor": "Mul", "aten.div.Tensor": "Div"}


def to_onnx(graph: fx.Graph, weights: dict[str, torch.Tensor], sizes: dict[str, list]) -> bytes:
    """The graph as an ONNX model."""
    from onnx import TensorProto, helper, numpy_helper, shape_inference

    ### BEGIN SOLUTION
    nodes = []
    constants = [numpy_helper.from_array(weight.numpy(), name) for name, weight in weights.items()]

    def emit(kind, inputs, name, **attributes):
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def named(value, dtype):
        """The name of a node's value, or of a new constant."""
        if isinstance(value, fx.Node):
            return value.name
        name = f"constant.{len(constants)}"  # no node has a dot in its name
        constants.append(numpy_helper.from_array(numpy.array(value, dtype), name))
        return name

    def translate(node):
        kind, name, args = str(node.target), node.name, node.args
        if kind in ONE_INPUT:
            emit(ONE_INPUT[kind], [args[0].name], name)
        elif kind in TWO_INPUTS:
            second = named(args[1], numpy.float32)
            if "alpha" in node.kwargs:
                second = emit("Mul", [second, named(node.kwargs["alpha"], numpy.float32)], f"{name}.scaled")
            emit(TWO_INPUTS[kind], [args[0].name, second], name)
        elif kind == "aten.mm.default":
            emit("MatMul", [args[0].name, args[1].name], name)
        elif kind == "aten.addmm.default":
            emit("Gemm", [args[1].name, args[2].name, args[0].name], name)
        elif kind == "aten.permute.default":
            emit("Transpose", [args[0].name], name, perm=[dim % len(args[1]) for dim in args[1]])
        elif kind == "aten.cat.default":
            emit("Concat", [one.name for one in args[0]], name, axis=args[1] if len(args) > 1 else 0)
        elif kind == "aten._softmax.default":
            emit("Softmax", [args[0].name], name, axis=args[1])
        elif kind == "aten.mean.dim":
            keep = int(len(args) > 2 and args[2])
            emit("ReduceMean", [args[0].name, named(args[1], numpy.int64)], name, keepdims=keep)
        elif kind == "aten.sym_size.int":
            end = {} if args[1] == -1 else {"end": args[1] + 1}
            emit("Shape", [args[0].name], name, start=args[1], **end)
        elif node.target is operator.mul:
            emit("Mul", [named(one if isinstance(one, fx.Node) else [one], numpy.int64) for one in args], name)
        elif kind == "aten.view.default":
            parts = [named(one if isinstance(one, fx.Node) else [one], numpy.int64) for one in args[1]]
            emit("Reshape", [args[0].name, emit("Concat", parts, f"{name}.shape", axis=0)], name)
        else:
            raise NotImplementedError(f"no translation to ONNX for {kind}")

    for node in graph.nodes:
        if node.op == "call_function":
            translate(node)
    [outputs] = graph.find_nodes(op="output")
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in sizes.items()]
    results = [helper.make_tensor_value_info(node.name, TensorProto.FLOAT, None) for node in outputs.args[0]]
    made = helper.make_graph(nodes, "program", inputs, results, constants)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return shape_inference.infer_shapes(model).SerializeToString()
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "own_exporter", "locked": true, "points": 30, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u7.own_exporter(to_onnx)

# %% [markdown] nbgrader={"grade": false, "grade_id": "before_shipping-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. What gets lost before it ships
#
# *25 minutes, medium.* A program can be exported without an error and still be another one where it runs. Write
# `losses(module, signature, target)`, which finds out beforehand. `module` and `signature` are the graph module and the
# `graph_signature` of a program after `run_decompositions()`. Return pairs of a kind and a name, each loss once:
#
# | kind | what is lost | name |
# | --- | --- | --- |
# | `"state"` | what a buffer or parameter is set to, unless `target["state"]` | as in the model, `meter.calls` |
# | `"input"` | what is written to a tensor of the caller | of the argument |
# | `"argument"` | the freedom to pass another value: it became a constant | of the argument |
# | `"operator"` | an operator that isn't in `target["operators"]` | `aten.relu.default` |
# | `"training"` | the right result: the node gives True, by position or by keyword, for an argument `train` or `training` | of the operator |
#
# Operators stand in branches of `cond`, too. `getitem` and `cond` itself work everywhere and are none.
#
# <details><summary>Hint 1: a question</summary>A branch of <code>cond</code> is a graph, too. Where in the module is it kept, and what about a <code>cond</code> inside it?</details>
# <details><summary>Hint 2: the idea</summary>State, inputs and arguments are all in the signature: <code>buffers_to_mutate</code>, <code>parameters_to_mutate</code>, <code>user_inputs_to_mutate</code>, and <code>input_specs</code> with a <code>ConstantArgument</code>. Operators are in the graphs of all <code>module.modules()</code>.</details>
# <details><summary>Hint 3: the shape</summary>Collect into a set. An operator is a node whose target is a <code>torch._ops.OpOverload</code>. <code>zip(target._schema.arguments, node.args)</code> tells which argument is called what; others stand in <code>node.kwargs</code>.</details>


# %% nbgrader={"grade": false, "grade_id": "before_shipping-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import torch
from torch import fx
from torch.export.graph_signature import ConstantArgument


def losses(module: fx.GraphModule, signature, target: dict) -> list[tuple[str, str]]:
    """What the target would lose of a program."""
    ### BEGIN SOLUTION
    found = {("input", name) for name in signature.user_inputs_to_mutate.values()}
    found |= {("argument", one.arg.name) for one in signature.input_specs if isinstance(one.arg, ConstantArgument)}
    if not target["state"]:
        found |= {("state", name) for name in signature.buffers_to_mutate.values()}
        found |= {("state", name) for name in signature.parameters_to_mutate.values()}
    graphs = [part.graph for part in module.modules() if isinstance(part, fx.GraphModule)]
    for node in (node for graph in graphs for node in graph.nodes):
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        if str(node.target) not in target["operators"]:
            found.add(("operator", str(node.target)))
        named = zip((argument.name for argument in node.target._schema.arguments), node.args, strict=False)
        given = {**dict(named), **node.kwargs}
        if given.get("train") is True or given.get("training") is True:
            found.add(("training", str(node.target)))
    return sorted(found)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "before_shipping", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u7.before_shipping(losses)

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_choice_of_runtime-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 1. Which runtime, and why?
#
# *15 minutes, medium.* A team ships one text classifier to three places: a C++ service on its own servers, a Windows program of
# customers whose machines nobody knows, and a watch with 4 MB for the model. Texts have any length. Choose a package for each
# place, from the table of the lesson, and say in at most 150 words what speaks for it: size, operators, sizes that vary, what
# has to be installed. Name one figure that you'd measure before you decide, and what would change your mind.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_choice_of_runtime", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"a package for each place, with figures from one's own table": 4, "what each of them loses, named": 3, "a figure to measure first, and what follows from it": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_slow_second_machine-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 2. Two machines, no faster
#
# *10 minutes, medium.* With one machine an epoch takes 60 minutes, with two of them 55. Explain in at most 150 words which three
# things you'd measure, in which order, and what each result would tell you. Work out from the rule of Task 1 how many numbers a
# rank sends per step for a model of a hundred million parameters, with 2 ranks and with 16, and say what that means for four
# machines instead of two.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_slow_second_machine", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"traffic of a rank for both worlds: 100 million, then 187.5 million numbers": 4, "three measurements that tell computing, traffic and waiting apart": 4, "what that means for four machines": 2}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex17-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and where the
# feedback page lies.

# %%
# submit("ex_17")
