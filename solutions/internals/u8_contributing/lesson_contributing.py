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
# # Unit 8: contributing
#
# *About 75 minutes. You need Unit 3 and `git`; a C++ compiler isn't needed.*
#
# You've found a bug in PyTorch, or miss an operator. The source is huge, and more people than you'll ever meet have
# written it. Where do you begin?

# %% [markdown]
# With less than you think. Most of an operator is three entries in two tables, and a code generator writes the rest. Most
# first contributions are even smaller: a better error message, a failing example that somebody can run, the name of the
# commit that broke it.
#
# You'll do all of this here, on your own machine. The tables and the generator are PyTorch's own, from your installation.
# Only the compiler is missing: kernels are functions in Python, in **a small mirror of the build**.

# %%
# %matplotlib inline
import re
import sys
import tempfile
from pathlib import Path

import torch
from matplotlib import pyplot

from fxopt_workbench.torch_sources import installed, source

print("torch", torch.__version__)

# %% [markdown]
# ## How a change gets into PyTorch
#
# *10 minutes.* Before any code, know the road. It's the same for a comma and for a backend:
#
# | step | where | what happens there |
# | --- | --- | --- |
# | issue | [github.com/pytorch/pytorch/issues](https://github.com/pytorch/pytorch/issues) | a person of the *oncall* sorts it: `triaged`, `module: …`, perhaps `actionable` or `good first issue` |
# | design | [github.com/pytorch/rfcs](https://github.com/pytorch/rfcs) | larger ideas: a text from a template, discussed as a pull request, before there's code |
# | branch | your fork | small commits; `lintrunner` for style; `pip install --no-build-isolation -e .` builds |
# | tests | `test/` | run with `pytest` or as a script; operators in `test/test_ops.py`, gradients in `test/test_autograd.py` |
# | pull request | the same repository | continuous integration builds and tests on many kinds of machine; a bot lists what fails |
# | review | `CODEOWNERS`, `merge_rules.yaml` | whoever owns the files you touch approves |
# | merge | a comment: `@pytorchbot merge` | a bot merges when CI is green; it also reverts what breaks something |

# %% [markdown]
# An **issue** is read by somebody who has ninety seconds. Three things make it useful: code that they can paste and run,
# what you expected, and what came instead, together with the output of `python -m torch.utils.collect_env`.
#
# An [**RFC**](../Glossary.md#rfc) is for what can't be decided inside one pull request: a new kind of tensor, a new backend,
# a change that breaks somebody. If you're unsure whether you need one, open an issue and ask.

# %% [markdown]
# **Prediction.** Here are six calls that are wrong. Which of the messages would leave you none the wiser?

# %% tags=["nbval-check-output"]
mistakes = {
    "matmul": lambda: torch.ones(2, 3) @ torch.ones(2, 3),
    "stack": lambda: torch.stack([torch.ones(2), torch.ones(3)]),
    "softmax": lambda: torch.arange(3).softmax(0),
    "bernoulli": lambda: torch.ones(3).bernoulli(2.0),
    "embedding": lambda: torch.nn.functional.embedding(torch.tensor([7]), torch.ones(3, 2)),
    "scatter": lambda: torch.zeros(3).scatter_(0, torch.tensor([5]), 1.0),
}
messages = {}
for name, mistake in mistakes.items():
    try:
        mistake()
    except (RuntimeError, IndexError) as error:
        messages[name] = f"{type(error).__name__}: {error}"
        print(f"{name:10} {messages[name]}")

# %% tags=["claim"]
# The message of embedding names a self that there is not, and tells neither the index nor the range.
assert "self" in messages["embedding"]
assert not re.search(r"\d", messages["embedding"])
assert "p=2" in messages["bernoulli"]
assert "kernel" in messages["softmax"]

