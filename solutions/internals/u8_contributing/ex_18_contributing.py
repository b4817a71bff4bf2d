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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex18-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 18: contributing
#
# Five tasks and two questions, a bit under three hours. You add an operator the way PyTorch adds one: entries, a kernel, a
# derivative and tests. Then you do what most first contributions consist of: you find the commit that broke something, and
# you make a failing program so small that a maintainer reads it.
#
# Each task has a cell for your code and a check below it that answers at once. The check tries visible cases; `submit` at
# the end also tries hidden ones: other tensors, other wrong kernels, other histories, other failures.

# %% nbgrader={"grade": false, "grade_id": "ex18-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
import torch

from autograder import check, submit

# %% [markdown] nbgrader={"grade": false, "grade_id": "add_operator-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. Add an operator
#
# Some language models don't let their logits grow without limit. They squeeze them with
#
# $$\mathrm{softcap}(x, c) = c \cdot \tanh(x / c)$$
#
# which is almost $x$ near zero and never exceeds the cap $c > 0$. PyTorch has no such operator yet. Add it to the mirror of
# the build that the lesson used: PyTorch's own `torchgen` reads your entries, and your kernel is a function in Python.

# %% [markdown] nbgrader={"grade": false, "grade_id": "add_operator-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *35 minutes, hard.* Write both halves of the operator.
#
# 1. `entries()` returns what you'd add to `native_functions.yaml`, as text: `softcap`, `softcap_` and `softcap.out`, for the
#    tensors `self` and `cap`, for the CPU and for CUDA. All three run one structured kernel named `softcap_out`; the result's
#    shape and dtype come from `TensorIteratorBase`. `softcap` and `softcap_` are functions, and whoever has a tensor can
#    also write `x.softcap(cap)` and `x.softcap_(cap)`. `softcap` is tagged as pointwise.
# 2. `softcap_out(self, cap, out)` is the kernel for the CPU. `out` has the right shape and dtype already. Only `out` is
#    written. It may be `self` itself, and the arguments may broadcast. Far beyond the cap the result is the cap, and near
#    zero it keeps its digits. Calculate in `out`'s precision or better. In half precision, calculate in single and round
#    once.
#
# For example, `softcap` of 10 with a cap of 5 gives about 4.82.
#
# <details><summary>Hint 1: a question</summary>Look up <code>hardshrink</code> with <code>source("aten/src/ATen/native/native_functions.yaml", "hardshrink.out")</code>. Which of its lines would be yours, and which variant does it lack?</details>
# <details><summary>Hint 2: the idea</summary>Only <code>softcap.out</code> has <code>structured</code> and <code>dispatch</code>. The other two say <code>structured_delegate: softcap.out</code>. In the kernel, first compute the whole result in a wider dtype, and then write it.</details>
# <details><summary>Hint 3: the shape</summary>An argument that is written is <code>Tensor(a!)</code>, and so is what's returned. The kernel's last line is <code>out.copy_(…)</code>, which also rounds; <code>torch.promote_types(out.dtype, torch.float32)</code> is the dtype to calculate in.</details>


# %% nbgrader={"grade": false, "grade_id": "add_operator-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def entries() -> str:
    """What to add to native_functions.yaml."""
    ### BEGIN SOLUTION
    return """
- func: softcap(Tensor self, Tensor cap) -> Tensor
  structured_delegate: softcap.out
  variants: function, method
  tags: pointwise

- func: softcap_(Tensor(a!) self, Tensor cap) -> Tensor(a!)
  structured_delegate: softcap.out
  variants: function, method
  tags: pointwise

- func: softcap.out(Tensor self, Tensor cap, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  structured_inherits: TensorIteratorBase
  dispatch:
    CPU, CUDA: softcap_out
  tags: pointwise
"""
    ### END SOLUTION


