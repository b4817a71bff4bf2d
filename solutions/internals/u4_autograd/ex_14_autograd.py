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
# `loss.backward()` hands a graph to C++, and gradients come back. Between the two lies the engine. Its core
# fits on a page, and the nodes can be called from Python. Graphs can be thousands of nodes deep, and the check switches
# PyTorch's engine off. Everything you need is on the nodes:
#
# | what | what it gives |
# | --- | --- |
# | `get_gradient_edge(tensor)` | `.node` and `.output_nr`: where a tensor's gradient enters the graph |
# | `node.next_functions` | an edge `(next node, number of its input)` for each result, or `(None, 0)` |
# | `node(*gradients)` | runs it, and gives a gradient for each edge: a tensor if it's one, a tuple if they're several; `()` from `AccumulateGrad` |
# | `node._input_metadata` | for each of its inputs an object with `shape` and `dtype` |
# | `node._sequence_nr()` | when the forward pass recorded it |

# %% [markdown] nbgrader={"grade": false, "grade_id": "own_engine-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *35 minutes, hard.* Write `run_backward(tensors, gradients)`. It does what `torch.autograd.backward` does, and returns the
# nodes in calling order.
#
# - A node is called once, when the gradients have come over all edges that lead to it. An input to which none came is `None`.
# - Of the ready nodes, the highest sequence number goes first.
# - A gradient is summed to the shape of the input where it arrives, and brought to its dtype; those at one input are
#   added up. A node may hand on `None` over an edge: no gradient, and yet that edge has had its turn.
# - `AccumulateGrad`, a node like others, fills the leaf's `.grad`.
# - The backward pass itself must not be recorded. Afterwards autograd is on or off as before, also when a node raised.
#
# For `y = x.sin().sum()`, `run_backward([y], [torch.tensor(1.0)])` fills `x.grad` and returns the nodes of `sum`, `sin` and
# `x`.
#
# <details><summary>Hint 1: a question</summary>In <code>x * x</code>, how many edges lead from the product to the leaf? And when may the leaf be called, if <code>x</code> was used somewhere else, too?</details>
# <details><summary>Hint 2: the idea</summary>Walk once over everything that can be reached, and count how many edges lead to each node. While running, count down. A node whose count is 0 is ready. <code>sum_to_size</code> turns broadcasting round.</details>
# <details><summary>Hint 3: the shape</summary>Two dictionaries, keyed by the nodes themselves (an <code>id()</code> is given to another object once the first is gone): how many gradients are still missing, and which have arrived. And a list of the nodes that are ready. <code>while ready:</code> take the highest, call it under <code>no_grad</code>, hand out its results.</details>


# %% nbgrader={"grade": false, "grade_id": "own_engine-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
LEAF = "torch::autograd::AccumulateGrad"  # What name() says of the nodes that fill .grad.

from collections import Counter

import torch
from torch.autograd.graph import get_gradient_edge


def run_backward(tensors: list[torch.Tensor], gradients: list[torch.Tensor]) -> list:
    """Do what torch.autograd.backward does; the nodes in the order in which they were called."""
    ### BEGIN SOLUTION
    edges = [get_gradient_edge(tensor) for tensor in tensors]
    roots = {edge.node for edge in edges}
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
    ready, called = [node for node in roots if not missing[node]], []
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
                    if not missing[following]:
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
# result is step · n, and where a finite g comes in:
#
# | gradient of | where \|v\| ≤ levels | elsewhere |
# | --- | --- | --- |
# | x | g | 0 |
# | step | g · (n - v), added up | g · n, added up |

# %% [markdown] nbgrader={"grade": false, "grade_id": "custom_function-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *30 minutes, medium.* Write `Quantize`, a `torch.autograd.Function`, called as `Quantize.apply(x, step, levels)`. `x` and
# `step` are tensors of finite numbers, `step` is broadcast against `x`, and `levels` is a whole number, at least 1.
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