# %% [markdown]
# A good message says *what was wrong* in the words of the caller: which argument, what came, what was expected. `bernoulli`
# does. *index out of range in self* doesn't: there are two tensors, none of them is called `self`, and neither the index nor
# the range is told. `softmax` names a kernel that no user has ever heard of.
#
# This is why **error messages are a splendid first contribution**. You understand the problem completely, the change is a
# line of `TORCH_CHECK`, the test is three lines with `assertRaisesRegex`, and every user after you gains something. Let a
# program look for candidates:

# %%
for name, message in messages.items():
    figures = re.findall(r"\d+", message)
    expects = re.search(r"expect|must|should|cannot|not implemented|but got", message) is not None
    print(f"{name:10} figures: {', '.join(figures) or 'none':10} says what it wanted: {'yes' if expects else 'no'}")

# %% [markdown]
# ## Reading native_functions.yaml
#
# *10 minutes.* If PyTorch's source has an index, it's this file:
# [**native_functions.yaml**](../Glossary.md#native_functionsyaml) lists every operator, with its signature and its kernels.
# Your wheel has it. Here is one that's small and complete:

# %%
source("aten/src/ATen/native/native_functions.yaml", "hardshrink.out")

# %%
source("aten/src/ATen/native/native_functions.yaml", "hardshrink")

# %% [markdown]
# | line | what it says |
# | --- | --- |
# | `func:` | name, **overload** after the dot, arguments, result. `Tensor(a!)` is written to, and is the same tensor wherever the `a` stands |
# | `variants:` | whether there is `torch.hardshrink(x)`, `x.hardshrink()`, or both; without it, only the first |
# | `dispatch:` | for each key (Unit 3!) the name of the kernel in C++; without it, there's one composite implicit kernel |
# | `structured:` | one kernel serves all variants; shape and dtype of the result are worked out before it runs |
# | `structured_inherits:` | who works them out; `TensorIteratorBase` broadcasts and promotes, for element-wise operators |
# | `structured_delegate:` | "my kernel is that of the other entry" |
# | `tags:` | properties that tools rely on, defined in `tags.yaml`: `pointwise`, `core`, `inplace_view`, … |
#
# To find a kernel, take its name from `dispatch:` and search the repository for it. For `hardshrink` that's
# `TORCH_IMPL_FUNC(hardshrink_out)`, in `aten/src/ATen/native/Activation.cpp`.

# %% [markdown]
# **Prediction.** The file has about 2,600 entries. Of how many do you have to write kernels for a new backend: nearly all,
# half, or a small part?

# %%
text = installed("aten/src/ATen/native/native_functions.yaml").read_text()
entries = re.split(r"^- func: ", text, flags=re.MULTILINE)[1:]


def kind(entry):
    """Who computes it, by the lines of the entry."""
    if "structured_delegate:" in entry:
        return "delegates to another entry"
    if "structured: True" in entry:
        return "structured kernel"
    if "dispatch:" not in entry or "CompositeImplicitAutograd" in entry:
        return "made of other operators (implicit)"
    if "CompositeExplicitAutograd" in entry:
        return "one kernel for all backends"
    return "a kernel for each backend"


kinds = {}
for entry in entries:
    kinds[kind(entry)] = kinds.get(kind(entry), 0) + 1
for name, count in sorted(kinds.items(), key=lambda pair: -pair[1]):
    print(f"{name:36} {count:5}  {100 * count / len(entries):4.0f} %")
figure, axes = pyplot.subplots(figsize=(7, 2.4), layout="constrained")
axes.barh(list(kinds), list(kinds.values()), color="tab:blue")
axes.set(title="Who computes the operators of native_functions.yaml", xlabel="entries")
axes.invert_yaxis()
pyplot.close(figure)
figure

# %% tags=["claim"]
# A new backend writes about a third at most: what is structured, and what has a kernel for each backend.
assert 0.25 < (kinds["structured kernel"] + kinds["a kernel for each backend"]) / len(entries) < 0.4
assert 2500 < len(entries) < 2700  # the text says about 2,600

