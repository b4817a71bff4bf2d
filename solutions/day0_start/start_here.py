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
# # Day 0: start here
#
# *Ten minutes. Then come two short lessons and one exercise: two hours in all.*
#
# This course is worked in notebooks like this one. Click into a cell and press **Shift+Enter**: it runs, and the next
# one is selected. Change what you like; nothing in a lesson is graded, and `Kernel, Restart Kernel` puts everything
# back.
#
# First see that your machine has what the course needs.

# %% [markdown]
# ## Is everything here?
#
# *3 minutes.* The **doctor** looks at Python, PyTorch, the C++ compiler, the drawing program and the rest. Each line
# says what is there and, where something is missing, how to get it.

# %%
import os
import subprocess
import sys


def fxopt(*arguments):
    """What you would type in a terminal as `fxopt …`; in JupyterLab: File, New, Terminal."""
    plain = os.environ | {"NO_COLOR": "1", "COLUMNS": "110"}
    command = [sys.executable, "-m", "fxopt_workbench.cli", *arguments]
    print(subprocess.run(command, capture_output=True, text=True, env=plain).stdout)


fxopt("doctor")

# %% [markdown]
# A line that is not ok does not always stop you: it says what you will miss. Without a C++ compiler, for example, day
# 1 cannot show the last stage at work.
#
# ## Where will it run?
#
# *2 minutes.* The course runs on an NVIDIA GPU, on an Apple GPU (MPS) or on the processor alone. It takes the best
# that is there; the environment variable `FXOPT_DEVICE` overrides that.

# %%
import torch

from fxopt_core.devices import available_devices, choose_device
from fxopt_workbench.capabilities import capabilities

device = choose_device()
print("present here:", ", ".join(available_devices()))
print("chosen:", device.type)
print("double precision there:", capabilities(device).float64)
x = torch.randn(2, 3, device=device)
print((x + x).shape)

# %% [markdown]
# ## How a check answers
#
# *3 minutes.* In an exercise, each task has a cell for your code and a **check** below it. A check runs your code on
# a few cases and says more than right or wrong: it tries to tell which idea went wrong.
#
# Here is an answer to the first task of today's exercise, the output size of a convolution, with a mistake in it.
#
# **Prediction.** Read the formula. What is wrong with it, and what will the check say?

# %%
from autograder import check


def too_small(input_shape, out_channels, kernel_size, stride, padding, dilation):
    sizes = [
        (size + p - d * (k - 1) - 1) // s + 1
        for size, k, s, p, d in zip(input_shape[2:], kernel_size, stride, padding, dilation, strict=True)
    ]
    return (input_shape[0], out_channels, *sizes)


check.day0.conv_output_shape(too_small)

# %% [markdown]
# The check tells you *which* mistake it is, and the table shows your own numbers. A task that you have not begun says
# so, too.
#
# **Prediction.** And if the answer is left as it was handed out?


# %% tags=["nbval-check-output"]
def not_begun(input_shape, out_channels, kernel_size, stride, padding, dilation):
    raise NotImplementedError


check.day0.conv_output_shape(not_begun)

# %% [markdown]
# ## Hand in, and see how far you are
#
# *2 minutes.* A check tries the cases that you may see. When you **submit** (the last cell of each exercise), others
# are tried as well, on a judge that never runs your code in its own process. You get your points at once and a page
# of feedback. You may hand in as often as you like.
#
# Functions that later days build on are saved in `my_fxopt/` when their check passes. It is your own package: by the
# end of the week it holds the beginnings of a graph optimiser.
#
# `fxopt progress` ticks the checklist of the week by what you have handed in.

# %%
fxopt("progress")

# %% [markdown]
# ## What to remember
#
# - **Shift+Enter** runs a cell; the **Validate** button runs all checks in a fresh process.
# - Check, then save, then submit. Hints below a task unfold one by one.
# - What a word means stands in the [glossary](../Glossary.md#computation-graph).
#
# Next: [a crash course in graphs](crash_course_graphs.ipynb).
