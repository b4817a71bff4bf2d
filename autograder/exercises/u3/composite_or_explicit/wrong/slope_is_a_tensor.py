"""single precision

Makes a tensor of the slope, which has single precision by default, for the value itself.
"""

import torch


def formula(x, slope):
    return x * torch.sigmoid(torch.tensor(slope) * x)


def keep(ctx, inputs, output):
    x, slope = inputs
    ctx.save_for_backward(x)
    ctx.slope = slope


def derivative(ctx, gradient):
    (x,) = ctx.saved_tensors
    s = torch.sigmoid(ctx.slope * x)
    return gradient * (s + ctx.slope * x * s * (1 - s)), None


def define(library: torch.library.Library) -> None:
    """Define and register open and whole."""
    library.define("open(Tensor x, float slope) -> Tensor")
    library.impl("open", formula, "CompositeImplicitAutograd")
    library.define("whole(Tensor x, float slope) -> Tensor")
    library.impl("whole", formula, "CompositeExplicitAutograd")
    torch.library.register_autograd(f"{library.ns}::whole", derivative, setup_context=keep, lib=library)


def seen_by_each_stage() -> dict[tuple[str, str], str]:
    """For each pair of operator and stage: "operator" or "parts"."""
    return {
        ("open", "dynamo"): "operator",
        ("open", "mode"): "parts",
        ("open", "aot"): "parts",
        ("whole", "dynamo"): "operator",
        ("whole", "mode"): "operator",
        ("whole", "aot"): "operator",
    }