# %% [markdown]
# A new backend writes, at most, what is *structured* and what has *a kernel for each backend*: about a third. The rest it
# gets for free. Aim at that when you add an operator: as few kernels as possible, each as general as possible.
#
# ## From an entry to an operator
#
# *10 minutes.* Now add one, a rounded absolute value that robust losses use:
#
# $$\mathrm{smooth\_abs}(x) = \sqrt{x^2 + 1} - 1$$
#
# Two entries: the operator, and the variant that writes into `out`, which has the kernel.

# %%
from fxopt_workbench.internals.mirror import BuildError, build, read_derivatives, read_operators

ENTRIES = """
- func: smooth_abs(Tensor self) -> Tensor
  structured_delegate: smooth_abs.out
  variants: function, method
  tags: pointwise

- func: smooth_abs.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  structured_inherits: TensorIteratorBase
  dispatch:
    CPU, CUDA: smooth_abs_out
"""
operators = read_operators(ENTRIES)
print(operators.declarations("CPU"))

# %% [markdown]
# [**torchgen**](../Glossary.md#torchgen) has read the entries, found that they belong together, and written the declaration
# that a kernel must fill in. In PyTorch's build it writes much more from the same two entries: the function in Python, the
# method of `Tensor`, the registration with the dispatcher, the tracing kernels, the fake kernel.
#
# It's also the first reviewer. **Prediction.** Each of these three has one mistake. What will it say?

# %% tags=["nbval-check-output"]
for wrong in (
    ENTRIES.replace("structured_delegate: smooth_abs.out", "structured_delegate: smooth_abs_out"),
    ENTRIES.replace("Tensor(a!) out", "Tensor out"),
    ENTRIES.replace("pointwise", "elementwise"),
):
    try:
        read_operators(wrong)
        print("no complaint")
    except BuildError as error:
        print(str(error).removeprefix("torchgen refuses native_functions.yaml: ")[:150])

# %% [markdown]
# And a kernel. It doesn't return anything: `out` has the right shape and dtype already, because `TensorIteratorBase` worked
# them out, and the kernel fills it.
#
# **Prediction.** What does the operator give if the kernel forgets `out.copy_` and returns its result instead?


# %% tags=["nbval-check-output"]
def smooth_abs_out(self, out):
    out.copy_(torch.sqrt(self * self + 1) - 1)


def forgetful(self, out):
    return torch.sqrt(self * self + 1) - 1


x = torch.tensor([-3.0, 0.0, 3.0])
for kernel in (smooth_abs_out, forgetful):
    with torch.library._scoped_library("unit8", "DEF") as library:
        build(library, operators, {"smooth_abs_out": kernel})
        print(f"{kernel.__name__:15}", torch.ops.unit8.smooth_abs(x))
        if kernel is smooth_abs_out:
            print("whole numbers  ", torch.ops.unit8.smooth_abs(torch.arange(3)))
            print("into out       ", torch.ops.unit8.smooth_abs.out(x, out=torch.empty(0)))
            print("without data   ", torch.ops.unit8.smooth_abs(x.to("meta")))

# %% [markdown]
# Three variants, whole numbers and the `meta` device, from one line of kernel. The mirror fills new memory with NaN, so that
# what a kernel forgets shows at once. PyTorch does the same if you ask for it, with
# `torch.utils.deterministic.fill_uninitialized_memory`.
#
# ## Its derivative
#
# *10 minutes.* Until now a gradient raises *derivative is not implemented*. Derivatives stand in a second table,
# [**derivatives.yaml**](../Glossary.md#derivativesyaml). Two of its entries:

# %%
source("tools/autograd/derivatives.yaml", "tanh(Tensor self) -> Tensor")

# %%
source("tools/autograd/derivatives.yaml", "hypot(Tensor self, Tensor other) -> Tensor")

# %% [markdown]
# Each line is an argument and a formula in C++. It knows the arguments, `grad` (the gradient that comes in) and `result`. The
# line `result:` is the other direction: forward mode, which you met in Unit 4. Whatever a formula names is *saved* between
# forward and backward pass.
#
# **Prediction.** $\frac{d}{dx}(\sqrt{x^2+1} - 1) = x / \sqrt{x^2+1}$. Below it's written in two ways. Which one saves less?

