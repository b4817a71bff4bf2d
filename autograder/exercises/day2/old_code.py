"""A second run on a module whose code is not that of its graph, as after a change that nobody has written anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import fx


def _hands_back(self: fx.GraphModule, *inputs: Any) -> Any:
    """Code that no graph here has."""
    return inputs


def ageing(function: Callable[[fx.GraphModule], Any], left: list[bool]) -> Callable[[fx.GraphModule], Any]:
    """The learner's function, which from its second call on gets modules with old code.

    Args:
        function: the learner's.
        left: for each call but the first, whether the module that the function returned still has that code.
    """
    calls: list[Any] = []

    def called(graph_module: fx.GraphModule) -> Any:
        if calls:  # each graph module has a class of its own
            type(graph_module).forward = _hands_back
        result = function(graph_module)
        if calls:
            left.append(isinstance(result, fx.GraphModule) and type(result).forward is _hands_back)
        calls.append(result)
        return result

    return called
