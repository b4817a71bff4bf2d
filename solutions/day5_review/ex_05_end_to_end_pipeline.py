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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex05-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 5: the whole pipeline, and five questions
#
# An interviewer will ask you how all of this works. Here you write the programs that prove your answers: six small ones
# (two of them *stretch*), and then the words. The heart of it is a pipeline that takes a model it has never seen from
# capture to report. The core takes about an hour and a quarter.
#
# A check tries the visible cases; `submit` at the end tries hidden ones, too. Write your own code: the tools of
# `fxopt_core` that would do a task for you can't be imported while it is graded.

# %% nbgrader={"grade": false, "grade_id": "ex05-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import copy
import inspect
import logging
import statistics
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import fx, nn
from torch.export import Dim, export

from autograder import check, submit

for category in (DeprecationWarning, FutureWarning, torch.jit.TracerWarning):
    warnings.filterwarnings("ignore", category=category)
torch._logging.set_logs(all=logging.CRITICAL)

# %% [markdown] nbgrader={"grade": false, "grade_id": "recompile_log-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. Which guard failed, and what was compiled again?
#
# *10 minutes, easy.* The best answer to "How does `torch.compile` work under the hood?" is a program that shows it. Write
# `recompile_log(function, calls)`; `calls` is a list of dictionaries of keyword arguments, and `function` writes into none
# of them. Compile `function` with `dynamic=False`, so that each size gets its own version, and make the calls in order.
# Return one pair of strings per call:
#
# | pair | when |
# | --- | --- |
# | `("compiled", "")` | the first call |
# | `("reused", "")` | the guards of one of the versions held |
# | `("recompiled", name)` | no version fitted; `name` is an argument on which a guard of the *first* version failed |
#
# If several arguments qualify, name any one of them. No case needs more than eight versions, which is Dynamo's limit.
# Guards are Dynamo's whatever the backend: `"eager"` answers as well as Inductor, in far less time.
# `torch._dynamo.testing` can't be imported while this is graded. The cell below shows what Dynamo says when it may not
# recompile.
#
# <details><summary>Hint 1: a question</summary>Several arguments are new in one call. How do you find out which of them the compiled code relied on?</details>
# <details><summary>Hint 2: the idea</summary>With <code>error_on_recompile</code>, Dynamo raises an error instead of compiling. The message names the failed guard of each version; version <code>0/0</code> is the first. What follows the <code>#</code> is the line of your program, and no guard. Or experiment: which argument alone makes it compile?</details>
# <details><summary>Hint 3: the shape</summary>Reset Dynamo. For each call, try it with recompiling forbidden. If that raises, read the line about <code>0/0</code>, and make the call again so that the new version gets compiled.</details>


# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "recompile_log-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
def scaled(x, factor, unused):
    return x * factor


torch._dynamo.reset()
compiled = torch.compile(scaled, backend="eager", dynamic=False)
compiled(torch.ones(2), 2, "one")
for factor, unused in ((2, "two"), (3, "three")):
    try:
        with torch._dynamo.config.patch(error_on_recompile=True):
            compiled(torch.ones(2), factor, unused)
        print("reused")
    except torch._dynamo.exc.RecompileError as error:
        print(str(error).splitlines()[2].partition("#")[0].rstrip())


# %% nbgrader={"grade": false, "grade_id": "recompile_log-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def recompile_log(function: Callable, calls: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """For each call what happened, and which argument is to blame."""
    ### BEGIN SOLUTION
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="eager", dynamic=False)
    compiled(**calls[0])
    log = [("compiled", "")]
    for arguments in calls[1:]:
        try:
            with torch._dynamo.config.patch(error_on_recompile=True):
                compiled(**arguments)
            log.append(("reused", ""))
        except torch._dynamo.exc.RecompileError as error:
            [line] = [line for line in str(error).splitlines() if "- 0/0: " in line]
            words = line.replace("'", " ").split()
            compiled(**arguments)  # this time it may compile
            log.append(("recompiled", next(word for word in words if word in arguments)))
    return log
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "recompile_log", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day5.recompile_log(recompile_log)

