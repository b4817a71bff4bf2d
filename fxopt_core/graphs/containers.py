"""Which values may be containers of Python that hold tensors: `+` on two lists returns the tensors themselves."""

from __future__ import annotations

from typing import Any

from torch import fx, nn

from fxopt_core.graphs.behaviours import Behaviour
from fxopt_core.graphs.examples import attribute_of, value_of
from fxopt_core.graphs.module_behaviours import behaviour_of_module
from fxopt_core.graphs.torch_functions import ITEM, behaviour_of_function, behaviour_of_method
from fxopt_core.graphs.walks import nodes_in

_DEPTH = 6
"""How far back a value is followed; what comes from farther away may be a container."""


def may_be_container(value: Any, depth: int = _DEPTH) -> bool:
    """Whether an argument, a node or a literal, may be a list, a tuple or a dictionary that holds tensors."""
    if not isinstance(value, fx.Node):
        return bool(nodes_in(value))
    example = value_of(value)
    if example is not None:
        return isinstance(example, (list, tuple, dict, set, frozenset))
    if depth == 0 or value.op == "placeholder":
        return True
    if value.op == "get_attr":
        return False
    if value.op == "call_module":
        module = attribute_of(value.graph.owning_module, value.target)
        return not isinstance(module, nn.Module) or behaviour_of_module(module).container
    function = value.op == "call_function"
    behaviour = behaviour_of_function(value.target) if function else behaviour_of_method(str(value.target))
    if behaviour is ITEM:
        return may_be_container(value.args[0], depth - 1)
    return behaviour.container or joins_containers(behaviour, value.args, depth - 1)


def joins_containers(behaviour: Behaviour, arguments: tuple[Any, ...], depth: int = _DEPTH) -> bool:
    """Whether a call may put the tensors of containers that it is given into a container."""
    given = dict(zip(behaviour.names, arguments, strict=False))
    return any(all(may_be_container(given.get(name), depth) for name in group) for group in behaviour.joins)
