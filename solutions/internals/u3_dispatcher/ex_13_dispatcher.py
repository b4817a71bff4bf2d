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

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex13-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 13: the dispatcher
#
# Five tasks and two questions, a bit under three hours. You build a dispatcher, predict what PyTorch's does, stand in its
# way with a mode, give it a new kind of tensor, and make two operators that a compiler sees very differently.
#
# Each task has a cell for your code and a check below it that answers at once. The check tries visible cases; `submit` at
# the end also tries hidden ones: other key sets, other blocks, other networks.

# %% nbgrader={"grade": false, "grade_id": "ex13-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder import check, submit

# %% [markdown] nbgrader={"grade": false, "grade_id": "own_dispatcher-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. A dispatcher of your own
#
# Once you've written a dispatcher, PyTorch's error messages read like your own. These are its rules, for a small set of keys.
#
# **What a call does.** It unites the key sets of the arguments, adds what the thread includes, takes away what it excludes, and
# takes out every functionality whose entry is `FALLTHROUGH`. Then it runs the kernel for what is left.
#
# **What fills the entry for a key.** The first of these that the operator has:
#
# | | kernel registered for | fills |
# | --- | --- | --- |
# | 1 | exactly this key | |
# | 2 | `CompositeExplicitAutograd` | backend keys (`CPU`, `SparseCUDA`, …) and `Undefined` |
# | 3 | `CompositeImplicitAutograd` | the same, and autograd keys (`AutogradCPU`, …) with the two exceptions below |
# | 4 | `Autograd` | autograd keys |
# | 5 | the fallback for the key | |
#
# Row 3 leaves out `AutogradCPU` where the operator has a kernel for `CPU`, and likewise for CUDA: that kernel needs autograd
# above it. It leaves out all autograd keys where the operator has a `CompositeExplicitAutograd`.
#
# If nothing fills it, raise a `NotImplementedError` that names the operator and the key.

# %% [markdown] nbgrader={"grade": false, "grade_id": "own_dispatcher-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *40 minutes, hard.* Write that dispatcher. A set of keys holds functionalities and backends, which the answer cell lists from
# the lowest to the highest.
#
# | function or method | what it does |
# | --- | --- |
# | `runtime_key(keys)` | the key to look up: the highest functionality, named together with the highest backend (`"CPU"`, `"SparseCPU"`, `"AutogradCPU"`) if it is one of `PER_BACKEND`; `"Undefined"` if there is no functionality |
# | `below(keys, functionality)` | the keys without that functionality and all above it; backends stay |
# | `register(operator, key, kernel)` | a kernel for a key or an alias; it counts from then on |
# | `register_fallback(key, kernel)` | a kernel for all operators that have nothing else for the key; it counts from then on, too |
# | `call(operator, keysets, value)` | a call whose arguments have these key sets, by the rules above |
# | `redispatch(operator, keys, value)` | run the kernel for these keys, as they are |
# | `including(functionality)`, `excluding(functionality)` | for a `with` block: changes what the thread includes or excludes |
#
# A kernel is a function `kernel(operator, keys, value)`, and gets the keys that are left. Its result is the call's.
#
# For example, a tensor `{CPU, Dense, Autograd}` meets an operator with kernels for `CPU` and `Autograd`: the second one
# runs, and may call `redispatch(operator, below(keys, "Autograd"), value)` to get to the first.
#
# <details><summary>Hint 1: a question</summary>A thread begins by including two functionalities and excluding one. Which calls would go wrong if <code>redispatch</code> added and took them away as well?</details>
# <details><summary>Hint 2: the idea</summary>Keep two dictionaries: the kernels of each operator by key, and the fallbacks. Compute an entry when you need it, by going down the five rows. Falling through is decided for one functionality at a time, each with the highest backend.</details>
# <details><summary>Hint 3: the shape</summary><code>def entry(self, operator, key)</code>: five <code>if</code>s, each with a <code>return</code>. <code>call</code> makes the set and ends with <code>return self.redispatch(…)</code>. A method under <code>@contextmanager</code> remembers the old set, puts a <em>new</em> set in its place, and restores the old one in <code>finally</code>.</details>


# %% nbgrader={"grade": false, "grade_id": "own_dispatcher-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
FUNCTIONALITIES = ("Dense", "Sparse", "BackendSelect", "ADInplaceOrView", "Autograd", "AutocastCPU")
BACKENDS = ("CPU", "CUDA")
PER_BACKEND = ("Dense", "Sparse", "Autograd")  # The other functionalities are keys by themselves.
FALLTHROUGH = "fallthrough"