# %% [markdown] nbgrader={"grade": false, "grade_id": "branch_evidence-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. Tracing or scripting?
#
# *5 minutes, easy.* You see the difference on a model with a branch. Write `branch_evidence(model, inputs)`. Trace the
# model with `torch.jit.trace` on the **first** input, and script it with `torch.jit.script`. Return
# `{"trace": {"branches": …, "wrong": […]}, "script": {…}}`:
#
# - `branches`: how many `prim::If` nodes the graph has, counting those inside branches and inside called modules;
# - `wrong`: the indices of the inputs on which the result and the model disagree. They agree when the shapes are equal, NaN
#   stands in the same places, and the rest is equal up to 1e-4 (`torch.allclose` with `rtol` and `atol`).
#
# Find out by looking: some models in the hidden cases aren't in any lesson. None of them writes into its input.
#
# Both methods belong to TorchScript, which is deprecated. Today, you would use `torch.export`, which refuses such a branch,
# or `torch.compile`, which breaks the graph there.
#
# <details><summary>Hint 1: a question</summary>Python took a decision while the trace was being recorded. Where is it now?</details>
# <details><summary>Hint 2: the idea</summary><code>result.inlined_graph</code> shows the called modules from inside. A node of kind <code>prim::If</code> has blocks, with nodes of their own.</details>
# <details><summary>Hint 3: the shape</summary>One helper counts (look at <code>findAllNodes</code>), another compares two answers: shape first, then <code>equal_nan</code>. Then the same two lines for both methods.</details>

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "branch_evidence-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder.exercises.day5.branch_evidence import visible as branching

for model_class in (branching.OneBranch, branching.Gate, branching.Nested):
    print(inspect.getsource(model_class))


# %% nbgrader={"grade": false, "grade_id": "branch_evidence-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def branch_evidence(model: nn.Module, inputs: list[torch.Tensor]) -> dict[str, dict[str, Any]]:
    """For trace and script: branches in the graph, and positions of the inputs that come out wrong."""

    ### BEGIN SOLUTION
    def agree(one: torch.Tensor, other: torch.Tensor) -> bool:
        return one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-4, equal_nan=True)

    results = {"trace": torch.jit.trace(model, (inputs[0],)), "script": torch.jit.script(model)}
    return {
        method: {
            "branches": len(result.inlined_graph.findAllNodes("prim::If")),
            "wrong": [i for i, x in enumerate(inputs) if not agree(result(x), model(x))],
        }
        for method, result in results.items()
    }
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "branch_evidence", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day5.branch_evidence(branch_evidence)

# %% [markdown] nbgrader={"grade": false, "grade_id": "insert_after-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. Change a graph
#
# *10 minutes, easy.* "Explain the structure of an FX graph and how to manipulate it." Write
# `insert_after(graph_module, target, function)`. Directly behind every `call_function` node whose target is `target`
# itself, insert a node that calls `function` with its result. Do so even if nobody reads the result. A method or another
# function of the same name is not `target`. Then let every reader of the old node read the new one: also readers that
# have it in a list, a dictionary or a slice, or by keyword, and the output. Return the graph module, and make sure that it
# runs what its graph says. If you return another one, this goes for the given one, too.
#
# **Prediction.** After `new = graph.call_function(function, (node,))`, who is in `node.users`? The cell below shows it.
#
# <details><summary>Hint 1: a question</summary>Who reads the old node at the moment when you replace its uses?</details>
# <details><summary>Hint 2: the idea</summary>Write down the users before you insert. Then redirect each of them; a user has a method for that.</details>
# <details><summary>Hint 3: the shape</summary>A loop over a copy of the list of nodes: skip what isn't a call of <code>target</code>, note the users, insert behind the node, redirect the users. At the end check the graph, and have the code generated anew.</details>


# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "insert_after-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
def example(x):
    return torch.exp(x).cos()


graph = fx.symbolic_trace(example).graph
[node] = graph.find_nodes(op="call_function", target=torch.exp)
print("users before:", list(node.users))
with graph.inserting_after(node):
    new = graph.call_function(torch.tanh, (node,))
