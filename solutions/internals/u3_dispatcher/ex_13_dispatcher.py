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
from fxopt_workbench.torch_sources import source

# %% [markdown] nbgrader={"grade": false, "grade_id": "own_dispatcher-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. A dispatcher of your own
#
# *40 minutes, hard.* Once you've written a dispatcher, PyTorch's error messages read like your own. A set of keys holds
# functionalities and backends (see the constants in the answer cell, lowest first). Write:
#
# | function or method | what it does |
# | --- | --- |
# | `runtime_key(keys)` | the key to look up: the highest functionality, named together with the highest backend (`"CPU"`, `"SparseCPU"`, `"AutogradCPU"`) if it is one of `PER_BACKEND`; `"Undefined"` if there is no functionality |
# | `below(keys, functionality)` | the keys without that functionality and all above it; backends stay |
# | `register(operator, key, kernel)` | a kernel for a key or an alias; it counts from then on |
# | `register_fallback(key, kernel)` | a kernel for all operators that have nothing else for the key |
# | `call(operator, keysets, value)` | a call whose arguments have these key sets: see the next cell |
# | `redispatch(operator, keys, value)` | run the kernel for these keys, as they are |
# | `including(functionality)`, `excluding(functionality)` | for a `with` block: changes what the thread includes or excludes |
#
# A kernel is a function `kernel(operator, keys, value)`. Its result is the call's.

# %% [markdown] nbgrader={"grade": false, "grade_id": "own_dispatcher-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# **What `call` does.** It unites the key sets, adds what the thread includes, takes away what it excludes, and takes out every
# functionality whose entry is `FALLTHROUGH`. Then it runs the kernel for what is left.
#
# **What fills the entry for a key.** The first of these that the operator has:
#
# | | kernel registered for | fills |
# | --- | --- | --- |
# | 1 | exactly this key | |
# | 2 | `CompositeExplicitAutograd` | backend keys and `Undefined` |
# | 3 | `CompositeImplicitAutograd` | the same and autograd keys; but not an autograd key whose backend, dense, has a kernel of its own, and no autograd key at all if there's a `CompositeExplicitAutograd` |
# | 4 | `Autograd` | autograd keys |
# | 5 | the fallback for the key | |
#
# If nothing fills it, raise a `NotImplementedError` that names the operator and the key.
#
# For example, a tensor `{CPU, Dense, Autograd}` meets an operator with kernels for `CPU` and `Autograd`: the second one
# runs, and may call `redispatch(operator, below(keys, "Autograd"), value)` to get to the first.
#
# <details><summary>Hint 1: a question</summary>A thread begins by including two functionalities and excluding one. Which calls would go wrong if <code>redispatch</code> added and took them away as well?</details>
# <details><summary>Hint 2: the idea</summary>Keep two dictionaries: the kernels of each operator by key, and the fallbacks. Compute an entry when you need it, by going down the five rows. Falling through is decided for one functionality at a time, each with the highest backend.</details>
# <details><summary>Hint 3: the shape</summary><code>def entry(self, operator, key)</code>: five <code>if</code>s, each with a <code>return</code>. <code>call</code> makes the set and ends with <code>return self.redispatch(…)</code>. A method under <code>@contextmanager</code> remembers the old set, puts a <em>new</em> set in its place, and restores the old one in <code>finally</code>.</details>


# %% nbgrader={"grade": false, "grade_id": "own_dispatcher-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
from contextlib import contextmanager

FUNCTIONALITIES = ("Dense", "Sparse", "BackendSelect", "ADInplaceOrView", "Autograd", "AutocastCPU")
BACKENDS = ("CPU", "CUDA")
PER_BACKEND = ("Dense", "Sparse", "Autograd")  # The other functionalities are keys by themselves.
FALLTHROUGH = "fallthrough"


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
        backend = key == "Undefined" or key.endswith(BACKENDS) and key != "AutocastCPU" and not autograd
        if key in own:
            return own[key]
        if backend and explicit in own:
            return own[explicit]
        steps_back = explicit in own or key.removeprefix("Autograd") in own
        if implicit in own and (backend or autograd and not steps_back):
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
# | `"made"` | where it was made: `"outside"` of inference mode, or `"inside"`; or taken from a tensor that was made on the other side: `"view inside"`, `"clone inside"`, `"clone outside"` |
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
    inference = ["inference_mode", *[block for block in blocks if block.startswith("inference_mode")]][-1]
    within_inference = inference in blocks and inference == "inference_mode"
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
