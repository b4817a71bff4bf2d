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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex14-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 14: autograd
#
# Five tasks and two questions, a bit under three hours. You run the graph that autograd recorded, catch the errors that it
# doesn't report, teach it a derivative of your own, pay for memory with time, and go through a program forwards.
#
# Each task has a cell for your code and a check below it that answers at once. The check tries visible cases; `submit` at
# the end also tries hidden ones: other graphs, other programs, other numbers.

# %% nbgrader={"grade": false, "grade_id": "ex14-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder import check, submit

# %% [markdown] nbgrader={"grade": false, "grade_id": "own_engine-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. Run the recorded graph yourself
#
# `loss.backward()` hands a graph to C++, and gradients come back. Between the two lies an engine of about a thousand lines. Its
# core fits on a page, and the nodes can be called from Python. Everything you need is on them:
#
# | what | what it gives |
# | --- | --- |
# | `get_gradient_edge(tensor)` | `.node` and `.output_nr`: where a tensor's gradient enters the graph |
# | `node.next_functions` | an edge `(next node, number of its input)` for each result, or `(None, 0)` |
# | `node(*gradients)` | runs it: a tensor, or a tuple of as many as it has edges; `()` for `AccumulateGrad` |
# | `node._input_metadata` | for each of its inputs an object with `shape` and `dtype` |
# | `node._sequence_nr()` | when the forward pass recorded it |

# %% [markdown] nbgrader={"grade": false, "grade_id": "own_engine-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *35 minutes, hard.* Write `run_backward(tensors, gradients)`. It does what `torch.autograd.backward` does with the same
# arguments, and returns the nodes in the order in which it called them.
#
# - A node is called once, when the gradients have come over all edges that lead to it. An input to which none came is `None`.
# - Of the nodes that are ready, the one with the highest sequence number goes first.
# - A gradient is summed to the shape of the input where it arrives, and brought to its dtype. Gradients at the same input are
#   added up.
# - `AccumulateGrad` is a node like others: calling it fills the leaf's `.grad`.
# - The backward pass itself must not be recorded.
#
# PyTorch's engine is switched off while your code runs.
#
# For example, for `y = x.sin().sum()` the call `run_backward([y], [torch.tensor(1.0)])` fills `x.grad` and returns the nodes
# of `sum`, `sin` and the leaf.
#
# <details><summary>Hint 1: a question</summary>In <code>x * x</code>, how many edges lead from the product to the leaf? And when may the leaf be called, if <code>x</code> was used somewhere else, too?</details>
# <details><summary>Hint 2: the idea</summary>Walk once over everything that can be reached, and count how many edges lead to each node. While running, count down. A node whose count is 0 is ready. <code>sum_to_size</code> turns broadcasting round.</details>
# <details><summary>Hint 3: the shape</summary>Three dictionaries, keyed by the nodes themselves (an <code>id()</code> is given to another object once the first is gone): what is still missing, what has arrived, and a list of those that are ready. <code>while ready:</code> take the highest, call it under <code>no_grad</code>, hand out its results.</details>


# %% nbgrader={"grade": false, "grade_id": "own_engine-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
from collections import Counter

import torch
from torch.autograd.graph import get_gradient_edge


def run_backward(tensors: list[torch.Tensor], gradients: list[torch.Tensor]) -> list:
    """Do what torch.autograd.backward does; the nodes in the order in which they were called."""
    ### BEGIN SOLUTION
    edges = [get_gradient_edge(tensor) for tensor in tensors]
    roots = list(dict.fromkeys(edge.node for edge in edges))
    missing, known, waiting = Counter(), set(roots), list(roots)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if node is not None:
                missing[node] += 1
                if node not in known:
                    known.add(node)
                    waiting.append(node)
    arrived = {node: [None] * len(node._input_metadata) for node in known}

    def deposit(node, number, gradient):
        if gradient is not None:
            wanted, before = node._input_metadata[number], arrived[node][number]
            gradient = gradient.sum_to_size(wanted.shape).to(wanted.dtype)
            arrived[node][number] = gradient if before is None else before + gradient

    for edge, gradient in zip(edges, gradients, strict=True):
        deposit(edge.node, edge.output_nr, gradient)
    ready, called = [node for node in roots if missing[node] == 0], []
    with torch.no_grad():
        while ready:
            node = max(ready, key=lambda one: one._sequence_nr())
            ready.remove(node)
            called.append(node)
            found = node(*arrived[node])
            results = found if isinstance(found, tuple) else (found,)
            for (following, number), gradient in zip(node.next_functions, results, strict=True):
                if following is not None:
                    deposit(following, number, gradient)
                    missing[following] -= 1
                    if missing[following] == 0:
                        ready.append(following)
    return called
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "own_engine", "locked": true, "points": 25, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u4.own_engine(run_backward)

