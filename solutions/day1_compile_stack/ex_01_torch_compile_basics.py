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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex01-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 1: `torch.compile` basics
#
# Six small tasks, about two hours. Each has a cell for your code, and a check below it that answers at once. A check
# tries visible cases only; `submit` at the end tries hidden ones, too.
#
# Write your own code: tools that would answer a task are out of reach while it is graded. Each task names them.

# %% nbgrader={"grade": false, "grade_id": "ex01-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch
from torch import nn

from autograder import check, submit

# %% [markdown] nbgrader={"grade": false, "grade_id": "record_graphs-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. Record every captured graph
#
# *10 minutes, easy.* To see what Dynamo made of your model, you need the graphs it captured. A **backend** gets to see
# them: it is any callable that Dynamo hands a captured graph and example inputs, and that returns a callable to run in
# its place:
#
# ```python
# # my_backend(graph_module, example_inputs) -> callable
# compiled = torch.compile(model, backend=my_backend)
# ```
#
# Write `GraphRecorder`, a backend that keeps each `torch.fx.GraphModule` that it is handed, in order of capture, in its
# attribute `graphs`: a list or any other sequence. It holds the graph modules themselves, not copies, and in the mode in
# which they came. Otherwise the recorder changes nothing: with it, the compiled model returns the same values, writes the
# same buffers and gets the same gradients.
#
# Out of reach: `fxopt_core.capture`, `torch._dynamo.testing`, `torch._dynamo.debug_utils`.
#
# <details><summary>Hint 1: a question</summary>How often is a backend called for a model with one graph break?</details>
# <details><summary>Hint 2: the idea</summary>An instance with a <code>__call__</code> method is a callable that can remember.</details>
# <details><summary>Hint 3: the shape</summary><code>__init__</code> makes an empty list. <code>__call__</code> puts the graph module there and returns something that runs it.</details>


# %% nbgrader={"grade": false, "grade_id": "record_graphs-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class GraphRecorder:
    """A Dynamo backend that keeps every graph it is handed, in the order of capture, in `graphs`."""

    def __init__(self):
        ### BEGIN SOLUTION
        self.graphs = []
        ### END SOLUTION

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[torch.Tensor]):
        """Record `graph_module` and return a callable that computes the same."""
        ### BEGIN SOLUTION
        self.graphs.append(graph_module)
        return graph_module.forward
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "record_graphs", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day1.record_graphs(GraphRecorder)

# %% [markdown] nbgrader={"grade": false, "grade_id": "operation_histogram-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. A histogram of operations
#
# *15 minutes, easy.* The first question to ask a captured graph: what is in it, and how often? Write
# `operation_histogram(graph_modules)`, which counts the operations of *all* graphs of a model together and returns a
# mapping from name to count. Three kinds of node compute something:
#
# | `node.op` | `node.target` | its name in the histogram |
# | --- | --- | --- |
# | `call_function` | a function | its `__name__`: `relu` |
# | `call_method` | the name of a method | that name: `view` |
# | `call_module` | the path of a submodule | the name of its class: `Conv2d` |
#
# Count each such node, even if nobody reads its value, and even if another node calls the same module, by the same path
# or another. The other three kinds (`placeholder`, `get_attr`, `output`) don't count. For no graphs at all, the mapping
# is empty. Counting leaves the list and its graphs as they are. The cell below lists the nodes of a small graph. Out of
# reach: `fxopt_core.capture`.
#
# <details><summary>Hint 1: a question</summary>Two nodes both call <code>relu</code>. In which attribute are they equal, and in which do they differ?</details>
# <details><summary>Hint 2: the idea</summary>One counter for all graphs; for each node a name that depends on its kind.</details>
# <details><summary>Hint 3: the shape</summary>A <code>collections.Counter</code>, two nested loops, a branch for each kind; <code>graph_module.get_submodule(…)</code> finds a module.</details>


# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "operation_histogram-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
class Mixed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.activation = nn.Linear(4, 3), nn.ReLU()

    def forward(self, x):
        return torch.relu(self.activation(self.layer(x)).view(-1))


