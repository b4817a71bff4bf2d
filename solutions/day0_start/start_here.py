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
# *Ten minutes here, then two short lessons and one exercise: two hours in all.*
#
# You'll work in notebooks like this one. Click into a cell and press **Shift+Enter** to run it and move on to the next.
# Change whatever you like: nothing in a lesson is graded. `Kernel, Restart Kernel` forgets everything that your cells
# have computed. It doesn't undo your edits. If you want the original back, delete the notebook and run
# `fxopt workspace` in a terminal.
#
# First, let's see whether your machine has what the course needs.

# %% [markdown]
# ## Is everything here?
#
# *3 minutes.* Nothing is more annoying than a lesson that stops halfway because something isn't installed. The
# **doctor** tries it all: Python, PyTorch, the C++ compiler, the drawing program and the rest. It really compiles and
# draws something, so give it up to a minute. Each line tells you what it found and, if something is missing, how to
# get it.

# %%
import os
import subprocess
import sys


def fxopt(*arguments):
    """What you would type in a terminal as `fxopt …`; in JupyterLab: File, New, Terminal."""
    plain = os.environ | {"NO_COLOR": "1", "FORCE_COLOR": "", "COLUMNS": "110"}
    command = [sys.executable, "-m", "fxopt_workbench.cli", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=plain)
    for line in process.stdout:
        print(line, end="", flush=True)
    process.wait()


fxopt("doctor")

# %% [markdown]
# A line that isn't OK doesn't always stop you: it tells you what you'd miss. Without a C++ compiler, for example, day 1
# can't show you the last stage at work.
#
# ## Where will it run?
#
# *2 minutes.* You don't need a GPU. The course runs on an NVIDIA GPU, on an Apple GPU (MPS), or on your processor
# alone. It takes the best one it finds. To choose another, set the environment variable `FXOPT_DEVICE`.

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
# *3 minutes.* "Wrong" isn't much of an answer. In an exercise, each task has a cell for your code and a **check** below
# it. The check runs your code on a few cases and tries to tell you *which idea* went wrong.
#
# Here's an answer to the first task of today's exercise: how large is what a convolution gives back? The rule is to
# count how many places the kernel fits into each dimension, once padding has been added on *both* sides. This answer
# has a mistake in it.
#
# **Prediction.** Compare the code with the rule. What is wrong, and what will the check say?

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
# The check names the mistake, and the table shows your own numbers beside the right ones.
#
# **Prediction.** What will it say if you leave the answer as you found it?


# %% tags=["nbval-check-output"]
def not_begun(input_shape, out_channels, kernel_size, stride, padding, dilation):
    raise NotImplementedError


check.day0.conv_output_shape(not_begun)

# %% [markdown]
# ## Hand in, and see how far you are
#
# *2 minutes.* A check only tries cases that you can see. When you **submit** (the last cell of each exercise), your
# code meets others as well, so an answer that only fits the visible ones won't get far. You get your points and a
# page of feedback straight away, and you can hand in as often as you like.
#
# When a check passes, functions that you'll need later go into `my_fxopt/`. That's your own package: by the end of the
# week it holds the beginnings of a graph optimiser.
#
# `fxopt progress` ticks off the checklist as you pass what you've handed in.

# %%
fxopt("progress")

# %% [markdown]
# ## What to remember
#
# - **Shift+Enter** runs a cell; the **Validate** button runs all checks in a fresh process.
# - Check, then save, then submit. Hints below a task unfold one by one.
# - Look up a word in the [glossary](../Glossary.md#computation-graph) when you meet one you don't know.
#
# Next: [a crash course in graphs](crash_course_graphs.ipynb).