# %% [markdown] nbgrader={"grade": false, "grade_id": "in_place_errors-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. The error that raises, and the one that doesn't
#
# *30 minutes, hard.* A write in place can overwrite what the backward pass still needs. Mostly autograd notices. Build the
# tool that also finds the other cases. A program is a list of steps. Each takes the list of all values so far, the leaves
# first, and returns the next value. The last one is the loss.
#
# Write `diagnose(steps, leaves)`. It returns an outcome and the number of the step to blame, counted from 0:
#
# | outcome | when | step |
# | --- | --- | --- |
# | `"raises when written"` | a step raises a `RuntimeError` | that step |
# | `"raises in backward"` | the backward pass does | the first that raised the version of a value that backward reads |
# | `"silent"` | some leaf gets other gradients than it would if all saved values were still as they were saved | the first that changed numbers that backward reads |
# | `"fine"` | none of these | `None` |
#
# Leave `leaves` as they are, values and `.grad`. Steps may draw random numbers.
#
# For example, `exp`, then `.data.mul_(3)` on its result, then a sum, is `("silent", 1)`.
#
# <details><summary>Hint 1: a question</summary>Which two numbers does autograd compare before it uses a saved tensor? And does it still compare them when a hook of yours has packed that tensor?</details>
# <details><summary>Hint 2: the idea</summary><code>saved_tensors_hooks(pack, unpack)</code>: the first function sees each value when it is saved and can keep a copy and its <code>_version</code>; the second sees which ones are read, and may hand back the tensor or the copy. With <code>retain_graph=True</code> you can go backward twice.</details>
# <details><summary>Hint 3: the shape</summary>Copy the leaves. Under the hooks run step by step, and after each compare all that was saved. Then ask for gradients with the copies, and with the tensors. Was a version raised among what was read? Do the gradients differ (two NaN are the same)? Three <code>if</code>s.</details>


# %% nbgrader={"grade": false, "grade_id": "in_place_errors-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import torch
from torch.autograd.graph import saved_tensors_hooks


def diagnose(steps: list, leaves: list[torch.Tensor]) -> tuple[str, int | None]:
    """What happens to a program that writes in place, and the step to blame."""
    ### BEGIN SOLUTION
    saved, give_copies = [], True

    def same(one, other):
        if one is None or other is None:
            return one is other
        return torch.allclose(one, other, rtol=0, atol=0, equal_nan=True)

    def pack(tensor):
        entry = {"tensor": tensor, "version": tensor._version, "copy": tensor.detach().clone(), "read": False}
        saved.append(entry | {"raised": None, "changed": None})
        return saved[-1]

    def unpack(entry):
        entry["read"] = True
        return entry["copy"] if give_copies else entry["tensor"]

    values = [leaf.detach().clone().requires_grad_(leaf.requires_grad) for leaf in leaves]
    asking = [value for value in values if value.requires_grad]
    with saved_tensors_hooks(pack, unpack):
        for number, step in enumerate(steps):
            try:
                values.append(step(values))
            except RuntimeError:
                return "raises when written", number
            for entry in saved:
                if entry["raised"] is None and entry["tensor"]._version != entry["version"]:
                    entry["raised"] = number
                if entry["changed"] is None and not same(entry["tensor"].detach(), entry["copy"]):
                    entry["changed"] = number
    right = torch.autograd.grad(values[-1], asking, retain_graph=True, allow_unused=True)
    give_copies = False
    found = torch.autograd.grad(values[-1], asking, allow_unused=True)
    read = [entry for entry in saved if entry["read"]]
    raised = [entry["raised"] for entry in read if entry["raised"] is not None]
    if raised:
        return "raises in backward", min(raised)
    if all(same(one, other) for one, other in zip(found, right, strict=True)):
        return "fine", None
    return "silent", min(entry["changed"] for entry in read if entry["changed"] is not None)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "in_place_errors", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u4.in_place_errors(diagnose)

# %% [markdown] nbgrader={"grade": false, "grade_id": "custom_function-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. A derivative of your own
#
# A network for a small chip keeps its weights as whole multiples of a step. Rounding has the derivative 0 almost everywhere, so
# nothing would ever learn. *Learned step size quantization* (Esser and others, 2020) pretends in the backward pass that it had
# another one, and learns the step as well. With v = x / step, and n = `torch.round(v)` kept between -levels and levels, the
# result is step · n, and where g comes in:
#
# | gradient of | where \|v\| ≤ levels | elsewhere |
# | --- | --- | --- |
# | x | g | 0 |
# | step | g · (n - v), added up | g · n, added up |