from contextlib import contextmanager


def runtime_key(keys: frozenset[str]) -> str:
    """The key under which a kernel is looked up."""
    ### BEGIN SOLUTION
    found = [functionality for functionality in FUNCTIONALITIES if functionality in keys]
    if not found:
        return "Undefined"
    if found[-1] not in PER_BACKEND:
        return found[-1]
    backend = [backend for backend in BACKENDS if backend in keys][-1]
    return backend if found[-1] == "Dense" else found[-1] + backend
    ### END SOLUTION


def below(keys: frozenset[str], functionality: str) -> frozenset[str]:
    """The keys without a functionality and all above it."""
    ### BEGIN SOLUTION
    return keys - set(FUNCTIONALITIES[FUNCTIONALITIES.index(functionality) :])
    ### END SOLUTION


class Dispatcher:
    """Chooses a kernel for each call."""

    def __init__(self):
        self.included = frozenset({"BackendSelect", "ADInplaceOrView"})
        self.excluded = frozenset({"AutocastCPU"})
        self.registered = {}
        self.fallbacks = {}

    def register(self, operator: str, key: str, kernel) -> None:
        """Enter a kernel (or FALLTHROUGH) for a key or an alias."""
        ### BEGIN SOLUTION
        self.registered.setdefault(operator, {})[key] = kernel
        ### END SOLUTION

    def register_fallback(self, key: str, kernel) -> None:
        """Enter a kernel (or FALLTHROUGH) for all operators that have nothing else for the key."""
        ### BEGIN SOLUTION
        self.fallbacks[key] = kernel
        ### END SOLUTION

    def call(self, operator: str, keysets: list[frozenset[str]], value):
        """Call an operator whose arguments have these keys."""
        ### BEGIN SOLUTION
        keys = (frozenset().union(*keysets) | self.included) - self.excluded
        backends = keys & frozenset(BACKENDS)
        falls = {key for key in keys - backends if self.entry(operator, runtime_key(backends | {key})) == FALLTHROUGH}
        return self.redispatch(operator, keys - falls, value)
        ### END SOLUTION

    def redispatch(self, operator: str, keys: frozenset[str], value):
        """Run the kernel for these keys."""
        ### BEGIN SOLUTION
        key = runtime_key(keys)
        kernel = self.entry(operator, key)
        if kernel is None:
            raise NotImplementedError(f"{operator} has no kernel for {key}")
        return kernel(operator, keys, value)
        ### END SOLUTION

    @contextmanager
    def including(self, functionality: str):
        """For the block, the thread includes a functionality."""
        ### BEGIN SOLUTION
        before = self.included
        self.included = before | {functionality}
        try:
            yield
        finally:
            self.included = before
        ### END SOLUTION

    @contextmanager
    def excluding(self, functionality: str):
        """For the block, the thread excludes a functionality."""
        ### BEGIN SOLUTION
        before = self.excluded
        self.excluded = before | {functionality}
        try:
            yield
        finally:
            self.excluded = before
        ### END SOLUTION

    # Further methods of your own go here.
    def entry(self, operator: str, key: str):
        """The kernel for a key; None if there is none."""
        ### BEGIN SOLUTION
        own = self.registered.get(operator, {})
        explicit, implicit = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
        autograd = key.startswith("Autograd")
        backend = key == "Undefined" or (key.endswith(BACKENDS) and not key.startswith("Auto"))
        if key in own:
            return own[key]
        if backend and explicit in own:
            return own[explicit]
        steps_back = explicit in own or key.removeprefix("Autograd") in own
        if implicit in own and (backend or (autograd and not steps_back)):
            return own[implicit]
        if autograd and "Autograd" in own:
            return own["Autograd"]
        return self.fallbacks.get(key)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "own_dispatcher", "locked": true, "points": 25, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u3.own_dispatcher(Dispatcher, runtime_key, below)