print("users after: ", list(node.users))


# %% nbgrader={"grade": false, "grade_id": "insert_after-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def insert_after(graph_module: fx.GraphModule, target: Callable, function: Callable) -> fx.GraphModule:
    """Every result of `target` goes through `function` before anybody reads it."""
    ### BEGIN SOLUTION
    graph = graph_module.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target is not target:
            continue
        users = list(node.users)  # without the new node
        with graph.inserting_after(node):
            new = graph.call_function(function, (node,))
        for user in users:
            user.replace_input_with(node, new)
    graph.lint()
    graph_module.recompile()
    return graph_module
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "insert_after", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day5.insert_after(insert_after)

# %% [markdown] nbgrader={"grade": false, "grade_id": "dynamic_sizes-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. Which sizes may vary?
#
# *25 minutes, medium, stretch.* "How do you handle dynamic shapes in graph extraction?" Before you promise anything, find out
# what the model allows. Write `dynamic_sizes(model, example)`; `example` is a dictionary of tensors by name. Some of their
# sizes are 1, and one tensor may have two names. For each name, return a list with one entry per dimension:
#
# - the **number**, if the model needs exactly this size;
# - otherwise a **name** (any string). Sizes that have to be equal share a name, and all others have different ones. A size
#   that may vary up to a limit, such as the length of a table, varies. So does one that has to be twice another: the two
#   aren't equal, so they have two names.
#
# **Prediction.** The cell below offers every size as dynamic. How many different symbols will there be?
#
# <details><summary>Hint 1: a question</summary>What stands in <code>node.meta["val"].shape</code> of a placeholder of an exported program?</details>
# <details><summary>Hint 2: the idea</summary>Offer each size as <code>Dim.AUTO</code>, and let the exporter find out: what the model holds fixed becomes a number. A size of 1 in the example always becomes a number, so make it a 2 where the model takes that.</details>
# <details><summary>Hint 3: the shape</summary>First try which sizes of 1 can be 2: all of them, else all but one, and so on. Then export, and turn each placeholder's sizes into text; a fixed size prints as digits, and you return it as an <code>int</code>.</details>


# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "dynamic_sizes-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
class Product(nn.Module):
    def forward(self, left, right):
        return left @ right


program = export(
    Product(), (torch.ones(3, 4), torch.ones(4, 5)), dynamic_shapes=([Dim.AUTO, Dim.AUTO], [Dim.AUTO, Dim.AUTO])
)
symbols = [size for node in program.graph.find_nodes(op="placeholder") for size in node.meta["val"].shape]
print(f"{len(symbols)} sizes, {len({str(symbol) for symbol in symbols})} symbols")


# %% nbgrader={"grade": false, "grade_id": "dynamic_sizes-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def dynamic_sizes(model: nn.Module, example: dict[str, torch.Tensor]) -> dict[str, list[int | str]]:
    """For each input the sizes: a number where it is fixed, a name where it may vary."""
    ### BEGIN SOLUTION
    from itertools import combinations

    ones = [(name, i) for name, value in example.items() for i, size in enumerate(value.shape) if size == 1]
    inputs = copies = {name: value.clone() for name, value in example.items()}
    for kept in range(len(ones) + 1):  # as many sizes of 1 as the model lets become 2
        for left in combinations(ones, kept):
            trial = dict(copies)
            for name, i in set(ones) - set(left):
                trial[name] = torch.cat([trial[name]] * 2, dim=i)
            try:
                model(**trial)
            except Exception:
                continue
            inputs = trial
            break
        else:
            continue
        break
    program = export(model, (), inputs, dynamic_shapes={name: [Dim.AUTO] * x.dim() for name, x in inputs.items()})
    return {
        node.name: [int(text) if text.isdigit() else text for text in map(str, node.meta["val"].shape)]
        for node in program.graph.nodes
        if node.op == "placeholder" and node.name in inputs
    }
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "dynamic_sizes", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day5.dynamic_sizes(dynamic_sizes)