for node in torch.fx.symbolic_trace(Mixed()).graph.nodes:
    target = node.target if isinstance(node.target, str) else node.target.__name__
    print(f"op {node.op:14} name {node.name:12} target {target}")

# %% nbgrader={"grade": false, "grade_id": "operation_histogram-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
from collections import Counter


def operation_histogram(graph_modules: list[torch.fx.GraphModule]) -> Counter[str]:
    """How often each operation occurs in all graphs together."""
    ### BEGIN SOLUTION
    counts = Counter()
    for graph_module in graph_modules:
        for node in graph_module.graph.nodes:
            if node.op == "call_function":
                counts[node.target.__name__] += 1
            elif node.op == "call_method":
                counts[node.target] += 1
            elif node.op == "call_module":
                counts[type(graph_module.get_submodule(node.target)).__name__] += 1
    return counts
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "operation_histogram", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day1.operation_histogram(operation_histogram)

# %% [markdown] nbgrader={"grade": false, "grade_id": "operation_histogram-use-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Here are your two tools together, on a BERT encoder built from its configuration. **Prediction.** Which operation comes
# out on top?

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "operation_histogram-use", "locked": true, "schema_version": 3, "solution": false, "task": false}
from fxopt_workbench import zoo

bert = zoo.build("bert")
try:
    recorder = GraphRecorder()
    torch._dynamo.reset()
    with torch.no_grad():
        arguments = bert.example_inputs
        compiled_bert = torch.compile(bert.model, backend=recorder)
        compiled_bert(**arguments) if isinstance(arguments, dict) else compiled_bert(*arguments)
    for name, count in operation_histogram(recorder.graphs).most_common(5):
        print(f"{name:20} {count:3} {'█' * count}")
except NotImplementedError:
    print("not yet written")
except torch._dynamo.exc.BackendCompilerFailed as error:
    print("not yet written" if isinstance(error.inner_exception, NotImplementedError) else error)

# %% [markdown] nbgrader={"grade": false, "grade_id": "remove_graph_breaks-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. Remove graph breaks
#
# *25 minutes, medium.* Where Dynamo can't go on capturing, it ends the graph, lets Python run, and begins another. Each
# **graph break** costs time at every call, and the compiler optimises nothing across it. `BrokenModel` has three. Run the
# next two cells: they show the model, and what `torch._dynamo.explain` says about each break. (`generic_jump` is what it
# calls an `if`.)
#
# Write the `forward` of `UnbrokenModel` so that
#
# 1. `torch.compile(model, fullgraph=True)` captures it in **one** graph, which serves both sides of the branch;
# 2. outputs *and gradients* are those of `BrokenModel`, also in eager mode, and also where the mean is exactly 0 or `nan`
#    (what it prints may go);
# 3. no `.item()` is left: the peak stays a tensor. (`fullgraph=True` alone would tolerate it, plain `torch.compile`
#    breaks there.)
#
# <details><summary>Hint 1: a question</summary>For each of the three lines: which value must Python know before it can go on? Does anything but Python need it?</details>
# <details><summary>Hint 2: the idea</summary>A tensor without dimensions can stand where the number stood, and <code>torch.where</code> chooses between two results inside the graph. A plain number has no gradient; what makes a tensor behave like that?</details>
# <details><summary>Hint 3: the shape</summary>The peak as a tensor that autograd doesn't see; both sides computed; one condition without dimensions that chooses between them.</details>

# %% nbgrader={"grade": false, "grade_id": "remove_graph_breaks-model", "locked": true, "schema_version": 3, "solution": false, "task": false}
import inspect

from autograder.exercises.day1.remove_graph_breaks.visible import BrokenModel

print(inspect.getsource(BrokenModel))

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "remove_graph_breaks-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
import logging