# %% [markdown] nbgrader={"grade": false, "grade_id": "predict_kernels-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. Which kernels run?
#
# *25 minutes, medium.* An error names a key you didn't expect. Why that one? Predict it. An operator has a kernel for each of
# these keys, and each kernel writes down its name and goes on to the next lower key:
#
# `FuncTorchBatched`, `AutocastCPU`, `AutogradCPU`, `AutogradMeta`, `ADInplaceOrView`, `SparseMeta`, `SparseCPU`, `Meta`, `CPU`.
#
# Write `kernels(tensors, blocks)`: the names that it writes down, in order. A tensor is a dictionary:
#
# | name | values |
# | --- | --- |
# | `"device"`, `"layout"` | `"cpu"` or `"meta"`; `"strided"` or `"sparse"` |
# | `"requires_grad"` | true or false |
# | `"made"` | `"outside"` or `"inside"` of inference mode; or what was taken there from a tensor of the other side: `"view inside"`, `"clone inside"`, `"clone outside"` |
# | `"batched"` | whether it's one that `vmap` maps over |
#
# `blocks` names the `with` blocks around the call, the outermost first: `"no_grad"`, `"inference_mode"`, `"autocast"` (for the
# CPU), `"vmap"`, and `"inference_mode off"` and `"autocast off"`, which switch off. `"vmap"` and `"autocast"` never come
# together.
#
# For example, an ordinary tensor within no block at all gives `["AutogradCPU", "ADInplaceOrView", "CPU"]`.
#
# <details><summary>Hint 1: a question</summary>For each kind of key ask twice: do the tensors carry it, and what does the thread do about it?</details>
# <details><summary>Hint 2: the idea</summary>Print <code>torch._C._dispatch_keys(tensor)</code> for one tensor of each kind, and both of <code>torch._C._dispatch_tls_local_include_set()</code> and <code>torch._C._dispatch_tls_local_exclude_set()</code> within each block. <code>ADInplaceOrView</code> stands in two places.</details>
# <details><summary>Hint 3: the shape</summary>Start with an empty list and add at most four names, one <code>if</code> each: batched, autocast, autograd, views. The last name is made of the layout and the device. Of each kind of block only the last one in the list counts.</details>


# %% nbgrader={"grade": false, "grade_id": "predict_kernels-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def kernels(tensors: list[dict], blocks: list[str]) -> list[str]:
    """The kernels that run, in order."""
    ### BEGIN SOLUTION
    within_inference = [block for block in blocks if block.startswith("inference_mode")][-1:] == ["inference_mode"]
    autocast = [block for block in blocks if block.startswith("autocast")][-1:] == ["autocast"]
    ordinary = any(tensor["made"] in ("outside", "view inside", "clone outside") for tensor in tensors)
    device = "Meta" if any(tensor["device"] == "meta" for tensor in tensors) else "CPU"
    layout = "Sparse" if any(tensor["layout"] == "sparse" for tensor in tensors) else ""
    names = []
    if any(tensor["batched"] for tensor in tensors):
        names.append("FuncTorchBatched")
    if autocast and any(tensor["device"] == "cpu" for tensor in tensors):
        names.append("AutocastCPU")
    if ordinary and not within_inference:
        names.append(f"Autograd{device}")
    if ordinary or not within_inference:
        names.append("ADInplaceOrView")
    return [*names, f"{layout}{device}"]
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "predict_kernels", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u3.predict_kernels(kernels)

# %% [markdown] nbgrader={"grade": false, "grade_id": "recording_mode-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. A mode that writes everything down
#
# *20 minutes, easy.* When a model is slow or wrong, the first thing to know is which operators really run, and on which
# tensors. Write `Recorder`, a mode with a list `records`. Within its block, each operator that reaches the mode adds a pair:
#
# - the operator's name with its overload, such as `"aten.add.Tensor"`;
# - a list with the key set of every tensor among its arguments, in order, each as `str(torch._C._dispatch_keys(tensor))`.
#
# An operator that raises is written down, too. The program must compute the same as without the mode. A recorder that is
# entered again goes on with its list.
#
# For example, `torch.relu(torch.ones(2))` adds
# `("aten.relu.default", ["DispatchKeySet(CPU, ADInplaceOrView, AutogradCPU, AutocastCPU)"])`.
#
# <details><summary>Hint 1: a question</summary>In the lesson, one kind of mode saw <code>t</code> and <code>mm</code> where you wrote <code>linear</code>. Which method did it define?</details>
# <details><summary>Hint 2: the idea</summary>Arguments are a tree: tensors stand alone, in lists, next to <code>None</code>, and among the keyword arguments. <code>tree_leaves</code> makes it flat.</details>
# <details><summary>Hint 3: the shape</summary><code>def __torch_dispatch__(self, operator, types, args=(), kwargs=None)</code>: first find the tensors, then append, and at the end <code>return operator(…)</code> with everything that came in. Call <code>super().__init__()</code> before you make the list.</details>


