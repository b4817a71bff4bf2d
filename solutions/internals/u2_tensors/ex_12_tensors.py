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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex12-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 12: tensors
#
# Six tasks and two questions, about three and a half hours. First you write down what PyTorch does with sizes, strides and
# offsets, in plain Python: no tensor is needed, only whole numbers. That is also how you would debug a kernel that reads the
# wrong element. In the last task you read such numbers in C++, where PyTorch keeps them.
#
# Each task has a cell for your code and a check below it that answers at once. The check tries visible cases; `submit` at
# the end also tries hidden ones: sizes of 0 and 1, tensors without any dimension, enormous sizes, random programs.

# %% nbgrader={"grade": false, "grade_id": "ex12-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder import check, submit
from fxopt_workbench.torch_sources import source

# %% [markdown] nbgrader={"grade": false, "grade_id": "strided_tensor-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. A strided tensor
#
# *35 minutes, medium.* Why can `x.T` of a gigabyte take no time? Because it touches no element. Write `Strided`: a tensor
# over a flat list that works the same way. Each operation except the last two returns a new `Strided` over **the same list**,
# and takes no time, however large the sizes are.
#
# | operation | what it gives | raise `ValueError` when |
# | --- | --- | --- |
# | `select(dim, index)` | the tensor without `dim`, at that index | `dim` or `index` is out of range |
# | `slice(dim, start, stop, step)` | what `x[start:stop:step]` gives along `dim`; start and stop may be `None` | `dim` is out of range, `step` is below 1 |
# | `transpose(first, second)` | both dimensions swapped | a dimension is out of range |
# | `expand(sizes)` | dimensions of size 1 repeated up to `sizes`, new ones added in front; `-1` leaves an old one as it is | anything else would have to grow or shrink |
# | `is_contiguous()` | what PyTorch's `is_contiguous()` says | |
# | `element(index)` | the value at a tuple of indices | an index is missing, left over, or out of range |
#
# Dimensions and indices may be negative, as in Python: `-1` is the last. Where the size is 0 or 1 no stride is ever used, so
# write what you like there.
#
# For example, `Strided([0, 1, 2, 3, 4, 5], (2, 3), (3, 1)).slice(1, 1, None, 1)` has sizes `(2, 2)`, strides `(3, 1)` and
# offset 1.
#
# <details><summary>Hint 1: a question</summary>In the example, which of the six numbers moved, and why did the strides stay?</details>
# <details><summary>Hint 2: the idea</summary>Only three things ever change: sizes, strides, offset. Selecting and slicing move the offset by <code>start * stride</code>; a step multiplies the stride; an expanded dimension gets stride 0, so that every index reads the same place.</details>
# <details><summary>Hint 3: the shape</summary><code>start, stop, step = slice(start, stop, step).indices(size)</code> clamps like Python does, and <code>len(range(start, stop, step))</code> is the new size. For contiguity walk from the last dimension, skip those of size 1, and multiply up the stride you expect; a tensor without elements always is.</details>


