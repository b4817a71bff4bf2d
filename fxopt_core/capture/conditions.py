"""What the checks inside a graph of `torch.export` mean, in words: which decision of the model do they hold on to?"""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn

from fxopt_core.capture.errors import RefusedInputError

ASSERTION = "Runtime assertion failed for expression "
"""How the message of a check inside a graph of `torch.export` begins."""

_GUARD = "Guard failed: "


def unmet_condition(
    error: Exception, module: fx.GraphModule, guards: nn.Module | None, inputs: Mapping[str, Any]
) -> RefusedInputError | None:
    """The refusal, in words, that an error of a call stands for; `None` for an error of the model's own.

    Args:
        error: what the call raised.
        module: the graph that was called.
        guards: its check of sizes.
        inputs: of the call, by name.
    """
    if isinstance(error, RuntimeError) and str(error).startswith(ASSERTION):
        condition = str(error).removeprefix(ASSERTION).partition(" on node ")[0]
        return RefusedInputError(
            f"the value that the model reads from {_what_is_read(module, str(error))}",
            f"one that leads to the same decision ({condition})",
            "another",
            "Capture again with such an input, or write the decision with torch.where or torch.cond.",
        )
    frames = traceback.walk_tb(error.__traceback__)
    if guards is None or not any(frame.f_locals.get("self") is guards for frame, _ in frames):
        return None
    if str(error).startswith(_GUARD):
        expected = str(error).removeprefix(_GUARD)
    else:
        expected = f"sizes that its conditions can be computed for ({type(error).__name__}: {error})"
    shapes = [f"{name} of shape {list(one.shape)}" for name, one in inputs.items() if isinstance(one, torch.Tensor)]
    return RefusedInputError(
        "the sizes of the inputs",
        expected,
        ", ".join(shapes),
        "Capture again with such an input, or take the decision on this size out of the model.",
    )


def _what_is_read(module: fx.GraphModule, message: str) -> str:
    """What the number was computed from that the check with this message looks at: `gt(sum(x), 0)`."""
    waiting = [node for node in module.graph.nodes if node.op == "call_function" and message in node.args]
    while waiting:
        node = waiting.pop(0)
        if "item" in str(node.target) or "_local_scalar_dense" in str(node.target):
            return _text(node.args[0], depth=4)
        waiting += node.all_input_nodes
    return "its tensors"


def _text(value: Any, depth: int) -> str:
    if not isinstance(value, fx.Node) or value.op != "call_function":
        return str(value)
    name = getattr(value.target, "__name__", str(value.target)).partition(".")[0]
    if depth == 0:
        return f"{name}(…)"
    if name == "ne" and value.args[1:] == (0,):
        return _text(value.args[0], depth)  # how a truth value is read
    return f"{name}({', '.join(_text(one, depth - 1) for one in value.args)})"
