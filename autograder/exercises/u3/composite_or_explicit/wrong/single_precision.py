"""single precision

Both calculate in single precision.
"""

import torch


def define(library: torch.library.Library) -> None:
    """One is a composite; the other has kernels for each backend and a Function at Autograd."""

    def formula(x, slope):
        return torch.mul(x, torch.sigmoid(x.float() * slope).to(x.dtype))

    library.define("open(Tensor x, float slope) -> Tensor")
    library.impl("open", formula, "CompositeImplicitAutograd")
    library.define("whole(Tensor x, float slope) -> Tensor")
    library.impl("whole", formula, "CompositeExplicitAutograd")

    def setup(ctx, inputs, output):
        x, ctx.slope = inputs
        ctx.save_for_backward(x)

    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        y = torch.sigmoid(ctx.slope * x)
        return gradient * (y * (1 + ctx.slope * x * (1 - y))), None

    torch.library.register_autograd(f"{library.ns}::whole", backward, setup_context=setup, lib=library)


def seen_by_each_stage() -> dict[tuple[str, str], str]:
    return {
        ("open", "dynamo"): "operator",
        ("open", "mode"): "parts",
        ("open", "aot"): "parts",
        ("whole", "dynamo"): "operator",
        ("whole", "mode"): "operator",
        ("whole", "aot"): "operator",
    }