# %% nbgrader={"grade": false, "grade_id": "recording_mode-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Recorder(TorchDispatchMode):
    """Writes down each operator with the keys of its tensors."""

    def __init__(self):
        super().__init__()
        self.records = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        ### BEGIN SOLUTION
        tensors = [one for one in tree_leaves((args, kwargs or {})) if isinstance(one, torch.Tensor)]
        self.records.append((str(operator), [str(torch._C._dispatch_keys(one)) for one in tensors]))
        return operator(*args, **(kwargs or {}))
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "recording_mode", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u3.recording_mode(Recorder)

# %% [markdown] nbgrader={"grade": false, "grade_id": "toy_backend-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. A device of your own
#
# A new chip needs a backend: kernels for the operators that reach it, and nothing else. Autograd, `linear` and the optimiser
# come along for free. See it on a device that calculates with whole numbers: `Fixed`, a kind of tensor that keeps its
# numbers as **ticks** of 1/256. A third is 85 ticks there, and three of them make 255: a tick less than 1.

# %% [markdown] nbgrader={"grade": false, "grade_id": "toy_backend-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *35 minutes, hard.* Write `Fixed`.
#
# - `Fixed(ticks, requires_grad)` takes the ticks as an int64 tensor, and `tensor.ticks` gives them back.
# - Each operator calculates with the exact numbers, ticks / 256 in double precision, as the CPU does. Its result is rounded to the nearest
#   tick by `torch.round`, and what is beyond -32768 or 32767 ticks stays at that limit. It's a `Fixed`.
# - An operator that writes in place changes the ticks of its first argument. Nobody writes through a view.
# - An operator that is not in `SUPPORTED` must be refused: `NotImplementedError`, with the operator's name, such as
#   `aten.sin.default`.
#
# A network is trained on it. It has linear layers, its loss is a sum of squares, and a step is
# `weight.sub_(weight.grad, alpha=rate)`. Look at what `linear` and its derivative turn into: no kernel of yours has these
# names.
#
# For example, `Fixed(torch.tensor([256]), False) / 3` has the ticks `[85]`.
#
# <details><summary>Hint 1: a question</summary>The mode in the lesson stood at the key <code>Python</code>. What differs when a <em>tensor</em> stands there, and not a block?</details>
# <details><summary>Hint 2: the idea</summary>One method serves all operators: turn each <code>Fixed</code> among the arguments into an ordinary tensor of double precision, call the operator on those, and turn the result into ticks. <code>tree_map_only(Fixed, …, (args, kwargs))</code> does the first step.</details>
# <details><summary>Hint 3: the shape</summary><code>__new__</code> is given below, and <code>__init__</code> keeps the ticks. In <code>__torch_dispatch__</code>: refuse, unwrap, call, round and clamp. <code>operator._schema.is_mutable</code> tells which operators write; for them, put the new ticks into <code>args[0]</code>.</details>


# %% nbgrader={"grade": false, "grade_id": "toy_backend-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import torch
from torch.utils._pytree import tree_map_only

TICKS = 256
SUPPORTED = {
    *(
        "aten.add.Tensor",
        "aten.sub.Tensor",
        "aten.mul.Tensor",
        "aten.mul.Scalar",
        "aten.div.Tensor",
        "aten.sub_.Tensor",
    ),
    *("aten.mm.default", "aten.addmm.default", "aten.relu.default", "aten.threshold_backward.default"),
    *("aten.sum.default", "aten.sum.dim_IntList", "aten.ones_like.default", "aten.neg.default"),
    *("aten.t.default", "aten.view.default", "aten.expand.default", "aten.detach.default"),
}


class Fixed(torch.Tensor):
    """A tensor on a device that calculates with whole numbers of ticks."""

    @staticmethod
    def __new__(cls, ticks, requires_grad=False):
        return torch.Tensor._make_wrapper_subclass(cls, ticks.shape, dtype=torch.float32, requires_grad=requires_grad)

    def __init__(self, ticks, requires_grad=False):
        ### BEGIN SOLUTION
        self.ticks = ticks
        ### END SOLUTION

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        ### BEGIN SOLUTION
        if str(operator) not in SUPPORTED:
            raise NotImplementedError(f"the device Fixed has no kernel for {operator}")
        plain, options = tree_map_only(Fixed, lambda one: one.ticks.double() / TICKS, (args, kwargs or {}))
        result = operator(*plain, **options)
        ticks = torch.round(result * TICKS).clamp(-32768, 32767).long()
        if operator._schema.is_mutable:
            args[0].ticks = ticks
            return args[0]
        return Fixed(ticks)
        ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "toy_backend", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u3.toy_backend(Fixed)