# %% [markdown] nbgrader={"grade": false, "grade_id": "custom_function-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *30 minutes, medium.* Write `Quantize`, a `torch.autograd.Function`, called as `Quantize.apply(x, step, levels)`. `x` and
# `step` are tensors, `step` is broadcast against `x`, and `levels` is a Python number.
#
# - The gradients are those of the table. They can be differentiated again, as the formulas stand there; `n` counts as constant.
# - If `x` or `step` is overwritten between the call and the backward pass, an error must be raised.
# - `torch.func.grad` and `torch.func.vmap` work on it, so that you can have gradients row by row.
#
# For example, with a step of 0.5 and 3 levels, 0.7 becomes 0.5, and 9 becomes 1.5.
#
# <details><summary>Hint 1: a question</summary>You compute <code>x / step</code> in the forward pass and save it. Autograd recorded nothing there. What is the derivative of the backward pass by <code>x</code> then?</details>
# <details><summary>Hint 2: the idea</summary><code>forward(x, step, levels)</code> only computes. <code>setup_context(ctx, inputs, output)</code> decides what is kept: tensors through <code>ctx.save_for_backward</code>, numbers as attributes. <code>backward</code> computes v and n anew.</details>
# <details><summary>Hint 3: the shape</summary>Each method is short: one line, two, and five. <code>backward</code> returns three things, the last is <code>None</code>. What was broadcast, the engine sums up for you, as yours did in Task 1.</details>


# %% nbgrader={"grade": false, "grade_id": "custom_function-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import torch


class Quantize(torch.autograd.Function):
    """Rounding to whole steps, with gradients that let both the numbers and the step learn."""

    generate_vmap_rule = True  # vmap may run these methods on batched tensors.

    @staticmethod
    def forward(x, step, levels):
        ### BEGIN SOLUTION
        return step * torch.round(x / step).clamp(-levels, levels)
        ### END SOLUTION

    @staticmethod
    def setup_context(ctx, inputs, output):
        ### BEGIN SOLUTION
        x, step, ctx.levels = inputs
        ctx.save_for_backward(x, step)
        ### END SOLUTION

    @staticmethod
    def backward(ctx, gradient):
        ### BEGIN SOLUTION
        x, step = ctx.saved_tensors
        v = x / step
        n = torch.round(v).clamp(-ctx.levels, ctx.levels)
        inside = v.abs() <= ctx.levels
        return gradient * inside, gradient * torch.where(inside, n - v, n), None
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "custom_function", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u4.custom_function(Quantize)

"""Gate without sandbox in one process: probe and judge directly. For quick turns while building."""
import sys, random, ast, time, contextlib, io, traceback, importlib
from pathlib import Path
sys.path.insert(0,"/tmp/w/u4tools")
from autograder.course.tasks import find_task
from autograder.course.judges import visible_cases, hidden_cases, judge_case
from autograder.exchange.verdict import outcome_from_verdicts
from autograder.authoring.gate import GATE_SEED
from gen import reference
task=find_task(sys.argv[1]); number=int(sys.argv[2]); only=sys.argv[3:]
V=importlib.import_module(task.module+".visible")
vis, hid = visible_cases(task), hidden_cases(task, GATE_SEED)
def grade(source,name):
    ns={}; 
    exec(compile(source,f"<cell {name}>","exec"),ns)
    answers=[ns[n] for n in task.provides]
    verdicts=[]; raised=[]
    for c,h in [(c,False) for c in vis]+[(c,True) for c in hid]:
        try:
            with contextlib.redirect_stdout(io.StringIO()): e=V.probe(c,*answers)
            if not h: V.show(c,e)
        except Exception as x:
            raised.append((c.name,repr(x)[:150])); continue
        v=judge_case(task,c,e,h)
        verdicts.append(v)
    return raised,(outcome_from_verdicts(task.name,task.title,verdicts) if verdicts else None)
files=[("reference",None)]+[(p.stem,p) for k in ("right","wrong") for p in sorted((task.folder/k).glob("*.py"))]
for name,p in files:
    if only and name not in only: continue
    src=p.read_text() if p else reference(number,task.name)
    t=time.time(); raised,o=grade(src,name); dt=time.time()-t
    want="passed" if p is None or p.parent.name=="right" else ast.get_docstring(ast.parse(src)).splitlines()[0]
    got="raised" if raised and (o is None or not o.misconceptions) else ("passed" if o.status=="passed" else o.misconceptions[0])
    failed=[c.case for c in o.cases if not c.passed] if o else []
    print("ok " if got==want else "BAD", name, "| want",want,"| got",got,"|", "" if got==want else (o and o.messages), raised[:2] if raised else "", failed[:8], round(dt,2))
# %% [markdown] nbgrader={"grade": false, "grade_id": "ex14-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and where the
# feedback page lies.

# %%
# submit("ex_14")
