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

# %% [markdown]
# # Unit 3: the dispatcher
#
# *About 75 minutes. You need Unit 2; a C++ compiler isn't needed.*
#
# You write `a + b`. PyTorch runs one of a dozen different pieces of code: on the processor, on a GPU, with gradients,
# under `vmap`, on tensors that don't exist. Who decides? If you can't answer that, an error such as *Could not run
# 'aten::mul.Tensor' with arguments from the 'SparseMeta' backend* is the end of the road.

# %% [markdown]
# The [**dispatcher**](../Glossary.md#dispatcher) decides. It's a table for each operator and a handful of bits for each call, and nothing else. By the
# end of this lesson you'll compute its decision yourself, on paper, before PyTorch does. Then you'll put kernels of your
# own into its tables and watch a call walk through them.
#
# Everything you see comes from the PyTorch on your machine: its headers, and its tables as they are right now.

# %% [markdown]
# ## One name, many kernels
#
# *10 minutes.* Why does PyTorch need a dispatcher at all? Count. An **operator** is a name and a signature. A
# [**kernel**](../Glossary.md#kernel) is code that does the work, for one kind of tensor in one situation.

# %%
# %matplotlib inline
import contextlib
import re
import textwrap
from collections import Counter

import torch
from matplotlib import pyplot

from fxopt_workbench.torch_sources import source

operators = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
print(f"{len(operators):,} operators in aten")
for line in torch._C._dispatch_dump("aten::add.Tensor").splitlines()[:2]:
    print(line)

# %% [markdown]
# **Prediction.** Here's every kernel that somebody has registered for `add`. How many will there be, for this one
# operator, in a PyTorch that has no GPU support?

# %%
registered = torch._C._dispatch_dump("aten::add.Tensor").splitlines()[4:]
print(len(registered), "kernels:")
for line in registered:
    key, _, rest = line.partition(": ")
    print(f"    {key:42} {rest.split('/')[-1].split(' ::')[0]}")

# %% [markdown]
# Every line begins with a [**dispatch key**](../Glossary.md#dispatch-key): the name of the situation that the kernel is
# for. Some keys name a place (`CPU`, `Meta`), some a layout (`SparseCPU`), some a feature (`FuncTorchBatched` is `vmap`,
# `Tracer` records for TorchScript). Behind the key stands the file that registered the kernel. (*Inactive* is a kernel whose
# place a later one has taken.)
#
# You could write all of this as `if` and `else` inside each of the 3,000 operators. Then whoever adds `vmap` has to change
# 3,000 functions. With a table, they add entries, and nobody else has to know.

# %% [markdown]
# ## What a tensor carries
#
# *10 minutes.* How does a call know its situation? Every tensor carries a set of keys, a
# [**dispatch key set**](../Glossary.md#dispatch-key-set). It's 64 bits inside `TensorImpl`:

# %%
source("c10/core/TensorImpl.h", "key_set_")

# %% [markdown]
# **Prediction.** Five tensors: a plain one, one with `requires_grad=True`, one made under `inference_mode`, one on the `meta`
# device, which has a shape but no data, and a sparse one. Whose key sets differ from the plain tensor's?

# %% tags=["nbval-check-output"]
plain = torch.ones(2)
asks = torch.ones(2, requires_grad=True)
with torch.inference_mode():
    inferred = torch.ones(2)
tensors = {
    "plain": plain,
    "requires_grad": asks,
    "inference_mode": inferred,
    "meta": torch.ones(2, device="meta"),
    "sparse": torch.eye(2).to_sparse(),
}
for name, tensor in tensors.items():
    print(f"{name:15}", torch._C._dispatch_keys(tensor))

# %% [markdown]
# The comment in the header says that the set doesn't include Autograd. Believe what you see: it does, so the comment is
# older than the code.
#
# Did `requires_grad` surprise you? It changes nothing. Every ordinary tensor has `AutogradCPU`, whether it asks for
# gradients or not: the autograd kernel runs each time, and then looks whether there's anything to record. A tensor that
# was made under `inference_mode` has given that key up for good. That's why it's a little faster, and why you can never
# use it for training.

# %% [markdown]
# The keys have an order, and the order is the whole point. Here they are, read from the header. The later a key stands,
# the earlier its kernel runs:

# %%
from fxopt_workbench.torch_sources import installed

