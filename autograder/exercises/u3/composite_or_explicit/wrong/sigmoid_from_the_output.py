"""wrong derivative

The sigmoid is recovered from the saved output, as output / x, which is NaN where x is 0."""

import torch


def formula(x, slope):
    return x * torch.sigmoid(slope * x)


def remember(ctx, inputs, output):
    x, ctx.slope = inputs
    ctx.save_for_backward(x, output)


def backward(ctx, gradient):
    x, output = ctx.saved_tensors
    s = output / x
    return gradient * (s + ctx.slope * x * s * (1 - s)), None


def define(library):
    library.define("open(Tensor x, float slope) -> Tensor")
    library.define("whole(Tensor x, float slope) -> Tensor")
    library.impl("open", formula, "CompositeImplicitAutograd")
    library.impl("whole", formula, "CompositeExplicitAutograd")
    torch.library.register_autograd(f"{library.ns}::whole", backward, setup_context=remember, lib=library)


def seen_by_each_stage():
    seen = {(name, stage): "operator" for name in ("open", "whole") for stage in ("dynamo", "mode", "aot")}
    return seen | {("open", "mode"): "parts", ("open", "aot"): "parts"}