torch._logging.set_logs(dynamo=logging.ERROR)  # explain reports each break; the log would say it twice
torch._dynamo.reset()
explanation = torch._dynamo.explain(BrokenModel(4, 6))(torch.randn(3, 4))
print(f"{explanation.graph_count} graphs, {explanation.graph_break_count} graph breaks")
for break_reason in explanation.break_reasons:
    print("*", break_reason.user_stack[-1].line)
    print("   ", break_reason.reason.splitlines()[0])


# %% nbgrader={"grade": false, "grade_id": "remove_graph_breaks-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class UnbrokenModel(BrokenModel):
    """Computes what `BrokenModel` computes, in one graph. The constructor and the parameters are inherited."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 3)."""
        ### BEGIN SOLUTION
        hidden = self.first(x)
        peak = hidden.abs().max().detach()  # a plain number passed no gradient on, so this must not
        hidden = hidden / (1.0 + peak)
        hidden = torch.where(hidden.mean() > 0, torch.relu(hidden), torch.tanh(hidden))
        return self.second(hidden)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "remove_graph_breaks", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day1.remove_graph_breaks(UnbrokenModel)

# %% [markdown] nbgrader={"grade": false, "grade_id": "stop_recompilations-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. Count compilations, then stop them
#
# *20 minutes, medium.* Some compiled models quietly recompile whenever the batch size changes. That's slower than not
# compiling at all. First see it happen, then make it stop.
#
# 1. `count_compilations(model, inputs)` calls `torch.compile(model)` on each input in turn, from a clean state, and
#    returns how many graphs Dynamo compiled. Count with a backend of your own. Don't work it out from the sizes:
#    models differ.
# 2. `compile_once(model, backend)` returns a callable that computes what `model` computes (the model itself, not a copy),
#    with its gradients, for every batch size from 2 up, with *one* graph compiled by `backend`, which runs in each call.
#
# The batch is dimension 0 of each input, which has shape `(batch, width)`. Our first batches are smaller than the
# width. Out of reach: `torch._dynamo.testing`.
#
# **Prediction.** How many graphs for the batch sizes 3, 3, 5, 5, 6, 7?
#
# <details><summary>Hint 1: a question</summary>What does a guard say about the batch size after the first call, and what after the second size?</details>
# <details><summary>Hint 2: the idea</summary>A backend that counts, after <code>torch._dynamo.reset()</code>. And you can tell <code>torch.compile</code> beforehand that sizes vary.</details>
# <details><summary>Hint 3: the shape</summary>The first: a small backend with a counter, then a loop of calls. The second: <code>torch.compile</code> with one more argument (read <code>help(torch.compile)</code>; its catch: sizes that are equal in the first call count as one), or a mark on each input before its call (<code>torch._dynamo.mark_dynamic</code>).</details>


# %% nbgrader={"grade": false, "grade_id": "stop_recompilations-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def count_compilations(model: nn.Module, inputs: list[torch.Tensor]) -> int:
    """How often Dynamo compiles `model` when it is called on each of `inputs` in turn, from a clean state."""
    ### BEGIN SOLUTION
    compilations = 0

    def backend(graph_module, example_inputs):
        nonlocal compilations
        compilations += 1
        return graph_module.forward

    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    for x in inputs:
        compiled(x)
    return compilations
    ### END SOLUTION


def compile_once(model: nn.Module, backend):
    """A callable that computes what `model` computes, for any batch size, with one graph compiled by `backend`."""
    ### BEGIN SOLUTION
    return torch.compile(model, backend=backend, dynamic=True)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "stop_recompilations", "locked": true, "points": 5, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day1.stop_recompilations(count_compilations, compile_once)

