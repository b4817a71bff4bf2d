"""Sizes that become long formulas: a sign that proving what follows from them takes minutes.

Where a model pads an image to whole windows, stage after stage, the size of a late stage is a formula of hundreds of
operations on that of the image. Each view then makes SymPy simplify it: the Swin of Donut, with 64 by 64 pixels, was
not done after 240 s. Of the image models of transformers that this leaves with all sizes open, only those of SAM 3 (55
operations) and Unlimited-OCR were stopped by a limit of 36; Swin, Swin v2, Hiera and SAM 2 soon pass 70 (measured in
November 2026, torch 2.13, transformers 5.23).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from fxopt_core.capture.errors import CaptureError

LONGEST = 60
"""Operations in the formula of a size."""


class ShortFormulas(TorchFunctionMode):
    """While active, an operation that gives a tensor with a size of a longer formula raises.

    Args:
        longest: operations in a formula.

    Raises:
        CaptureError: from the call of the operation.
    """

    def __init__(self, longest: int = LONGEST) -> None:
        super().__init__()
        self._longest = longest

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Make the call and look at the sizes of what it gives."""
        given = function(*args, **(kwargs or {}))
        for one in tree_leaves(given):
            for size in one.shape if isinstance(one, torch.Tensor) else ():
                operations = int(size.node.expr.count_ops()) if isinstance(size, torch.SymInt) else 0
                if operations > self._longest:
                    raise CaptureError(
                        "auto",
                        f"a size is a formula of {operations} operations on those of the inputs, and what follows "
                        "from it would take long to prove.",
                        "let fewer sizes vary.",
                    )
        return given