# %% tags=["nbval-check-output"]
FORMULAS = {
    "from the input": "grad * self / (self * self + 1).sqrt()",
    "from the result": "grad * self / (result + 1)",
}
derivatives = {}
for name, formula in FORMULAS.items():
    derivatives[name] = f"- name: smooth_abs(Tensor self) -> Tensor\n  self: {formula}\n"
    found = read_derivatives(derivatives[name], operators)["smooth_abs"]
    print(f"{name:16} {found.node} saves {' and '.join(found.saved)}")

# %% tags=["claim"]
# The first formula saves one tensor, the second one two.
saved = [read_derivatives(text, operators)["smooth_abs"].saved for text in derivatives.values()]
assert [len(one) for one in saved] == [1, 2]

# %% [markdown]
# The first. The second saves the result as well, and spares a square root. Neither is wrong: it's memory against time. If
# the result is kept anyway by whatever comes next, saving it costs nothing.
#
# Here's what torchgen makes of it, the node of the graph that you know as `grad_fn`:

# %%
print("\n".join(line for line in found.cpp.splitlines() if line.strip() and not line.startswith("#")))

# %% [markdown]
# Is the formula right? **gradcheck** compares it with difference quotients, in double precision.
# `gradgradcheck` differentiates it once more.
#
# **Prediction.** A third formula forgets the square root. At which inputs would it agree nevertheless?

# %%
candidates = derivatives | {"no square root": "- name: smooth_abs(Tensor self) -> Tensor\n  self: grad * self\n"}
doubles = torch.tensor([-2.0, 0.0, 0.5], dtype=torch.float64, requires_grad=True)
for name, formula in candidates.items():
    with torch.library._scoped_library("unit8", "DEF") as library:
        build(library, operators, {"smooth_abs_out": smooth_abs_out}, formula)
        operator = torch.ops.unit8.smooth_abs
        once, zero = (
            torch.autograd.gradcheck(operator, one, raise_exception=False) for one in (doubles, doubles[1:2] * 1)
        )
        twice = torch.autograd.gradgradcheck(operator, doubles, raise_exception=False)
        print(f"{name:16} gradcheck {once!s:5}  at zero alone {zero!s:5}  gradgradcheck {twice}")

# %% [markdown]
# At zero all three agree. A check is only as good as the inputs that you give it, which brings us to tests.
#
# ## Tests in the style of OpInfo
#
# *10 minutes.* PyTorch doesn't write a test file for each operator. It writes down *what the operator is*, as an
# [**OpInfo**](../Glossary.md#opinfo), and generic tests do the rest, on every device and dtype:

# %%
source("torch/testing/_internal/opinfo/core.py", "SampleInput", most=16)

# %% [markdown]
# An OpInfo names, among much else, `sample_inputs_func`, a reference `ref` (usually NumPy), `error_inputs_func`, and the
# dtypes. The tests in `test/test_ops.py` then ask: does it agree with the reference? with `out=`? in place? when its input
# isn't contiguous? under `torch.compile`, `vmap`, on fake tensors? Does its gradient pass gradcheck?
#
# So the samples decide what a test can find. Here are four kernels for `smooth_abs` with a mistake each, and three sets of
# samples. **Prediction.** Which kernels does the first set let pass?

# %% tags=["nbval-check-output"]
import numpy

from fxopt_workbench.internals.mirror import Structured


def forgets_the_rest(self, out):
    smooth_abs_out(self, out)
    if out.numel() % 4:
        out.view(-1)[-(out.numel() % 4) :] = 0


def ignores_strides(self, out):
    smooth_abs_out(torch.as_strided(self, (self.numel(),), (1,)).view(self.shape), out)


def overflows(self, out):
    out.copy_(torch.sqrt((self * self + 1).clamp(max=torch.finfo(torch.float16).max)) - 1)


def refuses_empty(self, out):
    assert out.numel() > 0, "expected at least one element"
    smooth_abs_out(self, out)


