"""The program around the classes of a standalone file: reading tensors back, running, comparing."""

from string import Template

PROGRAM = Template(
    r'''#!/usr/bin/env python3
r"""Graphs captured by fxopt ($how).

Running this file runs every graph on its example inputs and prints the largest difference to the outputs that were
recorded when it was captured. What the graphs do not say about the model: $caveats
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch.utils._pytree import tree_leaves
$imports

STORED = load_file(Path(__file__).with_name($tensors))


def tensor(name, device="cpu", stride=None):
    """A fresh copy of a stored tensor: graphs may change what they are given."""
    stored = STORED[name]
    fresh = torch.empty_strided(stored.shape, stride or stored.stride(), dtype=stored.dtype, device=device)
    return fresh.copy_(stored)


$classes

def difference(output, expected):
    """The largest difference, and whether it is no more than rounding."""
    if not isinstance(expected, torch.Tensor):
        return 0.0, output == expected or (output != output and expected != expected)
    if not isinstance(output, torch.Tensor) or output.shape != expected.shape or output.dtype != expected.dtype:
        return float("inf"), False
    output, expected = output.cpu(), expected.cpu()  # not every device has double precision
    same = (output == expected) | ((output != output) & (expected != expected))
    apart = (output.double() - expected.double()).abs().masked_fill(same, 0)
    largest = apart.max().item() if apart.numel() else 0.0
    if not expected.is_floating_point():
        return largest, bool(same.all())
    magnitude = expected.double().abs().nan_to_num(0, 0, 0).max().item() if expected.numel() else 0.0
    return largest, largest <= 1000 * torch.finfo(expected.dtype).eps * max(1.0, magnitude)


def shown(value):
    if not isinstance(value, torch.Tensor):
        return repr(value)
    return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"


def check(graph, inputs, expected, cpu_random_state=None, cuda_random_state=None):
    """Run one graph; print shapes and the largest difference; say whether it agrees."""
    print(f"{type(graph).__name__}:", ", ".join(map(shown, tree_leaves(inputs))) or "no inputs")
    if cpu_random_state is not None:
        torch.set_rng_state(cpu_random_state)
    if cuda_random_state is not None:
        torch.cuda.set_rng_state(cuda_random_state)
    with torch.no_grad():
        outputs = tree_leaves(graph(*inputs))
    if len(outputs) != len(expected):
        print(f"  {len(outputs)} outputs instead of {len(expected)}")
        return False
    agree = True
    for output, value in zip(outputs, expected):
        largest, close = difference(output, value)
        agree = agree and close
        print(f"  -> {shown(output)}, largest difference {largest:.3g}{'' if close else '  DIFFERENT'}")
    return agree


def main():
    results = [
$entries
    ]
    print(f"{sum(results)} of {len(results)} graphs agree with what was recorded")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
'''
)
"""Takes `how`, `caveats`, `imports`, `tensors`, `classes` and `entries`."""