# %% [markdown] nbgrader={"grade": false, "grade_id": "pipeline-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 5. The whole pipeline
#
# *30 minutes, hard.* Write `pipeline(model, example, others, passes, measure)`. It returns `(result, report)`.
#
# - **Capture** with `torch.export`: evaluation mode, any batch size from 1 up (`example` has more). Leave `model` as it
#   is. If the exporter refuses, return the model itself.
# - **Passes**: functions by name that change a graph module in place. Try each once, in order. Some are wrong, raise, or make
#   the graph write into its input.
# - **Verify** after each pass: on `example` and on `others`, compare with the *model* in evaluation mode. Equal shapes, equal
#   values up to 1e-4 (`torch.allclose`'s `rtol` and `atol`, so `nan` is never right). Reject a pass that fails, and undo
#   all that it did.
# - **Benchmark** the captured graph and the result: warm up once each, then time five calls each, alternately. Medians
#   count. `measure(function)` calls a function of one tensor and returns seconds.
#
# <details><summary>Hint 1: a question</summary>A pass overwrites weights, and raises halfway. Where is the graph as it was before, and whose weights are those?</details>
# <details><summary>Hint 2: the idea</summary>Copy the model before capture, and the graph before each pass, weights included, and each input before a graph gets it. If a copy proves right, it takes the place of the graph. Keep the captured graph for the comparison.</details>
# <details><summary>Hint 3: the shape</summary>A loop over the passes: change a copy and compare it, both where an error means "rejected". Then six rounds over both graphs, of which you drop the first.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "pipeline-report", "locked": true, "schema_version": 3, "solution": false, "task": false}
# The report is a dictionary:
#
# | key | value |
# | --- | --- |
# | `captured` | whether the exporter took the model |
# | `kept`, `rejected` | lists of names of passes |
# | `operations` | two numbers in a list: of `call_function` nodes in the captured graph, and in the result |
# | `seconds` | the two medians in a list, in the same order |
#
# If nothing was captured, the lists are empty and the numbers 0. (When the exporter refuses, it prints the graph as far as
# it got. You can ignore that.)
#
# **Prediction.** One of the passes below is right for positive values only, and another one raises an error. Which ones? And
# which one writes into weights? (The hidden cases bring others, and a name proves nothing.)

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "pipeline-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder.exercises.day5.pipeline_passes import PASSES

for function in PASSES.values():
    print(inspect.getsource(function))


# %% nbgrader={"grade": false, "grade_id": "pipeline-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def count(graph_module: fx.GraphModule) -> int:
    """The number of `call_function` nodes."""
    return sum(node.op == "call_function" for node in graph_module.graph.nodes)


def pipeline(
    model: nn.Module,
    example: torch.Tensor,
    others: list[torch.Tensor],
    passes: dict[str, Callable[[fx.GraphModule], None]],
    measure: Callable[[Callable], float],
) -> tuple[nn.Module, dict[str, Any]]:
    """The model as a graph that every right pass has been over, and a report."""
    ### BEGIN SOLUTION
    reference = copy.deepcopy(model).eval()
    try:
        program = export(copy.deepcopy(reference), (example,), dynamic_shapes=({0: Dim("batch", min=1)},))
    except Exception:
        return model, {"captured": False, "kept": [], "rejected": [], "operations": (0, 0), "seconds": (0.0, 0.0)}
    captured = result = program.module()
    kept, rejected = [], []
    for name, change in passes.items():
        trial = copy.deepcopy(result)
        try:
            change(trial)
            right = all(
                found.shape == wanted.shape and torch.allclose(found, wanted, rtol=1e-4, atol=1e-4)
                for found, wanted in ((trial(x.clone()), reference(x)) for x in [example, *others])
            )
        except Exception:
            right = False
        if right:
            result = trial
        (kept if right else rejected).append(name)
    both, times = (captured, result), ([], [])
    for _ in range(6):
        for graph_module, seconds in zip(both, times, strict=True):
            seconds.append(measure(graph_module))
    return result, {
        "captured": True,
        "kept": kept,
        "rejected": rejected,
        "operations": (count(captured), count(result)),
        "seconds": tuple(statistics.median(seconds[1:]) for seconds in times),
    }
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "pipeline", "locked": true, "points": 35, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day5.pipeline(pipeline)