header = installed("c10/core/DispatchKey.h").read_text()
functionalities = header.split("enum class DispatchKey")[1].split("\n  EndOfFunctionalityKeys,")[0]
in_header = re.findall(r"^  (\w+)(?: = 0)?,", functionalities, re.MULTILINE)
print(textwrap.fill(" < ".join(in_header), 110))

# %% tags=["nbval-check-output"]
from torch._C import DispatchKey, DispatchKeySet

ORDER = ["CPU", "BackendSelect", "Python", "Functionalize", "ADInplaceOrView", "AutogradCPU", "AutocastCPU"]
ORDER += ["FuncTorchBatched", "FuncTorchDynamicLayerFrontMode", "PythonDispatcher"]


def keys_of(*names):
    keys = DispatchKeySet(DispatchKey.Undefined)
    for name in names:
        keys = keys | DispatchKeySet(getattr(DispatchKey, name))
    return keys


for lower, higher in zip(ORDER, ORDER[1:], strict=False):
    assert keys_of(lower, higher).highestPriorityTypeId() == getattr(DispatchKey, higher), (lower, higher)
print("from the lowest to the highest:", " < ".join(ORDER))
print("sparse on the CPU, together with meta:", keys_of("SparseCPU", "Meta").highestPriorityTypeId())

# %% tags=["claim"]
# The header lists all functionalities, in the order that the sets obey.
in_both = [name for name in in_header if name in ORDER]
assert in_both == [name for name in ORDER if name in in_header]
assert {"Dense", "Sparse", "AutogradFunctionality"} <= set(in_header)
assert len(in_both) > 5

# %% tags=["claim"]
# A sparse tensor on the CPU times one on meta raises the error that the first paragraph quotes.
try:
    torch.eye(2).to_sparse() * torch.ones(2, 2, device="meta")
    raised = ""
except NotImplementedError as error:
    raised = str(error)
assert raised.startswith("Could not run 'aten::mul.Tensor' with arguments from the 'SparseMeta' backend")

# %% [markdown]
# Now look at the last line: a sparse tensor on the CPU and one on meta lead to `SparseMeta`, which neither of them is. 64
# bits aren't enough for one bit per key, so the set holds two kinds of bits: *what* (dense, sparse, autograd) and *where*
# (CPU, CUDA, Meta). The highest of each together name the key. (The header's list has the *what* only. That's why you find
# `Dense` and `AutogradFunctionality` there, and not `CPU` and `AutogradCPU`.)
#
# ## From keys to one kernel
#
# *10 minutes.* You have two tensors, each with its keys, and perhaps you're inside `with torch.no_grad()`. Which kernel
# runs first? The rule fits in one line:
#
# > take the keys of all tensors, add what this thread **includes**, take away what it **excludes**, and pick the highest.
#
# The two sets that belong to the thread are how `with` blocks take part:

# %%
source("c10/core/impl/LocalDispatchKeySet.h", "LocalDispatchKeySet")

# %% [markdown]
# **Prediction.** Which of these four situations changes the first kernel of a call: `no_grad`, `inference_mode`,
# `autocast`, `vmap`?


# %% tags=["nbval-check-output"]
def first_key(*arguments):
    """The dispatcher's rule."""
    keys = torch._C._dispatch_keys(arguments[0])
    for argument in arguments[1:]:
        keys = keys | torch._C._dispatch_keys(argument)
    keys = keys | torch._C._dispatch_tls_local_include_set()
    keys = keys - torch._C._dispatch_tls_local_exclude_set()
    return keys.highestPriorityTypeId().name


situations = {
    "nothing special": contextlib.nullcontext(),
    "no_grad": torch.no_grad(),
    "inference_mode": torch.inference_mode(),
    "autocast": torch.autocast("cpu"),
}
for name, situation in situations.items():
    with situation:
        print(f"{name:16} {first_key(plain, plain)}")
seen = []
torch.func.vmap(lambda x: seen.append(first_key(x)) or x)(torch.ones(2, 3))
print(f"{'vmap':16} {seen[0]}")

# %% [markdown]
# `no_grad` changes nothing here. It sets a flag that the autograd kernel reads. `inference_mode` goes further: it excludes
# the autograd keys, so that the kernel doesn't run at all. `autocast` works the other way round. Every tensor on the CPU
# has the key `AutocastCPU`, and normally the thread excludes it. The `with` block stops excluding.
#
# `vmap` includes a key far above autograd, `FuncTorchDynamicLayerFrontMode`. Its kernel asks which transformation is the
# innermost. If that's `vmap` and a tensor is batched, the kernel for `FuncTorchBatched` comes next.

