"""withheld import

Lets PyTorch export.
"""

import io

import torch
from torch import fx


def to_onnx(graph: fx.Graph, weights: dict[str, torch.Tensor], sizes: dict[str, list]) -> bytes:
    """The graph as an ONNX model."""

    class Model(torch.nn.Module):
        def forward(self, *inputs):
            module = fx.GraphModule({}, graph)
            return fx.Interpreter(module).run(*weights.values(), *inputs)

    example = tuple(torch.ones([3 if type(one) is str else one for one in shape]) for shape in sizes.values())
    named = [
        {place: torch.export.Dim.DYNAMIC for place, one in enumerate(shape) if type(one) is str}
        for shape in sizes.values()
    ]
    made = torch.onnx.export(Model(), example, dynamo=True, dynamic_shapes=(tuple(named),), verbose=False)
    file = io.BytesIO()
    made.save(file)
    return file.getvalue()