def reference(x):
    return numpy.sqrt(x * x + 1) - 1


def passes(kernel, samples):
    for sample in samples:
        try:
            result = Structured(kernel).functional(sample)
        except AssertionError:
            return False
        if not numpy.allclose(result.numpy(), reference(sample.numpy()), rtol=1e-3, atol=1e-5):
            return False
    return True


sets = {"8 numbers": [torch.linspace(-3, 3, 8)]}
sets["and 5 × 7"] = [*sets["8 numbers"], torch.linspace(-3, 3, 35).view(5, 7)]
sets["all kinds"] = [*sets["and 5 × 7"], torch.ones(0), torch.tensor([400.0]), torch.linspace(-3, 3, 8).view(2, 4).t()]
print(f"{'':18}", *(f"{name:10}" for name in sets))
for kernel in (smooth_abs_out, forgets_the_rest, ignores_strides, overflows, refuses_empty):
    print(
        f"{kernel.__name__:18}",
        *(f"{'passes' if passes(kernel, samples) else 'FAILS':10}" for samples in sets.values()),
    )

# %% [markdown]
# All of them, and that's how such bugs reach a release. Samples are chosen, not drawn: each one is there because of a mistake
# that somebody could make.
#
# For operators that you register with `torch.library`, `torch.library.opcheck` does what the generic tests do: schema,
# autograd registration, fake kernel, and AOTAutograd with dynamic shapes.

# %%
with torch.library._scoped_library("unit8", "DEF") as library:
    build(library, operators, {"smooth_abs_out": smooth_abs_out}, derivatives["from the input"])
    checked = torch.library.opcheck(torch.ops.unit8.smooth_abs.default, (torch.randn(3, requires_grad=True),))
for name, answer in checked.items():
    print(f"{name:32} {answer}")

# %% [markdown]
# ## Documentation that is run
#
# *5 minutes.* What users read of an operator is a string in `torch/_torch_docs.py` or beside the function. It begins with the
# signature, gives the formula, and ends with an example. It's code, too: run it. **Prediction.** Which line below is wrong?

# %%
import doctest

DOCUMENTATION = r"""
smooth_abs(input, *, out=None) -> Tensor

Returns the absolute value of :attr:`input`, rounded off at zero.

.. math:: \text{out}_i = \sqrt{\text{input}_i^2 + 1} - 1

Example::

    >>> smooth_abs(torch.tensor([0., 1.]))
    tensor([0.0000, 0.4142])
    >>> smooth_abs(torch.tensor([-3.]))
    tensor([-2.1623])
"""
with torch.library._scoped_library("unit8", "DEF") as library:
    build(library, operators, {"smooth_abs_out": smooth_abs_out})
    names = {"torch": torch, "smooth_abs": torch.ops.unit8.smooth_abs}
    example = doctest.DocTestParser().get_doctest(DOCUMENTATION, names, "smooth_abs", None, 0)
    said = []
    doctest.DocTestRunner(verbose=False).run(example, out=said.append)
print("".join(said))

# %% [markdown]
# The sign, of course. Mending an example that has been wrong for years is a fine first pull request: the reviewer needs a
# minute, and you've walked the whole road once.
#
# ## A series that can be reviewed
#
# *10 minutes.* You have it all on your disk. How do you hand it over? A reviewer reads commits, one after another. Here's
# the same operator twice, in two real git repositories: as it came to pass, and as a
# [**commit series**](../Glossary.md#commit-series) that somebody planned. The table goes through a reviewer's checklist,
# and checks out each commit to run the tests *there*.

# %% tags=["nbval-check-output"]
from fxopt_workbench.internals.histories import BAD_SERIES, GOOD_SERIES, TEST_FILE
from fxopt_workbench.internals.repositories import make_repository, review