# %% [markdown] nbgrader={"grade": false, "grade_id": "checkpointing-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. Keep less, compute twice
#
# *25 minutes, medium.* What a forward pass saves often takes more memory than the weights. Write `checkpoint(function,
# *inputs)`. It returns what `function(*inputs)` returns, a tensor, but keeps only the inputs: whatever autograd would have
# saved is computed again when backward asks.
#
# - All gradients come out as without the checkpoint: those of the inputs and of weights that the function uses, also if
#   no input asks for any.
# - The second run draws the same random numbers as the first. The program around it never notices: it draws afterwards what it
#   would have drawn anyway.
# - In one backward pass the function runs once more, and not before, even if a value is read twice.
# - A function may use a checkpoint itself.
#
# Only the CPU's generator counts: `torch.get_rng_state()`.
#
# For example, `checkpoint(layer, x).sum().backward()` gives `layer`'s weights the same gradients as `layer(x).sum().backward()`,
# dropout included.
#
# <details><summary>Hint 1: a question</summary>With an <code>autograd.Function</code>, what would be recorded if only the weights asked for gradients? They aren't among its inputs.</details>
# <details><summary>Hint 2: the idea</summary><code>saved_tensors_hooks</code> once more. In the first run, <code>pack</code> keeps a number in place of the tensor. The first <code>unpack</code> runs the function again, under hooks that collect what is saved. It comes in the same order.</details>
# <details><summary>Hint 3: the shape</summary>Keep the generator's state before the first run. In <code>unpack</code>: if nothing has been collected, note the present state, put back the old one, run under <code>enable_grad</code> and the collecting hooks, and in <code>finally</code> restore the present one. Then return what has the number.</details>


# %% nbgrader={"grade": false, "grade_id": "checkpointing-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
from itertools import count

import torch
from torch.autograd.graph import saved_tensors_hooks


def checkpoint(function, *inputs):
    """The function's result; what autograd needs of it is computed again in the backward pass."""
    ### BEGIN SOLUTION
    before, numbers, collected = torch.get_rng_state(), count(), []

    def collect(tensor):
        collected.append(tensor.detach())

    def run_again():
        now = torch.get_rng_state()
        torch.set_rng_state(before)
        try:
            with torch.enable_grad(), saved_tensors_hooks(collect, lambda nothing: nothing):
                function(*inputs)
        finally:
            torch.set_rng_state(now)

    def unpack(number):
        if not collected:
            run_again()
        return collected[number]

    with saved_tensors_hooks(lambda tensor: next(numbers), unpack):
        return function(*inputs)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "checkpointing", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u4.checkpointing(checkpoint)

# %% [markdown] nbgrader={"grade": false, "grade_id": "forward_mode-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 5. Forwards
#
# *30 minutes, medium.* The backward pass answers: what does every input do to *this one result*? The other way round: what does
# *one direction* of the input do to every result? Compute this Jacobian-vector product, JVP, in two ways.
#
# - `Dual(value, tangent)`: a number that carries its derivative along, two tensors of the same shape and dtype. With `Dual(x, v)`
#   in place of `x`, a function gives its value and its JVP. A dual number meets its like, numbers and constant
#   tensors, broadcast and promoted as usual. It works where autograd records nothing.
# - `jvp_by_two_backward_passes(function, x, tangent)`: the product alone, by `torch.autograd.grad`. `x` stays as it is, and so
#   does its `.grad`, even after an error, which comes through. If `x` doesn't matter to the result, the product is 0.
#
# For example, at `x = 3` in the direction 1, `x * x` is `Dual(9, 6)`.
#
# <details><summary>Hint 1: a question</summary>Going backward with a vector w gives Jᵀw. As a function of w, that's linear. What is its derivative by w, and what do you get if you go backward through <em>it</em>?</details>
# <details><summary>Hint 2: the idea</summary>A dual number follows the rules you know from school: (uv)' = u'v + uv'. A constant is a dual number whose tangent is zeros of its shape and dtype; with that, broadcasting takes care of itself. And <code>x ** 0</code> is flat everywhere, at 0 as well.</details>
# <details><summary>Hint 3: the shape</summary>First pass: <code>w = torch.zeros_like(y, requires_grad=True)</code>, <code>grad(y, x, w, create_graph=True)</code>. Second pass: <code>grad(that, w, tangent)</code>. <code>allow_unused=True</code> gives <code>None</code> where nothing leads to <code>x</code>. A result that doesn't ask for gradients never gets that far, and neither does a <em>that</em> in which <code>w</code> doesn't occur.</details>


# %% nbgrader={"grade": false, "grade_id": "forward_mode-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import torch