def softcap_out(self: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    """Write cap * tanh(self / cap) into out."""
    ### BEGIN SOLUTION
    wide = torch.promote_types(out.dtype, torch.float32)
    x, c = self.to(wide), cap.to(wide)
    out.copy_(c * torch.tanh(x / c))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "add_operator", "locked": true, "points": 25, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u8.add_operator(entries, softcap_out)

# %% [markdown] nbgrader={"grade": false, "grade_id": "derivative_formula-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. Its derivative
#
# *20 minutes, medium.* Without a formula the operator is a dead end for training. Write `derivatives()`: the entry for
# `derivatives.yaml`, as text, with a formula for `self` and one for `cap`.
#
# A formula is C++ in PyTorch. The mirror reads what C++ and Python share: the names `self`, `cap`, `result` and `grad`,
# numbers, `+ - * /`, and calls such as `result.square()` or `tanh_backward(grad, result)`. There is no `**`, and `1 / 2` is 0
# in C++.
#
# The gradient must pass `gradcheck`, and stay right when it is differentiated again. Far beyond the cap it is finite. Caps
# may be tiny, but are above 0. If an argument was broadcast, the engine sums over the dimensions that were added; a formula
# does not.
#
# For example, the entry of `tanh` reads
#
# ```yaml
# - name: tanh(Tensor self) -> Tensor
#   self: tanh_backward(grad, result)
# ```
#
# <details><summary>Hint 1: a question</summary>What is <code>result / cap</code>, in terms of <code>self</code>?</details>
# <details><summary>Hint 2: the idea</summary>Write y = self / cap and t = tanh(y). The derivative of c·t for self is (1 - t²), since the cap in front and the one inside cancel. For cap you need the product rule: the cap stands in two places.</details>
# <details><summary>Hint 3: the shape</summary>For <code>cap</code>: <code>grad * (… - self / cap * …)</code>. The first gap is what the factor in front gives, and the second is the formula of <code>self</code> without <code>grad</code>.</details>


# %% nbgrader={"grade": false, "grade_id": "derivative_formula-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def derivatives() -> str:
    """What to add to derivatives.yaml."""
    ### BEGIN SOLUTION
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - (result / cap).square())
  cap: grad * (result / cap - self / cap * (1 - (result / cap).square()))
"""
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "derivative_formula", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u8.derivative_formula(derivatives)

# %% [markdown] nbgrader={"grade": false, "grade_id": "operator_tests-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. Its tests
#
# A test is worth as much as the mistakes it finds. PyTorch tests each operator with an **OpInfo**: samples, a reference in
# NumPy, and a list of what the operator can do. Generic tests do the rest. Here, for each of your samples, they
#
# - call `softcap`, and compare shape and values with your reference, as `torch.testing.assert_close` does (in float64 they are
#   stricter: 10 digits);
# - look whether the arguments are still the same;
# - call `softcap_` as well, if the result has the shape and dtype of `self`, whose elements share no memory.
#
# What `softcap` promises: `self` and `cap` are tensors of float32, float64, bfloat16 or int64, alike or not, with up to four
# dimensions, any sizes and any strides, and either may broadcast. Caps are finite and above 0; for others nothing is
# promised. NaN stays NaN, and infinity gives the cap.

# %% [markdown] nbgrader={"grade": false, "grade_id": "operator_tests-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *35 minutes, hard.* Write the samples and the reference.
#
# - `sample_inputs()` returns a list of pairs `(self, cap)`: at most 40, whose results have at most 120 elements.
# - `reference(self, cap)` gets both as arrays of NumPy in double precision, and returns the right result as such an array.
#
# Kernels are run on your samples where your code can't see them. Three wrong ones are shown to you: one reads memory in
# order whatever the strides say, one uses the first cap for all, and one overflows. Others come when you submit, each
# with one mistake somewhere in what `softcap` promises. Your tests must fail on each of them, and pass on kernels that are
# right, however those calculate.
#
# For example, a kernel that handles eight numbers at a time and forgets the rest passes every sample of eight numbers.
#
# <details><summary>Hint 1: a question</summary>Read the promise again, word by word. Which sample would notice if a kernel broke just this word?</details>
# <details><summary>Hint 2: the idea</summary>Vary one thing at a time, starting from one ordinary sample of a size like 5 × 7: the dtype, the strides, the shapes, the size of the numbers, the odd values. Random numbers alone don't reach zero, infinity or a thousand.</details>
# <details><summary>Hint 3: the shape</summary>A list of pairs, written out: every dtype for <code>self</code> with every dtype for <code>cap</code>; <code>x.T</code>, <code>x[:, ::2]</code> and <code>x.expand(…)</code>, and the same for caps; a cap for each column, a cap for each row, a cap that's larger than <code>self</code>; shapes <code>()</code> and <code>(0, 3)</code>, three and four dimensions; and one with zero, a thousand, <code>nan</code>, <code>inf</code> and <code>-inf</code>.</details>


# %% nbgrader={"grade": false, "grade_id": "operator_tests-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import numpy
import torch


def sample_inputs() -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Pairs (self, cap) that every kernel is tried on."""
    ### BEGIN SOLUTION
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape, dtype=torch.float32):
        return (torch.randn(shape, generator=generator) * 3).to(dtype)

    def caps(*shape, dtype=torch.float32):
        return (torch.rand(shape, generator=generator) * 4 + 1).to(dtype)

    dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.int64)
    samples = [(numbers(5, 7, dtype=one), caps(7, dtype=other)) for one in dtypes for other in dtypes]
    samples += [(numbers(7, 5).T, caps(7)), (numbers(5, 14)[:, ::2], caps(7)), (numbers(7).expand(5, 7), caps(7))]
    samples += [(numbers(5, 7), caps(7, 5).T), (numbers(5, 7), caps(14)[::2]), (numbers(5, 7), caps(7).expand(5, 7))]
    samples += [(numbers(5, 1), caps(7)), (numbers(7), caps(5, 1))]
    samples += [(numbers(), caps()), (numbers(0, 3), caps(0, 3))]
    samples += [(numbers(2, 3, 5), caps(2, 3, 5)), (numbers(2, 3, 2, 5), caps(2, 3, 2, 5))]
    odd = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, 1000.0, -1000.0])
    samples += [(odd, caps(6))]
    return samples
    ### END SOLUTION