# %% [markdown] nbgrader={"grade": false, "grade_id": "choose_engine-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 6. Choose an engine honestly
#
# *20 minutes, medium, stretch.* Which engine do you take for your model? Write
# `choose_engine(engines, example, others, clock, rounds)`. `engines` are functions of a list of numbers, by name; none
# changes its list; `eager` is right. `clock()` gives seconds. The machine is busy.
#
# - **Refuse** an engine that raises on `example` or on one of `others`, is off by more than 1e-4 of `eager`'s largest value
#   there, or lets a later call overwrite its result.
# - **Time** the rest on `example`: `rounds` rounds, and in each round every engine once, warmed up, each call by itself.
# - **Take** the engine with the largest speed-up among those that beat `eager` in at least three of four rounds, else
#   `eager`. The speed-up is the median over the rounds: `eager`'s seconds divided by the engine's in the same round.
#
# Return `{"taken": name, "refused": names, "speed_up": {name: number}}`.
#
# <details><summary>Hint 1: a question</summary>Somebody starts a large job while you are timing the second engine. What happens to your figures if you time one engine after the other? And if the engines take turns?</details>
# <details><summary>Hint 2: the idea</summary>Collect all results of an engine first, and compare them afterwards. Then you notice what was overwritten, or remembered from the first input. These calls warm the engine up, too.</details>
# <details><summary>Hint 3: the shape</summary>A function that says whether an engine is right; then two nested loops, with the rounds outside. For each engine, one ratio per round, and their median.</details>

# %% [markdown] nbgrader={"grade": false, "grade_id": "choose_engine-look-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **Prediction.** The cell below times two engines on a machine that gets busy halfway, first one after the other, then in
# turn. One of them really is twice as fast. Which way of timing tells you so?

# %% tags=["nbval-check-output", "not-graded"] nbgrader={"grade": false, "grade_id": "choose_engine-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder.exercises.day5.choose_engine.visible import ScriptedEngines

SCRIPT = {name: {"kind": "right", "first": 0.0, "seconds": cost} for name, cost in (("eager", 2.0), ("fast", 1.0))}
for order in (["eager"] * 4 + ["fast"] * 4, ["eager", "fast"] * 4):
    machine = ScriptedEngines(SCRIPT, weather=[1.0] * 4 + [2.0] * 4)
    spent = dict.fromkeys(SCRIPT, 0.0)
    for name in order:
        start = machine.clock()
        machine.engines()[name]([1.0])
        spent[name] += machine.clock() - start
    print(f"{' '.join(order)}: {spent['eager'] / spent['fast']:.1f} times as fast")


# %% nbgrader={"grade": false, "grade_id": "choose_engine-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def choose_engine(
    engines: dict[str, Callable[[list[float]], list[float]]],
    example: list[float],
    others: list[list[float]],
    clock: Callable[[], float],
    rounds: int,
) -> dict[str, Any]:
    """Which engine to take, which were refused, and how fast each of the others is beside `eager`."""
    ### BEGIN SOLUTION
    inputs = [example, *others]
    wanted = [list(engines["eager"](one)) for one in inputs]

    def is_right(run: Callable[[list[float]], list[float]]) -> bool:
        try:
            results = [run(one) for one in inputs]
        except Exception:
            return False
        return all(
            len(found) == len(one)
            and all(abs(a - b) <= 1e-4 * max(map(abs, one)) for a, b in zip(found, one, strict=True))
            for found, one in zip(results, wanted, strict=True)
        )

    refused = [name for name, run in engines.items() if not is_right(run)]
    right = {name: run for name, run in engines.items() if name not in refused}
    seconds: dict[str, list[float]] = {name: [] for name in right}
    for _ in range(rounds):
        for name, run in right.items():
            start = clock()
            run(example)
            seconds[name].append(clock() - start)
    ratios = {name: [a / b for a, b in zip(seconds["eager"], own, strict=True)] for name, own in seconds.items()}
    speed_up = {name: statistics.median(own) for name, own in ratios.items()}
    worth = [name for name, own in ratios.items() if 4 * sum(one > 1 for one in own) >= 3 * rounds]
    taken = max(worth, key=lambda name: speed_up[name], default="eager")
    return {"taken": taken, "refused": refused, "speed_up": speed_up}
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "choose_engine", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.day5.choose_engine(choose_engine)