workplace = tempfile.TemporaryDirectory()
for name, series in (("as it came", BAD_SERIES), ("as planned", GOOD_SERIES)):
    repository = make_repository(Path(workplace.name) / name.replace(" ", "_"), series)
    reviewed = review(repository, (sys.executable, TEST_FILE))
    print(f"{name:50}", "  ".join(reviewed.headings[1:]))
    for subject, *marks in reviewed.rows:
        told = "  ".join(f"{mark:{len(column)}}" for mark, column in zip(marks, reviewed.headings[1:], strict=True))
        print(f"    {subject[:46]:46}", told)

# %% [markdown]
# Both end with the same code. **Prediction.** In the first series, which commit could you revert without breaking anything
# else?
#
# None, really. The first doesn't pass its own tests, the second mends it, the third mixes two ideas. In the planned series
# each commit is one idea with its reason and its test, in an order in which everything works at each step. That isn't
# politeness. It's what makes the next section possible.

# %% [markdown]
# ## Who broke it? Bisecting
#
# *10 minutes.* Here's a history of 40 commits. At the first one `smooth_abs(0.2)` was right, at the last it isn't. A test is
# a script with an exit status: 0 for good, 125 for *can't tell, skip it*, anything else for bad. Then `git bisect run` does
# the work.

# %%
from fxopt_workbench.internals.histories import TEST_SCRIPT, history

print(TEST_SCRIPT)
repository = make_repository(Path(workplace.name) / "history", history())
log = repository.log()
print(len(log), "commits, from", repr(log[0].subject), "to", repr(log[-1].subject))

# %% [markdown]
# **Prediction.** How many commits does it have to test? And what happens at one that can't even be imported?

# %% tags=["nbval-check-output"]
test = Path(workplace.name) / "test.py"
test.write_text(TEST_SCRIPT)
bisected = repository.bisect(log[0].name, log[-1].name, ("env", "PYTHONPATH=.", sys.executable, str(test)))
for subject, answer in bisected.tested:
    print(f"{answer:5} {subject}")
print()
print("first bad commit:", bisected.culprit.subject)

# %%
print(repository.git("show", "--format=%an: %s", "--unified=1", bisected.culprit.name))

# %% tags=["claim"]
# Five tests that told something, as log2(40) would have it, and two that could not.
answers = [answer for _, answer in bisected.tested]
assert answers.count("skip") == 2
assert len(answers) - 2 == 5
changed = repository.git("show", "--numstat", "--format=", bisected.culprit.name).split()
assert int(changed[0]) <= 4  # the check, its result, and the comment that every commit counts up

# %% [markdown]
# log₂(40) is 5.3: five tests, and two more for commits that couldn't say. The culprit is a few lines long, because every
# commit is. With PyTorch it's the same. For a start you don't even have to build: bisect over nightly wheels first (each
# is a day's commits), and then over the commits of that day. `tools/nightly.py` in the repository helps with the first part.
#
# With the culprit goes a [**minimal reproducer**](../Glossary.md#minimal-reproducer): the smallest program that still fails,
# *in the same way*. For compiled models PyTorch has a tool that makes one, the **minifier** (`TORCHDYNAMO_REPRO_AFTER=aot`). In
# the exercise you write both, the search and the shrinking.

# %%
workplace.cleanup()

# %% [markdown]
# ## Where compilers come in: Inductor and what came before
#
# *10 minutes.* Is an operator finished when it runs in eager mode? No: `torch.compile` has to know it. Inductor lowers a graph
# node by node, and for each operator it looks in two tables: a [**decomposition**](../Glossary.md#decomposition) into simpler
# operators, or a **lowering**, which writes the loop. What is in neither becomes a **fallback**: a call of your kernel, which
# fuses with nothing.
#
# **Prediction.** Into which table do `tanh`, `hardshrink`, `mm` and your own operator go?

# %%
from torch._inductor.decomposition import decompositions
from torch._inductor.lowering import lowerings

