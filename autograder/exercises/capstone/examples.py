"""On the learner's side: example values for the nodes of a graph that came in its JSON form."""

from __future__ import annotations

import copy
import io
from collections.abc import Sequence
from contextlib import redirect_stderr

import torch
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from autograder.exchange.graph_form import ENCODED_VALUE


def restore_examples(graph_module: fx.GraphModule, strides: Sequence[Sequence[int]] | None = None) -> None:
    """Give the nodes example values (`meta["val"]`) again where the JSON form kept shapes, as a capture would.

    A graph that does not run on its inputs gets none: some traps raise always.

    Args:
        graph_module: the graph.
        strides: of the inputs; by default they are contiguous.
    """
    nodes = list(graph_module.graph.nodes)
    kept = [node.meta.get(ENCODED_VALUE) for node in nodes if node.op == "placeholder"]
    sizes = [value.get("shape", [""]) if isinstance(value, dict) else [""] for value in kept]
    if not all(type(size) is int for shape in sizes for size in shape):
        return
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        inputs = [torch.empty(value["shape"], dtype=getattr(torch, value["dtype"])) for value in kept]
        if strides is not None:
            inputs = [one.as_strided(one.shape, own) for one, own in zip(inputs, strides, strict=True)]
    copied = copy.deepcopy(graph_module)
    try:
        # The graph may switch the modes; these put them back.
        with torch.enable_grad(), torch.autocast("cpu", enabled=False), mode, redirect_stderr(io.StringIO()):
            FakeTensorProp(copied, mode).run(*inputs, enable_io_processing=False)
    except Exception:  # whatever an operator raises on these shapes
        return
    for node, known in zip(nodes, copied.graph.nodes, strict=True):
        if ENCODED_VALUE in node.meta and "val" in known.meta:
            node.meta["val"] = known.meta["val"]