# %% [markdown] nbgrader={"grade": false, "grade_id": "composite_or_explicit-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 5. One formula, two operators
#
# *25 minutes, medium.* Should a compiler see your operator, or look through it? You decide when you register it. Write
# `define(library)`, which defines and registers two operators in a `torch.library.Library`. Both compute
# `x * sigmoid(slope * x)`, for a tensor `x` and a Python number:
#
# - `open(Tensor x, float slope) -> Tensor`: composite implicit, so that autograd and compilers see its parts;
# - `whole(Tensor x, float slope) -> Tensor`: explicit, with a derivative of its own. AOTAutograd records it as one operator. Its
#   gradient must be differentiable again.
#
# Both also run on the `meta` device. Then write `seen_by_each_stage()`: for each operator and each stage, whether it
# sees the `"operator"` or its `"parts"`. The stages are Dynamo's graph, a `TorchDispatchMode`, and AOTAutograd's graph of the
# forward pass.
#
# <details><summary>Hint 1: a question</summary>Somebody computes the sigmoid in the forward pass and saves it for the backward pass. Why is the second derivative wrong then?</details>
# <details><summary>Hint 2: the idea</summary>The two kernels may be the same function. Two things differ: the key under which you register it, and that the second one needs a formula for its gradient. Let the check print the graphs before you write the second function.</details>
# <details><summary>Hint 3: the shape</summary><code>library.define(schema)</code>, <code>library.impl(name, function, key)</code>, and <code>torch.library.register_autograd(f"{library.ns}::whole", backward, setup_context=…, lib=library)</code>. The formula returns one gradient for each argument, <code>None</code> for the number.</details>


# %% nbgrader={"grade": false, "grade_id": "composite_or_explicit-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
import torch


def define(library: torch.library.Library) -> None:
    """Define and register open and whole."""
    ### BEGIN SOLUTION
    library.define("open(Tensor x, float slope) -> Tensor")
    library.define("whole(Tensor x, float slope) -> Tensor")

    def kernel(x, slope):
        return x * torch.sigmoid(slope * x)

    def setup_context(ctx, inputs, output):
        x, ctx.slope = inputs
        ctx.save_for_backward(x)

    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(ctx.slope * x)
        return gradient * s * (1 + ctx.slope * x * (1 - s)), None

    library.impl("open", kernel, "CompositeImplicitAutograd")
    library.impl("whole", kernel, "CompositeExplicitAutograd")
    torch.library.register_autograd(f"{library.ns}::whole", backward, setup_context=setup_context, lib=library)
    ### END SOLUTION


def seen_by_each_stage() -> dict[tuple[str, str], str]:
    """For each pair of operator ("open", "whole") and stage ("dynamo", "mode", "aot"): "operator" or "parts"."""
    ### BEGIN SOLUTION
    found = dict.fromkeys(
        [(name, stage) for name in ("open", "whole") for stage in ("dynamo", "mode", "aot")], "operator"
    )
    return found | {("open", "mode"): "parts", ("open", "aot"): "parts"}
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "composite_or_explicit", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u3.composite_or_explicit(define, seen_by_each_stage)

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_unexpected_key-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 1. An error that names a key
#
# *10 minutes, medium.* A colleague moves half of a model to `meta` to save memory, forgets a sparse mask on the CPU, and
# reads *could not run 'aten::…' with arguments from the 'SparseMeta' backend*. No tensor of theirs is sparse **and** on meta.
# Explain in at most 150 words where that key comes from, how you'd find the two tensors that made it, and which of three
# remedies you'd choose: another kernel, another device, or another layout. Show the error in a few lines of code.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_unexpected_key", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"functionality and backend are joined from all arguments, each the highest": 4, "a way to find the two tensors: their key sets, a mode, a breakpoint": 3, "a remedy with its reason, and code that raises the error": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_new_backend-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 2. What does a new backend have to write?
#
# *10 minutes, medium.* You support a new chip. PyTorch has more than 3,000 operators. Count how many of them would work
# on your chip without a kernel of its own (copy `table` from the lesson into a cell below), and say in at most 150 words which
# ones those are, which kernels you'd write first, and what you do about an operator that nobody has written. What speaks
# against a fallback that copies everything to the CPU?

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_new_backend", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"a count of one's own, from the tables": 3, "composite kernels serve every backend; backends write the operators they end in": 4, "a choice for what is missing, with what it costs": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex13-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It tells you how many points you have and
# where to find the feedback page.

# %%
# submit("ex_13")