# %% nbgrader={"grade": false, "grade_id": "strided_tensor-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
class Strided:
    """A tensor over a flat list: which elements belong to it, and in what order, is up to three sets of numbers."""

    def __init__(self, data: list, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int = 0):
        self.data, self.sizes, self.strides, self.offset = data, tuple(sizes), tuple(strides), offset

    def select(self, dim: int, index: int) -> "Strided":
        """The tensor without one dimension, at one index of it."""
        ### BEGIN SOLUTION
        dim = self._wrap(dim, len(self.sizes))
        index = self._wrap(index, self.sizes[dim])
        sizes = self.sizes[:dim] + self.sizes[dim + 1 :]
        strides = self.strides[:dim] + self.strides[dim + 1 :]
        return Strided(self.data, sizes, strides, self.offset + index * self.strides[dim])
        ### END SOLUTION

    def slice(self, dim: int, start: int | None, stop: int | None, step: int) -> "Strided":
        """Every `step`-th index of a dimension from `start` up to but not including `stop`."""
        ### BEGIN SOLUTION
        dim = self._wrap(dim, len(self.sizes))
        if step < 1:
            raise ValueError(f"a step of {step} would need a negative stride")
        chosen = range(*slice(start, stop, step).indices(self.sizes[dim]))
        sizes, strides = list(self.sizes), list(self.strides)
        sizes[dim], strides[dim] = len(chosen), self.strides[dim] * step
        return Strided(self.data, sizes, strides, self.offset + chosen.start * self.strides[dim])
        ### END SOLUTION

    def transpose(self, first: int, second: int) -> "Strided":
        """Two dimensions swapped."""
        ### BEGIN SOLUTION
        first, second = (self._wrap(dim, len(self.sizes)) for dim in (first, second))
        sizes, strides = list(self.sizes), list(self.strides)
        for numbers in (sizes, strides):
            numbers[first], numbers[second] = numbers[second], numbers[first]
        return Strided(self.data, sizes, strides, self.offset)
        ### END SOLUTION

    def expand(self, sizes: tuple[int, ...]) -> "Strided":
        """Dimensions of size 1 repeated, and new ones in front, without a copy."""
        ### BEGIN SOLUTION
        new = len(sizes) - len(self.sizes)
        if new < 0:
            raise ValueError(f"{self.sizes} has more dimensions than {sizes}")
        expanded, strides = [], []
        for dim, size in enumerate(sizes):
            old, stride = (self.sizes[dim - new], self.strides[dim - new]) if dim >= new else (1, 0)
            if size == -1 and dim >= new:
                size = old
            if size < 0 or (size != old and old != 1):
                raise ValueError(f"dimension {dim} cannot go from {old} to {size}")
            expanded.append(size)
            strides.append(stride if size == old else 0)
        return Strided(self.data, expanded, strides, self.offset)
        ### END SOLUTION

    def is_contiguous(self) -> bool:
        """Whether the elements lie without gaps, the last dimension fastest."""
        ### BEGIN SOLUTION
        expected = 1
        if 0 in self.sizes:
            return True
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True
        ### END SOLUTION

    def element(self, index: tuple[int, ...]):
        """The value at one index of every dimension."""
        ### BEGIN SOLUTION
        if len(index) != len(self.sizes):
            raise ValueError(f"{len(self.sizes)} indices are needed, not {len(index)}")
        place = self.offset
        for one, size, stride in zip(index, self.sizes, self.strides, strict=True):
            place += self._wrap(one, size) * stride
        return self.data[place]
        ### END SOLUTION

    @staticmethod
    def _wrap(index: int, size: int) -> int:
        """An index counted from the front. A helper of your own; use it or delete it."""
        ### BEGIN SOLUTION
        if not -size <= index < size:
            raise ValueError(f"{index} is out of range for {size}")
        return index % size
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "strided_tensor", "locked": true, "points": 25, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u2.strided_tensor(Strided)

# %% [markdown] nbgrader={"grade": false, "grade_id": "view_strides-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. When `view` must refuse
#
# *35 minutes, hard.* Sooner or later everybody meets "view size is not compatible with input tensor's size and stride". A view
# may not copy, so it must find strides that visit the same elements in the same order. Write `view(sizes, strides, wanted)`,
# which returns `(new_sizes, new_strides)`, or raises `ValueError` where PyTorch's `view` refuses.
#
# One of the `wanted` sizes may be `-1`: whatever makes the number of elements come out. Where that isn't one definite number,
# PyTorch refuses.
#
# For example, `view((4, 6), (6, 1), (2, 2, 6))` is `((2, 2, 6), (12, 6, 1))`, and `view((4, 6), (12, 1), (24,))` is refused:
# after the sixth element comes a gap. But `view((4, 6), (12, 2), (24,))` is `((24,), (2,))`.
#
# Strides aren't looked at where a size is 1, nor where there are no elements.
#
# <details><summary>Hint 1: a question</summary>When do two neighbouring dimensions step through memory like one single dimension of <code>6 * 4</code>?</details>
# <details><summary>Hint 2: the idea</summary>Two neighbours act as one when <code>stride[i] == stride[i + 1] * size[i + 1]</code>. Merge as far as that holds (dimensions of size 1 never stand in the way). Each block that is left is one evenly spaced run, and new sizes may cut a run up but never reach across two.</details>
# <details><summary>Hint 3: the shape</summary>Deal with no elements first. Then make a list of blocks <code>[size, stride]</code>. Go through the wanted sizes from the last: take the last block, hand out its stride, multiply the stride and divide the size by what you handed out; a remainder means refuse; when the block is used up, take the next.</details>


# %% nbgrader={"grade": false, "grade_id": "view_strides-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
from math import prod


