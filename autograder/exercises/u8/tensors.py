"""Tensors from their description: what the probes of unit 8 call an operator with. Holds no answers."""

from __future__ import annotations

from typing import Any

import torch

LAYOUTS = ("plain", "transposed", "every second", "reversed dimensions", "offset")
"""How a tensor may lie in memory."""


def described(shape: list[int], seed: int, *, dtype: str = "float32", **more: Any) -> dict[str, Any]:
    """A tensor as JSON.

    Args:
        shape: its sizes.
        seed: of its values.
        dtype: name of its dtype.
        more: `layout` (one of `LAYOUTS`), `scale` (values lie around 0, about so far), `positive` (no value is below
            a tenth of the scale).
    """
    return {"shape": shape, "seed": seed, "dtype": dtype, "layout": "plain", "scale": 1.0, "positive": False, **more}


def made(given: dict[str, Any]) -> torch.Tensor:
    """The tensor that is described: the same values in every layout."""
    generator = torch.Generator().manual_seed(given["seed"])
    values = torch.randn(given["shape"], generator=generator, dtype=torch.float64) * given["scale"]
    if given["positive"]:
        values = values.abs() + 0.1 * given["scale"]
    dtype = getattr(torch, given["dtype"])
    if not dtype.is_floating_point:
        values = values.round().clamp(min=1 if given["positive"] else None, max=None if given["positive"] else 2**20)
    return laid_out(values.to(dtype), given["layout"])


def laid_out(values: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers in another place and order in memory."""
    if layout == "offset":
        buffer = torch.full((values.numel() + 3,), 99, dtype=values.dtype)
        target = buffer[3:].view(values.shape)
    elif layout == "every second" and values.dim():
        buffer = torch.full((*values.shape[:-1], 2 * values.shape[-1]), 99, dtype=values.dtype)
        target = buffer[..., ::2]
    elif layout == "transposed" and values.dim() > 1:
        target = torch.empty_like(values.mT.contiguous()).mT
    elif layout == "reversed dimensions":
        order = list(range(values.dim()))[::-1]
        target = torch.empty([values.shape[one] for one in order], dtype=values.dtype).permute(order)
    else:
        return values.contiguous()
    return target.copy_(values)
