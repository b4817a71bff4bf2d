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
# *About 10 minutes.* Task 6 of the exercise asks for a technical deep dive: one mechanism, explained to a colleague who
# knows PyTorch and no compilers. Here is one, with 400 words and one measurement. Its mechanism is taken, so choose
# another.
#
# | part | what a person looks for in it |
# | --- | --- |
# | the problem | one mechanism, and what it is for |
# | the approach | how it works, and under which conditions |
# | measured | a number that the reader can get, too |
# | what is given up | the price, and when one would do otherwise |
#
# The lines in italics under a heading say what its author wanted to do there. Yours has none.

# %%
# %matplotlib inline
import torch
from matplotlib import pyplot
from torch import nn

from fxopt_core.passes.recomputation import RecomputationPlanner

# %% [markdown]
# ## The problem: training remembers everything
#
# *2 minutes.* *One sentence for the problem, one number for its size; no word that the colleague does not know.*
#
# To compute gradients, PyTorch keeps what each layer of the forward pass made, until the backward pass needs it. In the
# network below the weights take 1.5 MiB. How much do the kept results take?

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
# Many times as much, and it grows with the batch. Where memory runs out, these are what can be spared.

# %% [markdown]
# ## The approach: forget, and compute again
#
# *3 minutes.* *The mechanism in four sentences. Then its conditions: without them an explanation is an advertisement.*
#
# **Recomputation** (Chen et al., *Training Deep Nets with Sublinear Memory Cost*, 2016) keeps the input of a block and
# forgets what is made inside. When the backward pass arrives there, the block runs forward once more.
#
# It gives the same gradients only if the second run does what the first did:
#
# - random numbers (dropout) must be drawn again from the same state;
# - what the block writes (running statistics) must not be written twice;
# - nothing that it reads may have changed in between.
#
# So a tool has to check, not to hope. `RecomputationPlanner` runs a step with each choice of blocks, compares loss,
# gradients and buffers with those of the unchanged step, and measures the peak from allocation events.

# %% [markdown]
# ## Measured: memory against time
#
# *3 minutes.* *One picture, the same as text, and what in it may differ elsewhere.*

# %%
planner = RecomputationPlanner(model, (batch,), loss=lambda output: output.square().mean(), rungs=4, repeats=3)

# %% tags=["nbval-check-output"]
print("gradients agree to the last bit:", planner.exact)
for point in planner.curve:
    print(f"{len(point.segments):2} blocks recomputed: {point.budget:4.0%} of the memory")

# %%
figure, axes = pyplot.subplots(figsize=(7, 4), layout="constrained")
first = planner.curve[0]
axes.plot(
    [point.measured_bytes / 2**20 for point in planner.curve],
    [point.seconds / first.seconds for point in planner.curve],
    marker="o",
)
axes.set(xlabel="memory at the peak of a step (MiB)", ylabel="time of a step (unchanged = 1)", ylim=(0, None))
axes.set_title("Each mark: one more choice of blocks that are recomputed")
axes.grid(visible=True, alpha=0.3)
pyplot.close(figure)
figure

# %%
last = planner.curve[-1]
print(f"The last mark: {last.measured_bytes / first.measured_bytes:.0%} of the memory", end=" ")
print(f"for {last.seconds / first.seconds:.2f} times the time of the unchanged step.")
print("Memory is counted and the same everywhere; the times are three runs on this machine, and vary.")

# %% [markdown]
# A forward pass is about a third of a step (the backward pass computes two products for each of the forward pass). So
# the time to expect, when everything is computed twice, is 1.33 times that of the unchanged step.

# %% [markdown]
# ## What is given up, and when to do otherwise
#
# *2 minutes.* *The price in one line, then the cases in which the author would not do it. Nothing shows better that
# somebody has understood.*
#
# Up to a third more time buys most of the memory. I would **not** pay
#
# - where the batch fits: it is slower, and nothing else;
# - where memory goes to *weights* and optimiser state, which this does not touch (shard or quantise them instead);
# - for blocks that are dear to compute and small in what they keep, such as products of large matrices: keep these, and
#   recompute the cheap and large, such as activation functions.
#
# The last point is what this write-up did not do: it recomputes whole blocks. A compiler that sees single operations
# can choose better: PyTorch's *min-cut partitioner* does, in AOTAutograd.

# %% [markdown]
# ## What to remember
#
# - One mechanism; the problem first.
# - Conditions belong to the explanation.
# - A number that can be measured again, with what may differ.
# - The price, and when you would not pay it.
#
# Now yours: [exercise 5](ex_05_end_to_end_pipeline.ipynb).