def view(
    sizes: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides of the view of that shape; `ValueError` where only a copy could have it."""
    ### BEGIN SOLUTION
    count = prod(sizes)
    if wanted.count(-1) > 1 or any(size < -1 for size in wanted):
        raise ValueError(f"{wanted} is not a shape")
    if -1 in wanted:
        rest = prod(size for size in wanted if size != -1)
        if rest == 0 or count % rest:
            raise ValueError(f"no definite size takes the place of -1 in {wanted}")
        wanted = tuple(count // rest if size == -1 else size for size in wanted)
    if prod(wanted) != count:
        raise ValueError(f"{wanted} does not have {count} elements")
    if count == 0:
        return wanted, (1,) * len(wanted)
    blocks: list[list[int]] = []
    for size, stride in zip(sizes, strides, strict=True):
        if size == 1:
            continue
        if blocks and blocks[-1][1] == stride * size:
            blocks[-1] = [blocks[-1][0] * size, stride]
        else:
            blocks.append([size, stride])
    found = []
    left, step = 1, 1
    for size in reversed(wanted):
        if size == 1:
            found.append(step)
            continue
        if left == 1:
            left, step = blocks.pop()
        if left % size:
            raise ValueError(f"a size of {size} would reach across a gap")
        found.append(step)
        left, step = left // size, step * size
    return wanted, tuple(reversed(found))
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "view_strides", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u2.view_strides(view)

# %% [markdown] nbgrader={"grade": false, "grade_id": "common_elements-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. Do two views meet?
#
# *35 minutes, hard.* Before you write in place, you want to know whether another view will see it. Comparing address ranges
# isn't enough: the even and the odd columns of a matrix share a range and not one element. A view is a tuple
# `(sizes, strides, offset)` here. Write two functions:
#
# | function | what it returns |
# | --- | --- |
# | `common_element(first, second)` | a position in memory that both views touch; `None` where there is none |
# | `touched_twice(view)` | a position that two different indices of the view lead to; `None` where there is none |
#
# Any such position is right. Strides are 0 or more, a view has at most three dimensions, and **at most one of them is longer
# than 8**. That one may have a million million elements (`10**12`), so you can't walk along it: be exact, and quick.
#
# For example, `common_element(((5,), (2,), 0), ((5,), (3,), 1))` may be 4, and `touched_twice(((3, 4), (1, 1), 0))` may be 1.
#
# <details><summary>Hint 1: a question</summary>For <code>offset + 6 * i == other + 4 * j</code> to have a solution in whole numbers, what must divide <code>other - offset</code>?</details>
# <details><summary>Hint 2: the idea</summary>Try every combination of the short dimensions: there are at most 64 for each view. What is left is one long dimension on each side, <code>s * i - t * j == c</code>. It has whole solutions exactly if <code>gcd(s, t)</code> divides <code>c</code>; then one of them is found with a modular inverse, and the smallest one that is not negative tells whether it fits the sizes.</details>
# <details><summary>Hint 3: the shape</summary><code>g = gcd(s, t)</code>, <code>i = c // g * pow(s // g, -1, t // g) % (t // g)</code>, then raise <code>i</code> by whole steps of <code>t // g</code> until <code>j = (s * i - c) // t</code> is not negative (one division, no loop). Treat <code>s == 0</code> and <code>t == 0</code> apart. For one view, try every <em>difference</em> of two short indices: the long one must make up for it.</details>


# %% nbgrader={"grade": false, "grade_id": "common_elements-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
from itertools import product
from math import gcd

View = tuple[tuple[int, ...], tuple[int, ...], int]


def common_element(first: View, second: View) -> int | None:
    """A position that both views touch; `None` where there is none."""
    ### BEGIN SOLUTION
    starts, size, s = split(first)
    others, length, t = split(second)
    for start in starts:
        for other in others:
            i = meeting(s, size, t, length, other - start)
            if i is not None:
                return start + s * i
    return None
    ### END SOLUTION


def touched_twice(view: View) -> int | None:
    """A position that two different indices of a view lead to; `None` where there is none."""
    ### BEGIN SOLUTION
    sizes, strides, offset = view
    if 0 in sizes:
        return None
    long = max(range(len(sizes)), key=lambda dim: sizes[dim], default=None)
    ranges = [range(1) if dim == long else range(1 - size, size) for dim, size in enumerate(sizes)]
    for difference in product(*ranges):
        apart = sum(d * stride for d, stride in zip(difference, strides, strict=True))
        steps = list(difference)
        if long is None:
            return None
        if strides[long] == 0:
            if apart:
                continue
            steps[long] = 1 if sizes[long] > 1 else 0
        elif apart % strides[long] or abs(apart // strides[long]) >= sizes[long]:
            continue
        else:
            steps[long] = -(apart // strides[long])
        if any(steps):
            return offset + sum(max(step, 0) * stride for step, stride in zip(steps, strides, strict=True))
    return None
    ### END SOLUTION


# Helpers of your own go here.
def split(view: View) -> tuple[list[int], int, int]:
    """Where the long dimension starts for each index of the others, its size, and its stride."""
    ### BEGIN SOLUTION
    sizes, strides, offset = view
    if 0 in sizes:
        return [], 0, 0
    if not sizes:
        return [offset], 1, 0
    long = max(range(len(sizes)), key=lambda dim: sizes[dim])
    ranges = [range(1) if dim == long else range(size) for dim, size in enumerate(sizes)]
    starts = {offset + sum(i * stride for i, stride in zip(index, strides, strict=True)) for index in product(*ranges)}
    return sorted(starts), sizes[long], strides[long]
    ### END SOLUTION


def meeting(s: int, size: int, t: int, length: int, c: int) -> int | None:
    """The smallest `i` below `size` with `s * i - t * j == c` for a `j` below `length`."""
    ### BEGIN SOLUTION
    if s == 0:
        fits = c == 0 if t == 0 else -c % t == 0 and 0 <= -c // t < length
        return 0 if fits else None
    if t == 0:
        return c // s if c % s == 0 and 0 <= c // s < size else None
    g = gcd(s, t)
    if c % g:
        return None
    period = t // g
    i = c // g * pow(s // g, -1, period) % period
    lowest = max(0, -(-c // s))
    if i < lowest:
        i += -(-(lowest - i) // period) * period
    return i if i < size and (s * i - c) // t < length else None
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "common_elements", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u2.common_elements(common_element, touched_twice)

# %% [markdown] nbgrader={"grade": false, "grade_id": "memory_formats-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. Which memory format is it?
#
# *25 minutes, medium.* A tensor has no field that says "channels last". PyTorch looks at the strides and guesses, every time,
# and the guess decides which kernel runs. Write three functions for images (batch, channels, height, width) and volumes
# (batch, channels, depth, height, width). The formats are called `"contiguous"` and `"channels_last"` in both cases.
#
# | function | what it returns |
# | --- | --- |
# | `channels_last_strides(sizes)` | the strides of a new tensor in channels-last order: each is the product of all faster sizes, also where one of them is 0 |
# | `formats_that_fit(sizes, strides)` | the list of formats for which `is_contiguous(memory_format=…)` is true, in the order above; it may hold both, or none |
# | `suggested_format(sizes, strides)` | the one format that PyTorch settles on |
#
# For the second, strides of dimensions of size 1 don't count. Without elements `"contiguous"` always fits; `"channels_last"` is
# checked as ever. For the third, read the rule in the C++ below; for volumes it walks `{1, 4, 3, 2, 0}`, and whatever isn't
# channels last is `"contiguous"`.
#
# For example, `formats_that_fit((2, 1, 3, 4), (12, 1, 4, 1))` is `["contiguous", "channels_last"]`, and the suggested format is
# `"channels_last"`.
#
# <details><summary>Hint 1: a question</summary>Which dimension is the fastest in channels last, which one comes next, and what does that order look like as a list of dimension numbers?</details>
# <details><summary>Hint 2: the idea</summary>All three functions walk the same list: channels, width, height, (depth,) batch. The first multiplies sizes up, the second compares with those products, the third only asks that no stride is smaller than what the dimensions before it cover.</details>
# <details><summary>Hint 3: the shape</summary><code>order = (1, *range(len(sizes) - 1, 1, -1), 0)</code>; then <code>expected = 1; for d in order: … expected *= sizes[d]</code>. The third function is the C++ loop, line by line.</details>

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "memory_formats-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
source("c10/core/MemoryFormat.h", "is_channels_last_strides_2d_s4")


# %% nbgrader={"grade": false, "grade_id": "memory_formats-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def channels_last_strides(sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a new tensor in channels-last order."""
    ### BEGIN SOLUTION
    strides, expected = [0] * len(sizes), 1
    for dim in (1, *range(len(sizes) - 1, 1, -1), 0):
        strides[dim] = expected
        expected *= sizes[dim]
    return tuple(strides)
    ### END SOLUTION


def formats_that_fit(sizes: tuple[int, ...], strides: tuple[int, ...]) -> list[str]:
    """The formats in which a tensor of these strides is contiguous."""
    ### BEGIN SOLUTION
    found = []
    orders = {"contiguous": range(len(sizes) - 1, -1, -1), "channels_last": (1, *range(len(sizes) - 1, 1, -1), 0)}
    for name, order in orders.items():
        expected, fits = 1, True
        for dim in order:
            fits = fits and (sizes[dim] == 1 or strides[dim] == expected)
            expected *= sizes[dim]
        if fits or (name == "contiguous" and 0 in sizes):
            found.append(name)
    return found
    ### END SOLUTION


def suggested_format(sizes: tuple[int, ...], strides: tuple[int, ...]) -> str:
    """The format that PyTorch reads from strides, where they leave a choice too."""
    ### BEGIN SOLUTION
    if strides[1] == 0 or 0 in sizes:
        return "contiguous"
    least = 0
    for dim in (1, *range(len(sizes) - 1, 1, -1), 0):
        if strides[dim] < least or (dim == 0 and least == strides[1]):
            return "contiguous"
        least = strides[dim] * sizes[dim]
    return "channels_last"
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "memory_formats", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u2.memory_formats(channels_last_strides, formats_that_fit, suggested_format)

# %% [markdown] nbgrader={"grade": false, "grade_id": "broadcast_strides-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 5. Broadcasting is a choice of strides
#
# *20 minutes, easy.* Adding a row to a matrix copies nothing: the row gets a stride of 0 and is read again for each row of the
# matrix. Write `broadcast(operands)`, which takes a list of pairs `(sizes, strides)` and returns `(sizes, strides)`: the
# shape that all of them are brought to, and a list with the strides of each operand in that shape.
#
# Where the shapes do not go together, raise a `ValueError` whose message begins with the dimension, counted from the end:
# `dimension -2: …`. If several do not, name the one nearest to the end.
#
# For example, `broadcast([((4, 3), (3, 1)), ((3,), (1,))])` is `((4, 3), [(3, 1), (0, 1)])`.
#
# As before, a stride is not looked at where the size in the result is 0 or 1, nor where the result has no elements.
#
# <details><summary>Hint 1: a question</summary>Write <code>(4, 3)</code> and <code>(3,)</code> below each other, so that they broadcast. At which end do they line up?</details>
# <details><summary>Hint 2: the idea</summary>Go through dimensions from the end. A missing one counts as size 1. Sizes of 1 give way; all others must agree, and 0 is a size like any other. Whoever gave way gets stride 0.</details>
# <details><summary>Hint 3: the shape</summary><code>for dim in range(-1, -rank - 1, -1)</code>: collect the set of sizes that are not 1; more than one: raise; none: 1. Then a second pass for the strides.</details>


# %% nbgrader={"grade": false, "grade_id": "broadcast_strides-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def broadcast(
    operands: list[tuple[tuple[int, ...], tuple[int, ...]]],
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """The common shape, and the strides with which each operand has it."""
    ### BEGIN SOLUTION
    rank = max(len(sizes) for sizes, _ in operands)
    shape: list[int] = []
    strides: list[list[int]] = [[] for _ in operands]
    for dim in range(-1, -rank - 1, -1):
        own = [sizes[dim] if -dim <= len(sizes) else 1 for sizes, _ in operands]
        others = {size for size in own if size != 1}
        if len(others) > 1:
            raise ValueError(f"dimension {dim}: sizes {sorted(others)} do not go together")
        size = others.pop() if others else 1
        shape.insert(0, size)
        for number, (_, given) in enumerate(operands):
            strides[number].insert(0, given[dim] if own[number] == size and -dim <= len(given) else 0)
    return tuple(shape), [tuple(one) for one in strides]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "broadcast_strides", "locked": true, "points": 10, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u2.broadcast_strides(broadcast)

# %% [markdown] nbgrader={"grade": false, "grade_id": "inside_a_tensor-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 6. Inside a tensor, from C++
#
# *30 minutes, medium.* A gigabyte doesn't come back, and you want to know who still holds it. Python can't look without
# touching: the object that `x.untyped_storage()` gives you holds the storage, too. So read the numbers where PyTorch keeps
# them. Write the C++ of an operator `inside(Tensor x) -> (int, int, int?)` in the namespace `u2`:
#
# | result | what it is |
# | --- | --- |
# | offset | where `x` begins in its storage, in elements |
# | users | how many hold that storage |
# | version | how often its memory was written in place; `None` where the tensor has no counter, as when it was made in inference mode |
#
# It works on any device, `meta` included, and for tensors without elements. A tensor that has no storage, such as a sparse
# one, must be refused with an error.
#
# For example, after `x = torch.zeros(6)`, `y = x[2:]` and `y.add_(1)`, `inside(y)` gives `(2, 2, 1)`. The cells below
# quote the lines that keep the two counts.
#
# <details><summary>Hint 1: a question</summary><code>y = x[2:]</code> makes a second <code>TensorImpl</code> over the same storage. Which of the objects can tell you that there are two users?</details>
# <details><summary>Hint 2: the idea</summary>Ask the <code>TensorImpl</code> for the offset and the counter, and the storage that it refers to for its users. If you copy a <code>c10::Storage</code>, you become a user yourself, so take it by reference. And the counter may be missing: ask before you read it.</details>
# <details><summary>Hint 3: the shape</summary>The function takes <code>const at::Tensor&amp; x</code> and returns <code>std::tuple&lt;int64_t, int64_t, std::optional&lt;int64_t&gt;&gt;</code>. It begins with <code>x.unsafeGetTensorImpl()</code>, as in the lesson, and is registered as there: <code>m.def("…", &amp;inside)</code>, which names no device.</details>

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "inside_a_tensor-look", "locked": true, "schema_version": 3, "solution": false, "task": false}
source("c10/core/Storage.h", "use_count")