class Dual:
    """A tensor with its derivative in one direction."""

    def __init__(self, value, tangent):
        self.value, self.tangent = value, tangent

    def __add__(self, other):
        ### BEGIN SOLUTION
        other = self.lift(other)
        return Dual(self.value + other.value, self.tangent + other.tangent)
        ### END SOLUTION

    def __neg__(self):
        ### BEGIN SOLUTION
        return Dual(-self.value, -self.tangent)
        ### END SOLUTION

    def __sub__(self, other):
        other = self.lift(other)
        return Dual(self.value - other.value, self.tangent - other.tangent)

    def __mul__(self, other):
        ### BEGIN SOLUTION
        other = self.lift(other)
        return Dual(self.value * other.value, self.tangent * other.value + self.value * other.tangent)
        ### END SOLUTION

    def __truediv__(self, other):
        ### BEGIN SOLUTION
        other = self.lift(other)
        quotient = self.value / other.value
        return Dual(quotient, (self.tangent - quotient * other.tangent) / other.value)
        ### END SOLUTION

    def __matmul__(self, other):
        ### BEGIN SOLUTION
        other = self.lift(other)
        return Dual(self.value @ other.value, self.tangent @ other.value + self.value @ other.tangent)
        ### END SOLUTION

    # What Python calls when a constant stands on the left.
    def __radd__(self, other):
        return self.lift(other) + self

    def __rsub__(self, other):
        return self.lift(other) - self

    def __rmul__(self, other):
        return self.lift(other) * self

    def __rtruediv__(self, other):
        return self.lift(other) / self

    def __rmatmul__(self, other):
        return self.lift(other) @ self

    def __pow__(self, exponent):
        """The exponent is a whole number."""
        ### BEGIN SOLUTION
        # The power 0 is flat, at 0 as well, where the rule would be 0 times infinity.
        slope = exponent * self.value ** (exponent - 1) if exponent else torch.zeros_like(self.value)
        return self.chain(self.value**exponent, slope)
        ### END SOLUTION

    def exp(self):
        ### BEGIN SOLUTION
        return self.chain(self.value.exp(), self.value.exp())
        ### END SOLUTION

    def sin(self):
        ### BEGIN SOLUTION
        return self.chain(self.value.sin(), self.value.cos())
        ### END SOLUTION

    def tanh(self):
        ### BEGIN SOLUTION
        return self.chain(self.value.tanh(), 1 - self.value.tanh() ** 2)
        ### END SOLUTION

    def relu(self):
        ### BEGIN SOLUTION
        return self.chain(self.value.relu(), (self.value > 0).to(self.value.dtype))
        ### END SOLUTION

    def sum(self):
        """Of all numbers."""
        ### BEGIN SOLUTION
        return Dual(self.value.sum(), self.tangent.sum())
        ### END SOLUTION

    def lift(self, other):
        """A dual number as it is; a constant (a tensor or a Python number) as a dual number."""
        ### BEGIN SOLUTION
        if isinstance(other, Dual):
            return other
        constant = torch.as_tensor(other, dtype=torch.result_type(self.value, other))
        return Dual(constant, torch.zeros_like(constant))
        ### END SOLUTION

    # Further methods of your own go here.
    def chain(self, value, derivative):
        """The chain rule: what a function makes of this number."""
        ### BEGIN SOLUTION
        return Dual(value, derivative * self.tangent)
        ### END SOLUTION


def jvp_by_two_backward_passes(function, x: torch.Tensor, tangent: torch.Tensor) -> torch.Tensor:
    """The Jacobian of function at x, times tangent."""
    ### BEGIN SOLUTION
    x = x.detach().requires_grad_()
    y = function(x)
    if not y.requires_grad:
        return torch.zeros_like(y)
    w = torch.zeros_like(y, requires_grad=True)
    (backward,) = torch.autograd.grad(y, x, w, create_graph=True, allow_unused=True)
    if backward is None or not backward.requires_grad:
        return torch.zeros_like(y)
    return torch.autograd.grad(backward, w, tangent)[0]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "forward_mode", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u4.forward_mode(Dual, jvp_by_two_backward_passes)

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_lost_gradient-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 1. The gradient that never came
#
# *10 minutes, medium.* A colleague's model trains, but one layer's weights stay as they were at the start. Nothing raises. Write in
# at most 150 words which three causes you'd look for first, how you'd tell them apart with what this unit has shown you
# (`grad_fn`, hooks, anomaly mode, the graph itself), and what you'd change. Show the most likely cause in a few lines of code that
# run without an error and lose a gradient.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_lost_gradient", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"three causes that raise nothing, and that are not the same one by other names": 4, "a way to tell them apart: walk the graph, a hook that never runs, .grad that is None or zero": 3, "code that runs and loses a gradient, with the remedy": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_direction-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 2. Forwards or backwards?
#
# *10 minutes, medium.* Three people ask you which mode of differentiation they need: one fits 8 parameters of a simulation
# that returns a million numbers, one trains a network with a million weights, one wants to know how a loss curves in one
# direction. Answer each in at most 50 words: how many passes, what stays in memory, and which call in PyTorch. Back up one of the
# answers with a count or a time that you've measured.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_direction", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"one forward pass for each input direction, one backward pass for each output, with the numbers of the three cases": 4, "memory: backward keeps what was saved, forward does not; curvature is one over the other, with create_graph or jvp over grad": 3, "a count or a time of one's own that fits": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex14-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and where the
# feedback page lies.

# %%
# submit("ex_14")
