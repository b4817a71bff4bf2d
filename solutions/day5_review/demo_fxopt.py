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
# # Day 5, demo: an optimiser in action
#
# *About 25 minutes.* Here is `fxopt_core`, the optimiser that stood behind the checks of this week, on one model: capture,
# passes, report, refusals, proof, and what it was good for. It is also what your capstone will plug into.

# %%
# %matplotlib inline
import warnings

import torch
from torch import nn

from fxopt_core.benchmark import benchmark
from fxopt_core.devices import choose_device
from fxopt_core.optimizer import GraphOptimizer
from fxopt_core.passes import Analysis, Opportunity, OptimizationPass, register_pass
from fxopt_workbench.hardware.hardware import published
from fxopt_workbench.hardware.roofline import estimate
from fxopt_workbench.hardware.roofline_plot import plot
from fxopt_workbench.results.optimizations import draw_changes

warnings.filterwarnings("ignore", category=DeprecationWarning)
device = choose_device()

# %% [markdown]
# ## A model, and its graph
#
# *4 minutes.* A small network for images, with attention over the pixels. Four things in it could be done better, and two
# more only look as if they could. **Prediction.** Which are the four?


# %%
class Pixels(nn.Module):
    """(batch, 3, 16, 16) to (batch, 4)."""

    def __init__(self):
        super().__init__()
        self.first, self.first_norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.shared, self.shared_norm = nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.query, self.key, self.value = (nn.Linear(8, 8) for _ in range(3))
        self.head = nn.Linear(8, 4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        x = torch.relu(self.first_norm(self.first(x)))
        x = torch.relu(self.shared_norm(self.shared(x)) + self.shared(x))
        pixels = x.flatten(2).transpose(1, 2)
        scores = self.query(pixels) @ self.key(pixels).transpose(1, 2) / 8**0.5
        mixed = torch.softmax(scores, dim=-1) @ self.value(pixels)
        return self.head(mixed.mean(1)) * torch.sigmoid(self.head(mixed.mean(1))) + mixed.mean() * 0


torch.manual_seed(0)
model, x = Pixels().to(device), torch.randn(8, 3, 16, 16, device=device)
for _ in range(3):
    model(x)  # in training mode, so that the normalisations have seen data
model.eval()
optimizer = GraphOptimizer(model, (x,))
{attempt.strategy: attempt.failure or "agrees" for attempt in optimizer.attempts}

# %% [markdown]
# `GraphOptimizer` has copied the model, tried the methods of capture from the most to the least faithful, compared what
# each captured with the model, and taken the first that was right.
#
# ## What the passes do, and what they refuse
#
# *6 minutes.* A preset is a list of passes. `exact` changes no bit of a result; `inference` may also fold weights, within
# a tolerance that each pass states.

# %%
result = optimizer.optimize("inference")
result.report

# %% tags=["nbval-check-output"]
for name, both in result.report.before_and_after.items():
    print(f"{name:6} {both[0]:>10,} before {both[1]:>10,} after")
rules = [rewrite.rule for rewrite in result.report.rewrites]
print({rule: rules.count(rule) for rule in dict.fromkeys(rules)})

# %% tags=["claim"]
# One normalisation folded, the repeated convolution and head merged, attention in one operation.
assert any("batch" in rule or "normalisation" in rule for rule in rules), rules
assert any("attention" in rule for rule in rules), rules

# %%
before, after = draw_changes(result.report)[0]
before

# %%
after

# %% [markdown]
# The rewritten places have a double border. One normalisation is folded into its convolution, the repeated convolution
# and the repeated head are merged, and attention has become one operation that never writes its scores to memory.
#
# Just as important is what was left alone. **Prediction.** Why may the *second* normalisation not be folded? And why not
# `mixed.mean() * 0`, which is 0?

# %% tags=["nbval-check-output"]
for name, refusal in result.report.refusals:
    if name in ("conv_batchnorm_folding", "algebraic_simplification") or "writes" in refusal.reason:
        print(f"{name}: {refusal.node}\n    {refusal.reason}")

# %% [markdown]
# What the convolution computes has another reader, who wants it without normalisation. And if one value of `mixed` is
# NaN, `0 * NaN` is NaN: a sum that looks useless hands on a warning. The count of calls, finally, returns nothing, and
# yet somebody may read it.
#
# ## How it knows
#
# *4 minutes.* A pass can be wrong. Here is one that you may have written on Day 2 in your first attempt: what nobody
# reads is not needed. **Prediction.** The output of the model stays the same, to the last bit. Will the optimiser find
# out that something is wrong?


# %%
@register_pass("hasty_dead_code")
class HastyDeadCode(OptimizationPass):
    """Calls that nobody reads are taken out, the last first. Wrong for those that do more than return a value."""

    def analyze(self, editor):
        dead = []
        for node in reversed(editor.graph.nodes):
            if node.op == "call_function" and all(user in dead for user in node.users):
                dead.append(node)
        return Analysis([Opportunity(node) for node in dead])

    def transform(self, editor, opportunity):
        editor.erase(opportunity.node)


hasty = optimizer.optimize(["hasty_dead_code"])

# %% tags=["nbval-check-output"]
print("taken back:", list(hasty.report.denied))
print("does what the model does:", bool(hasty.report.equivalence))

# %% [markdown]
# It compares everything that can be observed: values, also on inputs with NaN, infinity and -0.0; and also buffers,
# gradients, random numbers, and which results share memory. Here the count of calls was not what it should be. Then it
# tried halves of the rewrites, and halves of those, until one was left to blame.
#
# Inputs of your own can be tried, too, on the result of the real passes:

# %% tags=["nbval-check-output"]
optimizer.optimize("inference")
more = [(scale * torch.randn(8, 3, 16, 16, device=device),) for scale in (0.01, 100.0)]
print("the same on more inputs:", bool(optimizer.verify(more)))

# %% [markdown]
# ## What it can gain at best
#
# *3 minutes.* The [roofline](../Glossary.md#roofline) before anybody measures. **Prediction.** The passes saved few
# FLOPs. Will the estimate for a graphics card fall by little, too?

# %%
costs = result.report.graphs[0].costs
estimates = [estimate(cost, published("m2")) for cost in costs]
plot(estimates)

# %% tags=["nbval-check-output"]
for name, one in zip(("before", "after"), estimates, strict=True):
    total = one.analysis.total
    print(f"{name:6}: {total.flops / 1e6:5.1f} MFLOP, {total.bytes / 1e6:5.1f} MB moved,", end=" ")
    print(f"at least {one.seconds * 1e6:.0f} microseconds on {one.hardware.description}")

# %% [markdown]
# Nearly all operations lie on the slope: they wait for memory. So what counts are bytes, and of those attention saved
# most.
#
# ## What it gains in fact
#
# *3 minutes.* Measured here, in turn, beside a peer: PyTorch's own folding of normalisation into convolutions,
# `torch.fx.experimental.optimization.fuse`. **Prediction.** Look at the column *largest error*, too. One of the two is
# not like the other. Which?

# %%
from torch.fx.experimental.optimization import fuse

candidates = {
    "model": model,
    "fuse": fuse(model),
    "fxopt": optimizer.optimize("inference").module,
}


def call_of(candidate):
    def call():
        with torch.no_grad():
            return candidate(x)

    return call


report = benchmark({name: call_of(candidate) for name, candidate in candidates.items()}, warmup=3, repeats=20)
report

# %% [markdown]
# The error of `fuse` is no rounding. It folded the second normalisation into a convolution that is called twice, and the
# other call got it, too. However fast it is, it is wrong: at the very place that the report above refused.
#
# Read the rest with care. Where the column says *unclear*, the difference is smaller than the spread; and the order on
# your machine is your machine's.

# %% tags=["nbval-check-output"]
for name in ("fuse", "fxopt"):
    print(f"{name:6} {'agrees with the model' if report[name].largest_error < 1e-4 else 'DIFFERS'}")

# %% tags=["claim"]
# The peer is wrong here, and the optimiser is not.
assert report["fuse"].largest_error > 1e-4
assert report["fxopt"].largest_error < 1e-4

# %% [markdown]
# ## What runs it
#
# *4 minutes.* Passes say *what* is computed. What runs the graph decides how fast, and there are several engines: PyTorch
# operator by operator, Inductor, ONNX Runtime, OpenVINO. With `engine="auto"` the optimiser tries all that are installed,
# each in a process of its own: is it right, on more than the example? Then it times them in turn, and takes the fastest.
# Here two of them have half a minute. **Prediction.** The model counts its calls. Which engine cannot do that?

# %%
from fxopt_workbench.engines import Auto

chosen = optimizer.optimize("inference", engine=Auto(seconds=40, only=("inductor", "onnxruntime")))
chosen.report.engine

# %% tags=["nbval-check-output"]
print(chosen.report.engine["onnxruntime"].refusal.partition(" (")[0].partition("; pip")[0])

# %% [markdown]
# An engine that only computes values would lose the count, so it was not even tried. That is a property of the model, and
# you can change it: a model without the count may be run by all of them. Each row that was timed says how much faster it
# was, and within what spread; where the gain is no larger than the spread, the graph runs as it is.

# %%
print(chosen.report.engine.alt_text())
chosen.report.engine.plot()

# %% [markdown]
# `chosen.report.engine.save("engine")` keeps the decision with what was compiled, for this machine and these versions. All
# engines on real models, with the passes and without: `fxopt bench models`, in a terminal.
#
# ## What to remember
#
# - A report that names what was **refused** is worth as much as one that names what was done.
# - Trust no pass: **compare** everything observable, on more than the example.
# - Estimate first (bytes!), then **measure**, beside peers, with the spread.
# - What *runs* the graph is a choice, too: take the fastest one that is **right**, and say what you refused.
#
# The same in a terminal: `fxopt optimize --model yolov8n --draw report.html`.
#
# Next: [how one writes about it](writeup_example.ipynb).
