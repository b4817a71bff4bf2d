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
# # Day 5: a write-up, as an example
#
# *About 10 minutes.* In the exercise you'll write a technical deep dive: you explain one mechanism to a colleague who knows
# PyTorch but not compilers. Here's an example, with one measurement. This mechanism is taken, so choose another one.
#
# | part | what your reader looks for in it |
# | --- | --- |
# | the problem | one mechanism, and what it's good for |
# | the approach | how it works, and under which conditions |
# | measured | a number that the reader can measure as well |
# | what you give up | the price, and when you'd rather not pay it |
#
# Under each heading, a line in italics says what the author wanted to do there. You don't need those in yours.

# %%
# %matplotlib inline
import torch
from matplotlib import pyplot
from torch import nn

from fxopt_core.benchmark import measure_interleaved
from fxopt_core.costs import record_allocations
from fxopt_core.optimizer import GraphOptimizer

# %% [markdown]
# ## The problem: training remembers everything
#
# *2 minutes.* *State the problem in one sentence and its size in one number. Use no word that your colleague doesn't know.*
#
# To compute gradients, PyTorch keeps what each layer computes in the forward pass until the backward pass needs it. In the
# network below, the weights take 1.5 MiB. How much do the results take that it keeps?

# %% tags=["nbval-check-output"]
torch.manual_seed(0)
blocks = [nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64)) for _ in range(12)]
model, batch = nn.Sequential(*blocks), torch.randn(1024, 64)

weights = sum(parameter.nbytes for parameter in model.parameters())
kept = {}


def keep(tensor):
    kept[tensor.data_ptr()] = tensor  # each piece of memory once
    return tensor


with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
    model(batch)
own = {parameter.data_ptr() for parameter in model.parameters()}
results = sum(tensor.nbytes for address, tensor in kept.items() if address not in own)
print(f"weights {weights / 2**20:.1f} MiB, results that are kept {results / 2**20:.1f} MiB")

# %% [markdown]
# Many times as much, and it grows with the batch. So if you run out of memory, these results are the first thing to
# do without.

# %% [markdown]
# ## The approach: forget, and compute again
#
# *3 minutes.* *Explain the mechanism in a few sentences. Then give its conditions. Without them, you're advertising.*
#
# **Recomputation** (Chen et al., *Training Deep Nets with Sublinear Memory Cost*, 2016) keeps the input of a stretch of
# the network and forgets what the stretch computes inside. When the backward pass gets there, the stretch runs forward
# once more.
#
# You only get the same gradients if the second run does exactly what the first one did:
#
# - it has to draw the same random numbers (think of dropout);
# - it mustn't write anything twice (think of running statistics);
# - nothing that it reads may have changed in the meantime.
#
# A tool can't just hope for that, it has to check. The pass `recomputation` leaves alone whatever a second run might
# change. Let's measure its memory, and compare its gradients with those of the unchanged network.

# %% [markdown]
# ## Measured: memory against time
#
# *3 minutes.* *Show one picture, say the same in text, and say what may look different on another machine.*

# %%
optimizer = GraphOptimizer(model, (batch,))
networks = {1.0: model}
for budget in (0.7, 0.4, 0.25):
    networks[budget] = optimizer.optimize(["recomputation"], memory_budget=budget).module


def training_step(network):
    network.zero_grad()
    network(batch).square().mean().backward()
    return [parameter.grad for parameter in network.parameters()]


peaks = {}
expected = training_step(model)
agree = True
for budget, network in networks.items():
    gradients, record = record_allocations(lambda network=network: training_step(network))
    peaks[budget] = record.peak_bytes(without=gradients)
    agree = agree and all(map(torch.equal, gradients, expected))

times = measure_interleaved(
    {budget: lambda network=network: training_step(network) for budget, network in networks.items()}, repeats=7
)

# %% tags=["nbval-check-output"]
print("gradients agree to the last bit:", agree)
for budget, peak in peaks.items():
    print(f"a budget of {budget:4.0%}: {peak / peaks[1.0]:4.0%} of the memory")

# %%
figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
seconds = [times[budget].median / times[1.0].median for budget in peaks]
axes.plot([peak / 2**20 for peak in peaks.values()], seconds, marker="o")
axes.set(xlabel="memory at the peak of a step (MiB)", ylabel="time of a step (unchanged = 1)", ylim=(0, None))
axes.set_title("Each mark: a smaller budget, more that is computed again")
axes.grid(visible=True, alpha=0.3)
pyplot.close(figure)
figure

# %%
print(f"The last mark: {list(peaks.values())[-1] / peaks[1.0]:.0%} of the memory", end=" ")
print(f"for {seconds[-1]:.2f} times the time of the unchanged step.")
print("Memory is counted and the same everywhere; the times are seven runs on this machine, and vary.")

# %% [markdown]
# What should you expect? For each product in the forward pass, the backward pass computes two. So the forward pass is about
# a third of a step, and if you compute all of it twice, the step takes about 1.33 times as long.

# %% [markdown]
# ## What you give up, and when you'd rather not
#
# *2 minutes.* *Put the price in one line. Then say when you wouldn't pay it. Nothing shows better that you've understood.*
#
# You pay up to a third more time, and get most of the memory back. I would **not** pay
#
# - if the batch fits anyway: it only gets slower;
# - if *weights* and optimiser state take up the memory, because this doesn't touch them (shard or quantise them instead);
# - for a result that's expensive to compute and small to keep, such as a product of large matrices. Keep it, and
#   recompute what's cheap and large, such as activation functions.
#
# That's why the pass looks at single operations instead of whole blocks: with a generous budget, it only recomputes
# activation functions. PyTorch's *min-cut partitioner*, in AOTAutograd, weighs the same things.
# `fxopt bench recompute` measures both at the same peak.

# %% [markdown]
# ## What to remember
#
# - Explain one mechanism, and start with the problem.
# - The conditions belong to the explanation.
# - Give a number that your reader can measure again, and say what may differ.
# - Name the price, and say when you wouldn't pay it.
#
# Now yours: [exercise 5](ex_05_end_to_end_pipeline.ipynb).