def reference(self: numpy.ndarray, cap: numpy.ndarray) -> numpy.ndarray:
    """The right result, by NumPy."""
    ### BEGIN SOLUTION
    return cap * numpy.tanh(self / cap)
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "operator_tests", "locked": true, "points": 25, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u8.operator_tests(sample_inputs, reference)

# %% [markdown] nbgrader={"grade": false, "grade_id": "first_bad_commit-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. Who broke it?
#
# *30 minutes, medium.* A model went wrong in 2,000 commits. `git bisect` finds the culprit with 11 tests. Write what it does: `first_bad(parents, good, bad, test)`.
#
# - `parents` names the parents of each commit; a merge has two. `good` is an ancestor of `bad`.
# - One commit brought the fault in. It and its descendants are bad, all others good.
# - `test(commit)` returns `"good"`, `"bad"`, or `"skip"` if the commit doesn't build, which says nothing.
#
# Return a list, no name twice, of commits that may be to blame: one, or more if skips hide it and no test would help. Use few tests: at most log2(n), rounded up, for n suspects on a straight line without skips. Never test a commit whose answer is
# known.
#
# For example, 3 tests must be enough on the line c0 … c8, with c0 good and c8 bad.
#
# <details><summary>Hint 1: a question</summary>A commit is bad. Which suspects does that clear? And if it's good?</details>
# <details><summary>Hint 2: the idea</summary>Keep the set of suspects: ancestors of what is bad, without ancestors of what is good. Test the commit whose ancestors are as close as possible to half of it. After a skip, take the next best.</details>
# <details><summary>Hint 3: the shape</summary>One loop. Collect the untested commits for which <code>0 &lt; len(above[c] &amp; suspects) &lt; len(suspects)</code>; stop when there are none. Take the one whose smaller half is largest, and on its answer do <code>suspects &amp;= above[c]</code> or <code>suspects -= above[c]</code>.</details>


# %% nbgrader={"grade": false, "grade_id": "first_bad_commit-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def first_bad(parents: dict[str, list[str]], good: str, bad: str, test) -> list[str]:
    """The commits that may have brought the fault in."""

    ### BEGIN SOLUTION
    def ancestors(commit):
        # No recursion: two thousand commits are deeper than Python's stack.
        found, waiting = set(), [commit]
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting += parents[one]
        return found

    above = {commit: ancestors(commit) for commit in parents}
    suspects = above[bad] - above[good]
    tested = set()
    while True:
        halves = {}
        for commit in sorted(set(parents) - tested):
            inside = len(above[commit] & suspects)
            halves[commit] = min(inside, len(suspects) - inside)
        if not any(halves.values()):  # No test would tell the rest apart.
            return sorted(suspects)
        commit = max(halves, key=halves.get)
        tested.add(commit)
        answer = test(commit)
        if answer == "bad":
            suspects = suspects & above[commit]
        elif answer == "good":
            suspects = suspects - above[commit]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "first_bad_commit", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u8.first_bad_commit(first_bad)

