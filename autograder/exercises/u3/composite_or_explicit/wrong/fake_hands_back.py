"""input handed back on meta

The fake kernel returns its input, which has the right shape.
"""

import torch


def swish(x, slope):
    return torch.sigmoid(slope * x) * x


def define(library):
    library.define("open(Tensor x, float slope) -> Tensor")
    library.impl("open", swish, "CompositeImplicitAutograd")
    name = f"{library.ns}::whole"
    torch.library.define(name, "(Tensor x, float slope) -> Tensor", lib=library)
    torch.library.impl(name, "CPU", swish, lib=library)
    torch.library.register_fake(name, lambda x, slope: x, lib=library)

    def setup(ctx, inputs, output):
        ctx.save_for_backward(inputs[0])
        ctx.slope = inputs[1]

    def formula(ctx, gradient):
        x = ctx.saved_tensors[0]
        s = torch.sigmoid(ctx.slope * x)
        return gradient * s + gradient * x * (ctx.slope * (s - s * s)), None

    torch.library.register_autograd(name, formula, setup_context=setup, lib=library)


def seen_by_each_stage():
    return {
        ("open", "dynamo"): "operator",
        ("open", "mode"): "parts",
        ("open", "aot"): "parts",
        ("whole", "dynamo"): "operator",
        ("whole", "mode"): "operator",
        ("whole", "aot"): "operator",
    }
