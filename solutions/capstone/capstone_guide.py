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
# # Capstone: a package of your own
#
# *Half an hour to read and run; then as long as you like.*
#
# This is where you find something that the course hasn't. You build one thing, as a package that others can install: it
# registers itself, it is right on programs that were written to break it, and it gains something on models that it has
# never seen. You choose the kind:
#
# | kind | what you write | right means | gain means |
# | --- | --- | --- | --- |
# | `pass` | an `OptimizationPass` | the same program after as before | fewer nodes, kernels, bytes, FLOPs, behind every pass of the course |
# | `capture` | `capture(model, example_inputs)` | the same for all values, or a refusal | more models captured than by `symbolic_trace` |
# | `cost` | `cost(graph_module)` | each figure is the counted one, or named as unknown | more told than by the template |
#
# A machine decides whether it is right. You say why: the package's README asks five questions. That is your **defence**.

# %% [markdown]
# ## Start
#
# *5 minutes.* `fxopt capstone new FOLDER --kind pass` writes a package that works. Here it goes to a temporary folder;
# put yours into your workspace. What you wrote during the week comes along where it can stand alone.

# %%
import os
import subprocess
import sys
import tempfile
from pathlib import Path

folder = Path(tempfile.mkdtemp()) / "capstone"


def fxopt(*arguments):
    """What you would type in a terminal as `fxopt …`; in JupyterLab: File, New, Terminal."""
    plain = os.environ | {"NO_COLOR": "1", "FORCE_COLOR": "", "COLUMNS": "140"}
    command = [sys.executable, "-m", "fxopt_workbench.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=plain)
    print(done.stdout + done.stderr)


fxopt("capstone", "new", folder)

# %% tags=["nbval-check-output"]
for path in sorted(folder.rglob("*")):
    if path.is_file():
        print(path.relative_to(folder))

# %% [markdown]
# The pass is found by an [entry point](../Glossary.md#entry-point): three lines in `pyproject.toml`. Whoever installs the
# package has the pass, by its name, in `GraphOptimizer`, in `fxopt optimize` and in `torch.compile(backend="fxopt")`.

# %% tags=["nbval-check-output"]
project = (folder / "pyproject.toml").read_text()
print(project[project.index("# The name") : project.index("[tool")])

# %% [markdown]
# ## See the example at work
#
# *5 minutes.* It recognises GELU that is written out, as in the published code of GPT-2. The two lines with `import` do
# here what installing would do.
#
# **Prediction.** Eight operations become one in float32. What happens in half precision?

# %% tags=["nbval-check-output"]
import math

import torch

from fxopt_core.optimizer import GraphOptimizer

sys.path.insert(0, str(folder))
import my_capstone.recognise_gelu


def steps(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


for dtype in (torch.float32, torch.float16):
    result = GraphOptimizer(steps, (torch.linspace(-2, 2, 8).to(dtype),), device="cpu").optimize("recognise_gelu")
    [graph] = result.report.graphs
    print(dtype, "| rewrites:", len(graph.result.rewrites))
    for _, refusal in result.report.refusals:
        print("    refused:", refusal.reason)

# %% [markdown]
# It refuses with a **reason**: a function under `RewriteRule(checks=…)` that answers with a text. A pass that stays
# silent where it does nothing cannot be told from one that has overlooked something.
#
# ## Defend it: traps
#
# *10 minutes.* A [trap](../Glossary.md#trap) is a small program that looks as if a rewrite were legal. Here is a pass that
# a tired person might write: it merges calls that look alike.

# %% tags=["nbval-check-output"]
from fxopt_core.graphs.effects import effects_of
from fxopt_core.passes import GraphEditor, OptimizationPass
from fxopt_core.passes.base import Analysis, Opportunity


class Merging(OptimizationPass):
    """Calls of the same function on the same values become one."""

    name = "merging"

    def analyze(self, editor):
        analysis, seen = Analysis(), {}
        for node in editor.graph.nodes:
            if node.op != "call_function" or not self.may_merge(node):
                continue
            first = seen.setdefault((node.target, node.args, str(node.kwargs)), node)
            if first is not node:
                analysis.opportunities.append(Opportunity(node, first))
        return analysis

    def may_merge(self, node):
        return True

    def transform(self, editor, opportunity):
        node, first = opportunity.node, opportunity.data
        editor.replace(node, first)


def noisy(x):
    one = torch.nn.functional.dropout(x, 0.5, True)
    other = torch.nn.functional.dropout(x, 0.5, True)
    return one - other


def after(pass_, graph_module):
    editor = GraphEditor(graph_module)
    pass_.run(editor)
    editor.finish()
    return graph_module


print(after(Merging(), torch.fx.symbolic_trace(noisy)).code)

# %% [markdown]
# **Prediction.** What does this graph return, whatever the input is? And what will tell you so?
#
# The [oracle](../Glossary.md#oracle) plays a caller who sees everything: results, gradients, what shares memory, the
# random stream, and what happens when the caller writes to what came back. It shares no code with the passes.

# %% tags=["nbval-check-output"]
from autograder.traps.oracle import differences

inputs = (torch.arange(6.0),)
[found] = differences(torch.fx.symbolic_trace(noisy), after(Merging(), torch.fx.symbolic_trace(noisy)), inputs)[:1]
print(found.split(";")[0])


# %% tags=["nbval-check-output"]
class Careful(Merging):
    """Leaves alone what draws, writes, or is unknown."""

    def may_merge(self, node):
        return not effects_of(node).observable


found = differences(torch.fx.symbolic_trace(noisy), after(Careful(), torch.fx.symbolic_trace(noisy)), inputs)
print("differences:", found)

# %% [markdown]
# ## Defend it: the fuzzer
#
# *5 minutes.* Traps are what somebody thought of. A [fuzzer](../Glossary.md#fuzzer) writes random programs: views, writes
# in place, draws, shared modules.
#
# **Prediction.** `Careful` never merges what draws or writes. Is it right on all of these programs?

# %% tags=["nbval-check-output"]
import contextlib
import copy
import io
import random
import warnings

from autograder.traps.random_programs import random_program

warnings.simplefilter("ignore")
wrong = {"Merging": 0, "Careful": 0}
for number in range(40):
    program, values = random_program(random.Random(f"guide/{number}"))
    values = tuple(value.detach() for value in values)
    for pass_ in (Merging(), Careful()):
        changed = after(pass_, copy.deepcopy(program))
        with contextlib.redirect_stderr(io.StringIO()):
            found = differences(copy.deepcopy(program), changed, values, keeps_state=False, raises=True)
        wrong[type(pass_).__name__] += bool(found)
print("wrong on some of 40:", {name: count > 0 for name, count in wrong.items()})

# %% [markdown]
# No: between two reads of a tensor another node may write to it, and two results that were two tensors must not become
# one if the caller gets both. `editor.storages` knows which nodes share memory and when it is written. Day 2's
# `merge_duplicates` had to ask it, too.
#
# ## Defend it: traps made for you
#
# *2 minutes.* The judge looks at what your pass rewrote, and then writes traps for that. Between the nodes that you took,
# it plants a write, a switch of modes, another reader, or somebody who reads memory by its strides. It also cuts your nodes
# out, and calls them in other dtypes and layouts. A pass that goes on rewriting gets no rank, and the message names the
# plant. These are the questions to ask before you rewrite:
#
# | question | ask |
# | --- | --- |
# | Do both nodes see the same content? | `editor.timeline.version(value, node)` |
# | Are they computed in the same mode? | `editor.timeline.mode(node)` |
# | Who else gets this value? | `node.users`, `editor.storages.escapes(node)` |
# | Does it draw, write, or do anything unknown? | `effects_of(node)` |
# | Which dtype, shape and strides? | `example_of(node)`, from `fxopt_core.graphs.examples` |

# %% [markdown]
# ## What others found out only by failing
#
# *3 minutes.*
#
# - **Tolerance.** State one (`tolerance = Tolerance(relative=1e-5)`), at most 1e-4. In half precision, few rewrites keep it:
#   refuse there.
# - **A second run changes nothing.** If your pass finds work in its own result, it fails.
# - **What may stay in a graph**: functions and modules of `torch`, operators of ATen. Not a Python function of yours, not a
#   module class of yours, not a graph within the graph.
# - **The editor.** Change the graph only inside `transform`: `insert` or `call` first, `replace` and `erase` last. A node made
#   from an erased one, or before a value that it reads, raises at once. `constant` registers a tensor; make it an
#   `nn.Parameter` if gradients should find one, and say `keeps_gradients = False` if you fold weights.
# - **Batch sizes.** A torch-level graph serves every batch. A number from the example's shape breaks it.

# %% [markdown]
# ## Measure: let the harness do it
#
# *5 minutes.* `fxopt capstone check FOLDER` installs the package in a sandbox without network or judge. A judge outside sends
# graphs, compares what comes back, counts, and writes the report. Nobody reads what your package prints about itself.
# `--quick` tries all models and one in ten of the other programs, so its gain is that of the full check. The hidden models
# depend on what is in your package: change a line, and you meet others.

# %%
fxopt("capstone", "check", folder, "--quick")

# %% [markdown]
# The template is right, and it gets no rank: it is the course's. Two gains stand in the table. **Alone** is what the pass
# saves by itself. **Beyond** is what it still saves where the template and every preset have run before it, and this one
# counts. Both are means of four shares (nodes, kernels, bytes, FLOPs) in core ATen, so it doesn't help to write the same
# operation in another way. Time is measured in turn and shown with its spread, but ranks nobody: it would rank machines.
#
# What do the hidden models waste? They are transformers, recurrent cells, experts, convolutions, tables and losses, each
# spelled in its own way: several layers read one input, masks are made anew each time, formulas are written out, and
# constants are computed on every call.
#
# ## The other two kinds
#
# *5 minutes.* A capture tool is judged by a question: **for which calls is its graph right?** Tracing has three
# ways of being silently wrong: it takes a draw for a constant, one side of a choice for the whole, and a size for a number.
#
# **Prediction.** Which of these two models does `symbolic_trace` refuse, and which does it get wrong?


# %% tags=["nbval-check-output"]
class Noise(torch.nn.Module):
    def forward(self, x):
        return x + torch.randn(4)


class Choice(torch.nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


for model in (Noise(), Choice()):
    try:
        graph_module = torch.fx.symbolic_trace(model)
        found = differences(model, graph_module, (torch.arange(4.0),))
        print(type(model).__name__, "captured; wrong:", bool(found))
    except Exception as error:
        print(type(model).__name__, "refused:", str(error)[:60])

# %% [markdown]
# The capture template refuses both, and follows loops and choices by *size*, which `symbolic_trace` cannot. A graph that
# is wrong costs you the pass; a refusal costs one model.
#
# A cost tool names what it does not know: `None` for an operator without a formula. Custom operators are in the hidden
# graphs; a zero for one of them looks as if it were counted.
#
# ## Hand in, and the leaderboard
#
# *2 minutes.* `fxopt capstone check FOLDER --report REPORT` writes the report. Hand in the package with its README, and the
# report. `fxopt leaderboard FOLDER…` checks packages in full and ranks them by their gain beyond, each kind by itself, one
# row per package. It computes the ranking from the packages every time, so there is no file to edit.

# %% tags=["nbval-check-output"]
fxopt("leaderboard")

# %% [markdown]
# ## What to remember
#
# - Start from what works; keep `fxopt capstone check --quick` green while you change it.
# - Each condition of legality: a reason in words, a program that goes wrong without it, a test.
# - Refuse rather than guess. Measure with what you did not write yourself.
# - Ideas: layers of one input merged; a mask made once; a choice by value captured with `torch.cond`; normalisation and
#   convolutions counted.