# %% [markdown] nbgrader={"grade": false, "grade_id": "measure_compile_cost-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 5. What compiling costs, and when it pays
#
# *30 minutes, medium.* "Twice as fast" is only worth something if it was measured well. Write the stopwatch for it.
#
# `measure(function, clock, synchronize, warmup, repeats)` calls `function()` once (that compiles), then `warmup` times
# untimed, then `repeats` times timed (2 or more). It returns a dictionary:
#
# - `compile_seconds`: how long the first call took;
# - `median_seconds`: the median of the timed calls;
# - `spread_seconds`: their interquartile range, `statistics.quantiles(values, n=4, method="inclusive")`, third minus first.
#
# `clock()` tells the time in seconds. A device may compute behind Python's back; `synchronize()` waits for it. Out of
# reach: `fxopt_core.benchmark`, `torch.utils.benchmark`.
#
# `break_even_calls(compile_seconds, eager_seconds, compiled_seconds)` says after how many calls compiling has paid: cost
# divided by what a call saves, not rounded. It is `math.inf` when a call saves nothing, even if compiling was free.
#
# <details><summary>Hint 1: a question</summary>What is still running on the device when you read the clock?</details>
# <details><summary>Hint 2: the idea</summary>A small inner function that times one call: wait, read, call, wait, read. Use it for the first call and for the timed ones.</details>
# <details><summary>Hint 3: the shape</summary>One timed call; a loop without timing; a list of timed calls; then the standard library's <code>statistics</code>.</details>

# %% nbgrader={"grade": false, "grade_id": "measure_compile_cost-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import math
import statistics


def measure(function, clock, synchronize, warmup: int, repeats: int) -> dict[str, float]:
    """Compile cost and steady state of `function`, in seconds."""

    ### BEGIN SOLUTION
    def timed():
        synchronize()
        started = clock()
        function()
        synchronize()
        return clock() - started

    compile_seconds = timed()
    for _ in range(warmup):
        function()
    seconds = [timed() for _ in range(repeats)]
    first, _, third = statistics.quantiles(seconds, n=4, method="inclusive")
    return {
        "compile_seconds": compile_seconds,
        "median_seconds": statistics.median(seconds),
        "spread_seconds": third - first,
    }
    ### END SOLUTION


def break_even_calls(compile_seconds: float, eager_seconds: float, compiled_seconds: float) -> float:
    """After how many calls compiling has paid for itself; `math.inf` for never."""
    ### BEGIN SOLUTION
    saved = eager_seconds - compiled_seconds
    return compile_seconds / saved if saved > 0 else math.inf
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "measure_compile_cost", "locked": true, "points": 30, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day1.measure_compile_cost(measure, break_even_calls)

# %% [markdown] nbgrader={"grade": false, "grade_id": "measure_compile_cost-use-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Here is your stopwatch at work, with a real clock and the real Inductor. **Prediction.** Will compiling this small
# network have paid after ten calls, after a thousand, or never?

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "measure_compile_cost-use", "locked": true, "schema_version": 3, "solution": false, "task": false}
from time import perf_counter

from fxopt_core.devices import choose_device, synchronize

device = choose_device()
network = (
    nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.GELU(), nn.Linear(64, 10)).to(device).eval()
)
batch = torch.randn(32, 64, device=device)
torch._dynamo.reset()
compiled_network = torch.compile(network)
try:
    with torch.no_grad():
        eager, compiled = (
            measure(lambda run=run: run(batch), perf_counter, lambda: synchronize(device), warmup=10, repeats=100)
            for run in (network, compiled_network)
        )
    for name, found in (("eager", eager), ("compiled", compiled)):
        print(
            f"{name:9} first call {found['compile_seconds']:8.4f} s, then {found['median_seconds'] * 1e6:7.1f} µs "
            f"(spread {found['spread_seconds'] * 1e6:.1f} µs)"
        )
    calls = break_even_calls(compiled["compile_seconds"], eager["median_seconds"], compiled["median_seconds"])
    print(f"pays after {calls:,.0f} calls" if math.isfinite(calls) else "never pays")
except NotImplementedError:
    print("not yet written")

