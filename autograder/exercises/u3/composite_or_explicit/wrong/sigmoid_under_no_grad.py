"""wrong second derivative

Believes that a backward formula needs no recording.
"""

import torch


def define(library: torch.library.Library) -> None:
    """Define and register open and whole."""
    kinds = {"open": "CompositeImplicitAutograd", "whole": "CompositeExplicitAutograd"}
    for name, kind in kinds.items():
        library.define(f"{name}(Tensor x, float slope) -> Tensor")
        library.impl(name, weighted, kind)
    torch.library.register_autograd(f"{library.ns}::whole", slope_back, setup_context=keep, lib=library)


def weighted(x, slope):
    return torch.sigmoid(slope * x).mul(x)


def keep(ctx, inputs, output):
    x, ctx.slope = inputs
    ctx.save_for_backward(x)


def slope_back(ctx, gradient):
    (x,) = ctx.saved_tensors
    z = ctx.slope * x
    with torch.no_grad():
        s = torch.sigmoid(z)
    return gradient * s * (1 + z * (1 - s)), None


def seen_by_each_stage() -> dict[tuple[str, str], str]:
    """For each pair of operator ("open", "whole") and stage ("dynamo", "mode", "aot"): "operator" or "parts"."""
    seen = {(name, stage): "operator" for name in ("open", "whole") for stage in ("dynamo", "mode", "aot")}
    seen["open", "mode"] = seen["open", "aot"] = "parts"
    return seen
