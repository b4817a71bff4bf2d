"""Sizes that become long formulas: a sign that proving what follows from them takes minutes.

Where a model pads an image to whole windows, stage after stage, the size of a late stage is a formula of hundreds of
operations on that of the image. Each view then makes SymPy simplify it: the Swin of Donut, with 64 by 64 pixels, was
not done after 240 s. The sizes of models whose formulas stay short have at most 27 operations (RT-DETR, all
sizes open); those of Swin, Swin v2, Hiera and SAM 2 pass 40 (measured in November 2026, torch 2.13, transformers 5.23).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._pytree import tree_leaves

from fxopt_core.capture.errors import CaptureError

LONGEST = 36
"""Operations in the formula of a size."""


@contextmanager
def short_formulas(longest: int = LONGEST) -> Iterator[None]:
    """Within, a module that takes or gives a tensor with a size of a longer formula raises.

    Args:
        longest: operations in a formula.

    Raises:
        CaptureError: from the call of the module.
    """
    hooks = [
        register_module_forward_pre_hook(lambda module, taken: _check(taken, longest)),
        register_module_forward_hook(lambda module, taken, given: _check(given, longest)),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _check(values: Any, longest: int) -> None:
    for one in tree_leaves(values):
        for size in one.shape if isinstance(one, torch.Tensor) else ():
            operations = int(size.node.expr.count_ops()) if isinstance(size, torch.SymInt) else 0
            if operations > longest:
                raise CaptureError(
                    "auto",
                    f"a size is a formula of {operations} operations on those of the inputs, and what follows from "
                    "it would take long to prove.",
                    "let fewer sizes vary.",
                )