# %% [markdown] nbgrader={"grade": false, "grade_id": "deep_dive-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 7. A technical deep dive
#
# *15 minutes, medium.* Explain **one** mechanism of this week to a colleague who knows PyTorch but no compilers: guards,
# graph breaks, dynamic shapes, when a rewrite is legal, the compile cache, … Use at most 400 words and at least one
# measurement of your own: put the code into a cell, and the number into the text. Say what you gave up for it (the
# trade-off), and when you would do it another way. The lesson *writeup_example* shows one.

# %% [markdown] nbgrader={"grade": true, "grade_id": "deep_dive", "locked": false, "points": 20, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"names one mechanism, and says what problem it solves": 4, "explains the mechanism correctly, with its conditions": 6, "has a measurement of one's own that can be repeated": 5, "names what is given up, and when one would do otherwise": 3, "a colleague without compiler knowledge can follow": 2}}
# *Your deep dive goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "answer_compile-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## The five questions, in words
#
# These answers are *stretch*: five minutes each, at most 120 words, as you would say them aloud. Your programs above are
# the evidence; point to them.
#
# ### 1. How does `torch.compile` work under the hood?
#
# *5 minutes, easy, stretch.* Name the stages from bytecode to kernel, and say what happens when the same function is called
# with other arguments. Your `recompile_log` is the evidence.

# %% [markdown] nbgrader={"grade": true, "grade_id": "answer_compile", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"Dynamo, AOTAutograd and backend, each with what goes in and comes out": 5, "guards, and what happens when one fails": 3, "graph breaks": 2}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "answer_tracing-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ### 2. What is the difference between tracing and scripting?
#
# *5 minutes, easy, stretch.* What does each read, and what does each lose? Which would you use today, and instead of which?
# Your `branch_evidence` is the evidence.

# %% [markdown] nbgrader={"grade": true, "grade_id": "answer_tracing", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"tracing records one run, scripting compiles source": 4, "what a trace silently loses, with an example": 3, "both are deprecated, and what takes their place": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "answer_extract-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ### 3. How would you extract a computation graph from an arbitrary PyTorch model?
#
# *5 minutes, medium, stretch.* In which order would you try which methods? How do you know that the graph is right? Your
# `pipeline` is the evidence.

# %% [markdown] nbgrader={"grade": true, "grade_id": "answer_extract", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"an order of methods, with a reason for it": 4, "what is done where a method refuses": 3, "verification on other inputs than the example": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "answer_graph-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ### 4. What is an FX graph made of, and how do you manipulate it?
#
# *5 minutes, easy, stretch.* The kinds of node, arguments and users, and what every rewrite ends with. Your `insert_after` is
# the evidence.

# %% [markdown] nbgrader={"grade": true, "grade_id": "answer_graph", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"the six kinds of node, arguments and users": 4, "insert, redirect readers, erase, lint, recompile": 4, "what makes a rewrite illegal": 2}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "answer_dynamic-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ### 5. How do you handle dynamic shapes in graph extraction?
#
# *5 minutes, medium, stretch.* Symbols, ranges, and what specialises a size to a number. Evidence: the batch of your
# `pipeline`.

# %% [markdown] nbgrader={"grade": true, "grade_id": "answer_dynamic", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"sizes as symbols, with ranges and guards": 4, "what specialises a size, 0 and 1 included": 3, "how one finds out which promise an exported program makes": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex05-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and where
# the feedback page lies.

# %%
# submit("ex_05")