# %% [markdown]
# ## The table
#
# *15 minutes.* So the call arrives at a key. The operator's table has an entry for each of them, but nobody filled in all
# those entries by hand. When somebody registers a kernel, the dispatcher *computes* the table, and for each entry it notes
# why.

# %%
LINE = re.compile(r"^(\w+): (?P<what>.*?)(?: \[(?P<why>[\w ]+)\])?$")


def table(operator):
    """For each key: where its kernel comes from, and why that one was chosen."""
    found = {}
    for line in torch._C._dispatch_dump_table(operator).splitlines():
        if match := LINE.match(line):
            found[match[1]] = ("fallthrough" if "fallthrough" in match["what"] else match["what"], match["why"] or "")
    return found


SHOWN = ("CPU", "Meta", "ADInplaceOrView", "AutogradCPU", "AutocastCPU", "FuncTorchBatched")

# %% [markdown]
# **Prediction.** `relu` has a kernel of its own for the CPU. `linear` doesn't: it's defined as a transpose and a product.
# What will their entries for `CPU` and `AutogradCPU` say?

# %% tags=["nbval-check-output"]
for operator in ("aten::relu", "aten::linear", "aten::ones_like"):
    entries = table(operator)
    print(operator)
    for key in SHOWN:
        what, why = entries[key]
        print(f"    {key:18} {'falls through' if what == 'fallthrough' else why}")

# %% [markdown]
# Here's what the words on the right mean:
#
# | why | what it means |
# | --- | --- |
# | kernel | somebody registered a kernel for exactly this key |
# | math kernel | the operator is [composite](../Glossary.md#composite-operator) **implicit**: one kernel for every backend and for autograd, written with other operators, which bring their own derivatives |
# | default backend kernel | **composite explicit**: one kernel for every backend, with a derivative of its own |
# | autograd kernel | registered for the alias key `Autograd`, which stands for all autograd keys |
# | backend fallback | registered for the key, for all operators at once |
# | batched kernel | registered for `vmap` by taking the operator apart |
# | falls through | a [fallthrough](../Glossary.md#fallthrough): there's nothing to do for this key, so look at the next one |

# %% [markdown]
# An [**alias key**](../Glossary.md#alias-key) such as `Autograd` or `CompositeImplicitAutograd` never arrives in a call.
# It's a shorthand for people who register. If several could fill an entry, the order in the code decides: exactly this key,
# then composite explicit, then composite implicit, then the alias `Autograd`, then the backend's fallback.
#
# How much of PyTorch is composite? Count the entries for `CPU`, of every fifth operator.

# %%
reasons = Counter(table(name).get("CPU", ("", "no entry"))[1] or "no entry" for name in operators[::5])
for why, count in reasons.most_common():
    print(f"{why:24} {count:5}  {'█' * round(40 * count / max(reasons.values()))}")
figure, axes = pyplot.subplots(figsize=(7, 2.6), layout="constrained")
axes.barh(*zip(*reasons.most_common(), strict=True), color="tab:blue")
axes.set(title="Why the entry for CPU is what it is, every fifth operator", xlabel="operators")
axes.invert_yaxis()
pyplot.close(figure)
figure

# %% tags=["claim"]
# More than half of the operators are composite, and these are more than there are with a kernel for the CPU.
composite = reasons["default backend kernel"] + reasons["math kernel"]
assert composite > sum(reasons.values()) / 2
assert composite > reasons["kernel"]

# %% [markdown]
# More than half: the two composite kinds together serve more operators than there are with a kernel for the CPU.
#
# ## Walking down: redispatch
#
# *15 minutes.* One call usually runs several kernels. The autograd kernel records its node and then calls the *same
# operator again*, with its own key and everything above taken out of the set. That's
# [**redispatch**](../Glossary.md#redispatch). To watch it, make an operator of your own whose kernels talk.

# %%
library = torch.library.Library("unit3", "DEF")
library.define("shout(Tensor x) -> Tensor")
shout = torch.ops.unit3.shout.default
BELOW_AUTOGRAD = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.AutogradOther)


def on_cpu(x):
    print("    CPU: compute")
    return x * 2


