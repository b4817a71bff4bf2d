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
# *About 25 minutes.* All week, an optimiser has been checking your answers behind the scenes. Now you get to watch it
# work. You'll take one model through `fxopt_core` from start to finish: capture it, run the passes, read the report and
# the refusals, see the proof, and find out what it was all good for. Your capstone plugs into the same optimiser.

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
# *4 minutes.* Here's a small network for images, with attention over the pixels. Four things in it could be done better,
# and two more only look that way. **Prediction.** Which are the four?


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
# `GraphOptimizer` copied your model and tried to capture it, with the most faithful method first. It ran what it had
# captured beside the model, and took the first capture that gave the same answers.
#
# ## What the passes do, and what they refuse
#
# *6 minutes.* You seldom want to choose passes one by one, so there are presets. `exact` doesn't change a single bit of a
# result. `inference` may also fold weights, and each pass says how far that can move a number.

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
# A double border marks what was rewritten. One normalisation went into its convolution. The convolution and the head that
# ran twice now run once. Attention became a single operator, which picks the best kernel that it has for these shapes.
#
# What the optimiser left alone matters just as much. **Prediction.** Why can't it fold the *second* normalisation? And why
# does it keep `mixed.mean() * 0`, which is 0?

# %% tags=["nbval-check-output"]
for name, refusal in result.report.refusals:
    if name in ("conv_batchnorm_folding", "algebraic_simplification") or "writes" in refusal.reason:
        print(f"{name}: {refusal.node}\n    {refusal.reason}")

# %% [markdown]
# The second convolution has another reader, and that one wants the result without normalisation. The product with 0 isn't
# always 0: if `mixed` holds a NaN, so does the result, and you'd want to know. And the count of calls returns nothing, but
# somebody may read it later.
#
# ## How it knows
#
# *4 minutes.* Passes can be wrong, so somebody has to check them. Here's one that you may have written yourself on Day 2,
# in a first attempt: if nobody reads it, throw it away. **Prediction.** With this pass, the model's output stays the same
# to the last bit. Will the optimiser notice that anything is wrong?


# %%
@register_pass("hasty_dead_code")
class HastyDeadCode(OptimizationPass):
    """Takes out every call that nobody reads, the last one first. Wrong for calls that do more than return a value."""

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
# It noticed, because it compares everything that anybody could observe: the values (on inputs with NaN, infinity and -0.0,
# too), the buffers, the gradients, the random numbers, and which results share memory. Here, the count of calls was off. So
# it tried half of the rewrites, then half of those, until only the guilty one was left.
#
# You can also try inputs of your own on the result of the real passes:

# %% tags=["nbval-check-output"]
optimizer.optimize("inference")
more = [(scale * torch.randn(8, 3, 16, 16, device=device),) for scale in (0.01, 100.0)]
print("the same on more inputs:", bool(optimizer.verify(more)))

# %% [markdown]
# ## What it can gain at best
#
# *3 minutes.* Before you measure, ask the [roofline](../Glossary.md#roofline) what you can hope for. **Prediction.** The
# passes saved only a few FLOPs. Does that mean the estimated time hardly falls either?

# %%
costs = result.report.graphs[0].costs
estimates = [estimate(cost, published("m2")) for cost in costs]
plot(estimates)

# %% tags=["nbval-check-output"]
for name, one in zip(("before", "after"), estimates, strict=True):
    total = one.analysis.total
    print(f"{name:6}: {total.flops / 1e6:5.1f} MFLOP, {total.bytes / 1e6:5.1f} MB moved,", end=" ")
    print(f"at least {one.seconds * 1e6:.0f} microseconds on {one.hardware.description}")

# %% tags=["claim"]
# A tenth of the FLOPs went, and a fiftieth of the bytes; the fused attention changed neither.
kept = [
    getattr(estimates[1].analysis.total, name) / getattr(estimates[0].analysis.total, name)
    for name in ("flops", "bytes")
]
assert 0.88 < kept[0] < 0.92
assert 0.97 < kept[1] < 0.99

# %% [markdown]
# It falls even less. Nearly every operation sits on the slope, where it waits for memory. That's why bytes count here, not
# FLOPs: a tenth of the FLOPs went, and a fiftieth of the bytes. The fused attention changes neither: this estimate counts it
# by its parts. What it saves is the memory for the scores. Look for that below, in the column *peak memory*.
#
# ## What it gains in fact
#
# *3 minutes.* Now measure, and never alone: put a peer beside it. PyTorch has its own way of folding normalisations into
# convolutions, `torch.fx.experimental.optimization.fuse`. The candidates take turns, so that a busy moment hits them all.
# **Prediction.** Watch the column *largest error*. One of the two is much larger than the other. Which one?

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
# An error that large doesn't come from rounding. `fuse` folded the second normalisation into a convolution that the model
# calls twice, so the other call is normalised now as well. It may be fast, but it's wrong, and in the very place where the
# report above refused.
#
# Read the other columns with care. *Unclear* means that the difference is smaller than the spread. And your machine may
# well put them in another order than ours.

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
# *4 minutes.* Passes decide *what* gets computed. How fast it goes depends on what runs the graph, and you have a choice of
# engines: PyTorch (one operator at a time), Inductor, ONNX Runtime, OpenVINO. With `engine="auto"`, the optimiser tries all
# that you have installed, each in a process of its own. First it checks that the engine is right, and not just on the
# example. Then it times them in turn and takes the fastest. Here, two of them get 40 seconds. **Prediction.** The model
# counts its calls. Which engine can't do that?

# %%
from fxopt_workbench.engines import Auto

chosen = optimizer.optimize("inference", engine=Auto(seconds=40, only=("inductor", "onnxruntime")))
chosen.report.engine

# %% tags=["nbval-check-output"]
print(chosen.report.engine["onnxruntime"].refusal.partition(" (")[0].partition("; pip")[0])

# %% [markdown]
# An engine that only computes values would lose the count, so the optimiser didn't even try it. It's the model that rules it
# out, and you can change the model: without the count, all of them could run it. Each row that was timed tells you how much
# faster it was, and how far the timings spread. If the gain is no larger than the spread, the graph runs as it is.

# %%
print(chosen.report.engine.alt_text())
chosen.report.engine.plot()

# %% [markdown]
# To keep the decision, together with whatever the engine compiled, call `chosen.report.engine.save("engine")`. It holds for
# this machine and these versions. To see every engine on real models, with the passes and without them, run
# `fxopt bench models` in a terminal. It takes a while.
#
# ## What to remember
#
# - Knowing what an optimiser **refused** is worth as much as knowing what it did.
# - Don't trust a pass. **Compare** everything that can be observed, and on more than the example.
# - Estimate first (bytes!), then **measure**: beside a peer, and with the spread.
# - You can choose what *runs* the graph, too. Take the fastest engine that's **right**, and say what you refused.
#
# You can do all of this in a terminal: `fxopt optimize --model yolov8n --draw report.html`.
#
# Next: [how to write about it](writeup_example.ipynb).