# %% [markdown] nbgrader={"grade": false, "grade_id": "minimal_reproducer-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 5. As small as it gets
#
# *30 minutes, medium.* Nobody reads an issue with 300 lines of model. Write `shrink(program, run)`, which makes a failing
# program small. A program is a list of steps:
#
# ```python
# [{"out": "a", "op": "ones", "size": [8, 4]}, {"out": "b", "op": "add", "inputs": ["a", "a"]}]
# ```
#
# `run(program)` gives the error message, or `""`. Return a program that fails with the *same message*, and that no longer
# does after any of these edits:
#
# - leave out a step;
# - leave out a step and let whoever read its result read its first input instead;
# - make a number in the sizes smaller, but at least 1, by one or by half (5 to 2), in one place or wherever that number
#   stands.
#
# A run may take minutes: you have 100 for each step of the given program. Names may be given twice.
#
# For example, the program above, failing at `add` whatever its inputs, becomes the same with size `[1, 1]`.
#
# <details><summary>Hint 1: a question</summary>You leave out the first step, and the program fails. Is that progress?</details>
# <details><summary>Hint 2: the idea</summary>Write a function that lists every program that's one edit smaller. Take the first one that fails with the same message, and start from there. When none does, you're done: that's the definition. To save runs, begin with the last steps.</details>
# <details><summary>Hint 3: the shape</summary><code>while True:</code> and inside it <code>for candidate in smaller(program): if run(candidate) == message: program = candidate; break</code> with <code>else: return program</code>. Remember what you have run in a dictionary.</details>


# %% nbgrader={"grade": false, "grade_id": "minimal_reproducer-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def without(program: list[dict], number: int) -> list[dict]:
    """The program without a step."""
    ### BEGIN SOLUTION
    return program[:number] + program[number + 1 :]
    ### END SOLUTION


def without_detour(program: list[dict], number: int) -> list[dict]:
    """The program without a step, whose first input takes the place of its result."""
    ### BEGIN SOLUTION
    step, later = program[number], []
    current = True
    for other in program[number + 1 :]:
        if current and "inputs" in other:
            names = [step["inputs"][0] if name == step["out"] else name for name in other["inputs"]]
            later.append({**other, "inputs": names})
        else:
            later.append(other)
        current = current and other["out"] != step["out"]
    return program[:number] + later
    ### END SOLUTION


def shrink(program: list[dict], run) -> list[dict]:
    """The smallest program that fails with the same message."""
    ### BEGIN SOLUTION
    message = run(program)

    def smaller(program):
        for number in reversed(range(len(program))):
            yield without(program, number)
        for number in reversed(range(len(program))):
            if "inputs" in program[number]:
                yield without_detour(program, number)
        places = [(number, side) for number, step in enumerate(program) if "size" in step for side in (0, 1)]
        numbers = [program[number]["size"][side] for number, side in places]
        groups = [[place for place, one in zip(places, numbers, strict=True) if one == value] for value in set(numbers)]
        for group in groups + [[place] for place in places]:
            value = program[group[0][0]]["size"][group[0][1]]
            for less in (value // 2, value - 1):
                if less >= 1:
                    yield resized(program, group, less)

    def resized(program, group, value):
        program = [{**step, "size": list(step["size"])} if "size" in step else step for step in program]
        for number, side in group:
            program[number]["size"][side] = value
        return program

    while True:
        for candidate in smaller(program):
            if run(candidate) == message:
                program = candidate
                break
        else:
            return program
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "minimal_reproducer", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u8.minimal_reproducer(shrink)

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_commit_series-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 1. A series that can be reviewed
#
# *10 minutes, medium.* You have `softcap` on your disk: entries, kernel for the CPU, derivative, OpInfo, documentation, and a
# spelling mistake that you mended in a file nearby. Plan the commits of your pull request, in at most 150 words: what's in
# each, in which order, and the first line of each message. Say for each commit what a reviewer could run to see that it's
# good. What do you leave out, and where does it go?

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_commit_series", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"each commit is one idea, builds, and passes its tests": 4, "messages say what changes and why, in the imperative": 3, "unrelated changes go elsewhere; something to run for each commit": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_better_error-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 2. An error message as a first contribution
#
# *10 minutes, medium.* Find an error message of PyTorch that left you none the wiser, or make one: call `torch` with
# something wrong until it answers in riddles. Show the call and the message. Write a better one, and say in at most 150
# words where in the source it's raised, which test you'd add, and what could speak against your wording.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_better_error", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"a call that anybody can run, with its message": 2, "the new message names the argument, what was expected, what came, and what to do": 4, "the place in the source, and a test that pins the message down": 4}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex18-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and where the
# feedback page lies.

# %%
# submit("ex_18")