def on_autograd(keys, x):
    print("    Autograd: take notes, then call again below me")
    with torch._C._AutoDispatchBelowAutograd():  # what the kernel below me calls takes no notes either
        return shout.redispatch(keys & BELOW_AUTOGRAD, x)


library.impl("shout", on_cpu, "CPU")
library.impl("shout", on_autograd, "Autograd", with_keyset=True)

# %% [markdown]
# **Prediction.** You call it on a plain tensor, then under `no_grad`, then under `inference_mode`. What does each call
# print?

# %% tags=["nbval-check-output"]
for name in ("nothing special", "no_grad", "inference_mode"):
    print(name)
    with {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}.get(name, contextlib.nullcontext)():
        shout(plain)

# %% [markdown]
# And if a kernel is missing? Call it on a sparse tensor. `Autograd` stands for all autograd keys, so that kernel runs. Below it
# the dispatcher finds no entry, and now you can read what it says:

# %%
try:
    torch.ops.unit3.shout(torch.eye(2).to_sparse())
except NotImplementedError as error:
    print(str(error).split(". This could")[0])

# %% [markdown]
# It names the operator, the key, and (further down in the full message) every key that does have a kernel. Most of the
# time, that's all you need.
#
# Where does the order of the walk come from? From the bits. The C++ that finds the next kernel is one function, and it's
# short because the table is flat:

# %%
source("c10/core/DispatchKeySet.h", "getDispatchTableIndexForDispatchKeySet", occurrence=2)

# %% [markdown]
# ## Where Python gets in
#
# *10 minutes.* You don't have to write C++ to stand in the way of a call. A
# [**dispatch mode**](../Glossary.md#dispatch-mode) is a kernel for the key `Python`, and everything that reaches that key
# comes by.
#
# **Prediction.** The mode below writes down what it sees. Will it see `linear`, or the operators that `linear` is made of?
# And will it see anything of the gradient?

# %% tags=["nbval-check-output"]
from torch.utils._python_dispatch import TorchDispatchMode


class Sees(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.names.append(str(operator).removeprefix("aten."))
        return operator(*args, **(kwargs or {}))


weight, rows = torch.ones(3, 2, requires_grad=True), torch.ones(4, 2)
with Sees() as forward:
    result = torch.nn.functional.linear(rows, weight).sum()
with Sees() as backward:
    result.backward()
print("forward: ", forward.names)
print("backward:", backward.names)

# %% [markdown]
# `linear` is composite implicit, so its kernel ran *before* the call got down to `Python`, and the mode only meets its
# parts. It meets the backward pass as well: the engine calls operators like everybody else. This is exactly where
# AOTAutograd stands when it records the joint graph that you saw on Day 1.
#
# What if an operator should stay whole, for a compiler to see? Then it must not be composite implicit. In the exercise you
# make one of each, and look at what `torch.compile` gets.

# %% [markdown]
# ## What has moved since 2019
#
# *5 minutes.* If you read about the dispatcher elsewhere, mind the date. Edward Yang's *PyTorch internals* (2019) is still
# the best introduction. It tells you that a tensor has a *type id* and that dispatch goes over device and layout. Look for
# that name today:

# %%
try:
    source("c10/core/TensorImpl.h", "type_id_")
except LookupError as error:
    print(str(error).split(". It ")[0])
source("c10/core/TensorImpl.h", "key_set")

# %% [markdown]
# One type id became a set of keys, the set's bits were split into features and backends when there were too many for 64,
# and Python got keys of its own. The idea (a table for each operator, and a number to look it up with) is the same.

# %% [markdown]
# ## What to remember
#
# - An operator is a name. A kernel is code for one **dispatch key**. The dispatcher chooses.
# - The rule: keys of the tensors, plus what the thread includes, minus what it excludes. The highest key wins.
# - `requires_grad` and `no_grad` don't change the keys. `inference_mode`, `autocast` and `vmap` do.
# - A table's entries are computed: exact kernel, composite explicit, composite implicit, `Autograd`, fallback.
# - Kernels **redispatch** downwards. A mode stands at the key `Python`, below autograd and below composite operators.
#
# Now build one yourself: [exercise 13](ex_13_dispatcher.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - E. Yang, *Let's talk about the PyTorch dispatcher*, 2020, and *PyTorch internals*, 2019 (blog posts).
# - PyTorch's own notes in the headers quoted above: *Note [DispatchKeySet Internal Representation]*.
# - PyTorch documentation: [torch.library](https://docs.pytorch.org/docs/stable/library.html).