# %% [markdown]
# <details><summary>If it never pays</summary>
#
# Most of the time here goes into three matrix products, and eager mode runs these with tuned library code, too. Compiling
# can only speed up the two GELUs, and it adds a check of the guards to each call. A network this small can lose by that.
# </details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "rewriting_backend-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 6. A backend that rewrites one operation
#
# *20 minutes, hard.* A backend may change the graph before it hands it on, and so put your own optimisation in front of
# Inductor. Yours replaces an expensive function: exact GELU needs the error function, its approximation only a `tanh`.
#
# Write `make_backend(compile_inner)`. It returns a backend that does this with each graph it is handed:
#
# 1. It turns every *exact* GELU into `gelu(x, approximate="tanh")`, in the same place.
# 2. It leaves everything else as it is: GELUs that are approximate already, and nodes that nobody reads.
# 3. It hands the rewritten graph module and the example inputs to `compile_inner`, once, and returns what that returns.
#
# The cell below shows how captured GELUs look. `approximate="none"` is the default, so you may see it
# spelled out or left away; the input may come by name. Beware: Dynamo names nodes after Python variables.
#
# <details><summary>Hint 1: a question</summary>Which nodes have a target whose <code>__name__</code> is <code>gelu</code>, and what do their <code>kwargs</code> say?</details>
# <details><summary>Hint 2: the idea</summary>You can assign <code>node.kwargs</code>. A graph module also has <em>code</em>, written from its graph: who writes it anew?</details>
# <details><summary>Hint 3: the shape</summary>An inner function that loops over the nodes, changes one keyword of some, has the code written anew, and ends with <code>return compile_inner(…, …)</code>.</details>


# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "rewriting_backend-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
def show_gelu(graph_module, example_inputs):
    for node in graph_module.graph.nodes:
        if getattr(node.target, "__name__", "") == "gelu":
            print(node.format_node())
    return graph_module.forward


three_kinds = nn.Sequential(nn.GELU(), nn.GELU(approximate="tanh"), nn.Linear(4, 3))
torch._dynamo.reset()
_ = torch.compile(three_kinds, backend=show_gelu)(torch.randn(2, 4))
_ = torch.compile(lambda x: nn.functional.gelu(nn.functional.gelu(input=x)), backend=show_gelu)(torch.randn(2, 4))


# %% nbgrader={"grade": false, "grade_id": "rewriting_backend-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def make_backend(compile_inner):
    """A Dynamo backend that turns exact GELUs into tanh GELUs and hands the graph on to `compile_inner`.

    `compile_inner(graph_module, example_inputs)` compiles a graph and returns a callable, as every backend does.
    """

    ### BEGIN SOLUTION
    def backend(graph_module, example_inputs):
        for node in graph_module.graph.nodes:
            if getattr(node.target, "__name__", "") == "gelu" and node.kwargs.get("approximate", "none") == "none":
                node.kwargs = {**node.kwargs, "approximate": "tanh"}
        graph_module.graph.lint()
        graph_module.recompile()
        return compile_inner(graph_module, example_inputs)

    return backend
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "rewriting_backend", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day1.rewriting_backend(make_backend)

# %% [markdown] nbgrader={"grade": false, "grade_id": "rewriting_backend-inductor-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# Here is your backend in front of the real Inductor. The result differs a little from the exact model, and the code that
# Inductor wrote has a `tanh` where the error function was.

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "rewriting_backend-inductor", "locked": true, "schema_version": 3, "solution": false, "task": false}
from torch._inductor.compile_fx import compile_fx
from torch._inductor.utils import run_and_get_code

torch.manual_seed(0)
block = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)).eval()
block_input = torch.randn(16, 32)
try:
    torch._dynamo.reset()
    with torch.no_grad():
        approximate, sources = run_and_get_code(torch.compile(block, backend=make_backend(compile_fx)), block_input)
    print(f"largest difference from the exact model: {(approximate - block(block_input)).abs().max():.1e}")
    print("error function in the generated code:", "erf(" in sources[0])
    print("tanh:", next((line.strip() for line in sources[0].splitlines() if "tanh" in line), "none"))
except NotImplementedError:
    print("not yet written")
except torch._dynamo.exc.BackendCompilerFailed as error:
    print("your backend raised:", str(error).splitlines()[0])

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex01-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), take the `#` away, and run this cell. It tells you how many points you have and where to
# find the feedback page.

# %%
# submit("ex_01")
