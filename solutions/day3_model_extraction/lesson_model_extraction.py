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
# # Day 3: getting the graph out
#
# *About 120 minutes.* (This lesson is being written.)

# %%
import torch
from torch import nn

program = torch.export.export(nn.Linear(3, 2), (torch.ones(4, 3),))
print(program.graph_module.code)