# %% tags=["not-graded"] nbgrader={"grade": false, "grade_id": "inside_a_tensor-look-too", "locked": true, "schema_version": 3, "solution": false, "task": false}
source("c10/core/TensorImpl.h", "current_version")


# %% nbgrader={"grade": false, "grade_id": "inside_a_tensor-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def inside_source() -> str:
    """The C++ source: a string in three quotes, with an r in front."""
    ### BEGIN SOLUTION
    return r"""
#include <ATen/core/Tensor.h>
#include <torch/library.h>

std::tuple<int64_t, int64_t, std::optional<int64_t>> inside(const at::Tensor& x) {
  const c10::TensorImpl* tensor = x.unsafeGetTensorImpl();
  const c10::VariableVersion& counter = tensor->version_counter();
  std::optional<int64_t> version;
  if (counter.enabled()) version = counter.current_version();
  return {tensor->storage_offset(), tensor->storage().use_count(), version};
}

TORCH_LIBRARY(u2, m) {
  m.def("inside(Tensor x) -> (int, int, int?)", &inside);
}
"""
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "inside_a_tensor", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u2.inside_a_tensor(inside_source)

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_slow_kernel-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 1. Same elements, many times slower
#
# *10 minutes, medium.* A colleague has two matrices of 4000 by 4000 and computes `a + b.t()`. It takes several times as long as
# `a + b`; `a.t() + b.t()` doesn't. Explain in at most 150 words how layout alone can do all this. Measure it on your machine
# and give the figures. Say when you would write `b = b.t().contiguous()` first, and when that does not pay.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_slow_kernel", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"strides decide which elements are neighbours in memory": 3, "cache lines: bytes that are fetched and not used": 3, "a measurement of one's own that can be repeated": 2, "when a copy pays: how often the result is read": 2}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_gather-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 2. Why is `x[rows]` a copy?
#
# *10 minutes, medium.* `x[2:5]` is a view, `x[[2, 3, 4]]` is not, although both give the same values. Explain in at most 120
# words why the second cannot be a view in general, what PyTorch would have to look at to find that here it could be, and name one
# bug that comes from taking one for the other. Show it in three lines of code.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_gather", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"one stride for each dimension: only evenly spaced elements": 4, "the indices are data: known only when the kernel reads them": 3, "a bug, shown by code that runs (a lost or an unwanted write)": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex12-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and where the
# feedback page lies.

# %%
# submit("ex_12")