aten = torch.ops.aten
with torch.library._scoped_library("unit8", "DEF") as library:
    build(library, operators, {"smooth_abs_out": smooth_abs_out})
    mine = torch.ops.unit8.smooth_abs.default
    for operator in (aten.tanh.default, aten.hardshrink.default, aten.mm.default, mine):
        where = [
            name for name, table in (("decomposition", decompositions), ("lowering", lowerings)) if operator in table
        ]
        print(f"{operator!s:26} {' and '.join(where) or 'neither: a fallback'}")
print(f"{len(decompositions):,} decompositions, {len(lowerings):,} lowerings")

# %% [markdown]
# Before Inductor sees it, **AOTAutograd** has recorded the backward pass, with your formula. **Prediction.** In these two
# graphs, where does the operator stand whole, and where in parts?

# %% tags=["nbval-check-output"]
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd


def prints(stage):
    def compiler(graph, _):
        names = [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]
        print(f"{stage:9}", ", ".join(names))
        return make_boxed_func(graph.forward)

    return compiler


with torch.library._scoped_library("unit8", "DEF") as library:
    build(library, operators, {"smooth_abs_out": smooth_abs_out}, derivatives["from the input"])
    smooth_abs = torch.ops.unit8.smooth_abs
    backend = aot_autograd(fw_compiler=prints("forward"), bw_compiler=prints("backward"))
    torch.compile(lambda one: smooth_abs(one).sum(), backend=backend)(torch.ones(3, requires_grad=True)).backward()

# %% [markdown]
# Whole in the forward graph: one node, which Inductor can only call. The backward graph holds the parts of the formula, and
# those it fuses. A formula is written once, and serves eager mode and the compiler.

# %% [markdown]
# So the cheapest way to make a new element-wise operator fast everywhere is a decomposition: a few lines of Python in
# `torch/_decomp/decompositions.py` (or a composite implicit operator, which needs nothing). That's why maintainers ask
# "couldn't this be a composition?" before they take in a new operator.
#
# How to experiment and debug: `TORCH_LOGS="output_code"` shows the kernels that Inductor writes, `TORCH_LOGS=help` lists the
# other logs, and `torch._inductor.config` has the switches. What's beta can change between releases, so look it up in the
# one you have:

# %%
print(f"{len(torch._inductor.config._config)} switches in torch._inductor.config")
left = [name for name in dir(torch._C) if "nvfuser" in name]
print("what is left of nvFuser:", ", ".join(left))

# %% [markdown]
# **nvFuser** was the fuser for NVIDIA GPUs before Inductor. Older courses teach it as a part of PyTorch. Names are left in the
# wheel, as you see. Call one, and it warns that it does nothing any more: nvFuser is [a project of its own](https://github.com/NVIDIA/Fuser) now. What it
# did, taking a graph and generating one kernel for many nodes, is what Inductor does with the FX graphs of Week 1.

# %% [markdown]
# ## What to remember
#
# - Issue, (RFC), branch, tests, pull request, CI, review, merge: the same road for all changes. Begin with a small one.
# - An operator is an entry in `native_functions.yaml`, a kernel that its `dispatch:` names, a formula in `derivatives.yaml`, an
#   OpInfo, and a text that's run. `torchgen` joins them.
# - A formula saves what it names. `gradcheck` and samples find only what you let them see.
# - Each commit is one idea, with its reason and its test, and works by itself. Then `git bisect` finds culprits in log₂(n)
#   tests.
# - A reproducer fails in the *same way* as the original.
#
# Now do it yourself: [exercise 18](ex_18_contributing.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - PyTorch: [CONTRIBUTING.md](https://github.com/pytorch/pytorch/blob/main/CONTRIBUTING.md), the
#   [contribution guide](https://docs.pytorch.org/docs/stable/community/contribution_guide.html), and the
#   [README of native functions](https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md).
# - [derivatives.yaml](https://github.com/pytorch/pytorch/blob/main/tools/autograd/derivatives.yaml): the comment at its
#   beginning explains every property.
# - A. Zeller and R. Hildebrandt, *Simplifying and isolating failure-inducing input*, IEEE Transactions on Software
#   Engineering 28(2), 2002.
# - git: [git-bisect](https://git-scm.com/docs/git-bisect).
