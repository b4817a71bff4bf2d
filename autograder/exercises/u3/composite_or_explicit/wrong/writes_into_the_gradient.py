"""incoming gradient overwritten

Multiplies the gradient that comes in in place: it belongs to others, too.
"""

import torch


def product(x, slope):
    return x * torch.sigmoid(slope * x)


def define(library):
    library.define("open(Tensor x, float slope) -> Tensor")
    library.define("whole(Tensor x, float slope) -> Tensor")
    library.impl("open", product, "CompositeImplicitAutograd")
    library.impl("whole", product, "CPU")
    library.impl("whole", lambda x, slope: torch.empty_like(x), "Meta")

    def setup(ctx, inputs, output):
        x, ctx.slope = inputs
        ctx.save_for_backward(x)

    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(ctx.slope * x)
        inner = s + ctx.slope * x * s * (1 - s)
        return gradient.mul_(inner), None

    torch.library.register_autograd(f"{library.ns}::whole", backward, setup_context=setup, lib=library)


def seen_by_each_stage():
    seen = {("whole", stage): "operator" for stage in ("dynamo", "mode", "aot")}
    return seen | {("open", "dynamo"): "operator", ("open", "mode"): "parts", ("open", "aot"): "parts"}
