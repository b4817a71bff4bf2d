"""What a node does besides computing a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn

from fxopt_core.graphs.behaviours import MODE_ARGUMENTS, Behaviour
from fxopt_core.graphs.containers import joins_containers
from fxopt_core.graphs.examples import attribute_of, value_of
from fxopt_core.graphs.module_behaviours import behaviour_of_module
from fxopt_core.graphs.torch_functions import ITEM, behaviour_of_attribute, behaviour_of_function, behaviour_of_method
from fxopt_core.graphs.walks import nodes_in

Storage = fx.Node | str
"""A storage, by a node whose value lies in it, or by the name of a parameter or buffer of the owning module."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What a node does besides computing a value from its inputs. It reads all of its inputs.

    Attributes:
        writes: whose storage it writes.
        reshapes: what it writes may get another shape, too: by `unsqueeze_`, or as an `out=` of another size.
        aliases: whose storage its value may share.
        view: its value always is a view of `aliases[0]`, and never a copy.
        random: it draws from the random stream.
        context: it changes the mode (gradients, autocast) in which later nodes run.
        checks: it may stop the program, and is there for that.
        raises: it may stop the program, if the values that it is given are such: an index that is out of range.
        opaque: nothing is known: it may read, write and return anything. A barrier.
    """

    writes: tuple[Storage, ...] = ()
    reshapes: bool = False
    aliases: tuple[Storage, ...] = ()
    view: bool = False
    random: bool = False
    context: bool = False
    checks: bool = False
    raises: bool = False
    opaque: bool = False

    @property
    def observable(self) -> bool:
        """Whether the node does something besides computing a value, or raising because it cannot."""
        return bool(self.writes or self.random or self.context or self.checks or self.opaque)


PURE = Effects()
"""New storage, no other effect: the common case, shared so that asking costs one look-up."""

OPAQUE = Effects(opaque=True)


def effects_of(node: fx.Node) -> Effects:
    """The effects of a node, from operator schemas and tags first; what is unknown is opaque.

    A `call_module` node is judged by its module as it is now: in training or not, with hooks or without.
    """
    kind = node.op
    if kind == "call_function":
        if node.target is getattr:
            return _at(node, behaviour_of_attribute(node.args[1]))
        behaviour = behaviour_of_function(node.target)
        return PURE if behaviour.plain and behaviour.outs.isdisjoint(node.kwargs) else _at(node, behaviour)
    if kind == "call_method":
        behaviour = behaviour_of_method(str(node.target))
        return PURE if behaviour.plain and behaviour.outs.isdisjoint(node.kwargs) else _at(node, behaviour)
    if kind == "call_module":
        return _of_module(node)
    if kind == "get_attr":
        return Effects(aliases=(str(node.target),), view=True)
    return PURE


def is_pure_function(node: fx.Node) -> bool:
    """Whether every call of what the node calls is pure, whatever its arguments."""
    if node.op != "call_function" or node.target is getattr:
        return False
    behaviour = behaviour_of_function(node.target)
    return behaviour.plain and not behaviour.outs


def _at(node: fx.Node, behaviour: Behaviour) -> Effects:
    """The behaviour with the arguments of one call."""
    if behaviour.opaque:
        return OPAQUE
    given: dict[str, Any] = dict(behaviour.defaults)
    given.update(zip(behaviour.names, node.args, strict=False))
    given.update(node.kwargs)
    everything = node.all_input_nodes

    def named(name: str) -> list[fx.Node]:
        """The values given for an argument. One that is there under a name that is not known may be any of them."""
        return nodes_in(given[name]) if name in given else everything

    # A value that is only known at run time may be anything but a literal False.
    off = any(given.get(name) is False for name in MODE_ARGUMENTS)
    no_dropout = type(given.get("dropout_p")) in (int, float) and given["dropout_p"] == 0
    written = [value for name in behaviour.writes for value in named(name)]
    if not off:
        written += [value for name in behaviour.statistics for value in named(name)]
    if given.get("max_norm") is not None:
        written += named("weight")
    returned = [value for name in behaviour.outs if given.get(name) is not None for value in named(name)]
    if given.get("inplace", False) is not False:
        returned += named(behaviour.names[0]) if behaviour.names else everything
    written += returned
    aliased = [value for name in behaviour.aliases for value in named(name)] + returned
    if behaviour.joins and joins_containers(behaviour, node.args):
        aliased += everything
    return Effects(
        writes=tuple(dict.fromkeys(written)),
        reshapes=behaviour.reshapes or not behaviour.outs.isdisjoint(node.kwargs),
        aliases=tuple(dict.fromkeys(aliased)),
        view=behaviour.view,
        random=behaviour.random and not off and not no_dropout,
        context=behaviour.context,
        checks=behaviour.checks,
        raises=behaviour.raises
        or (behaviour.divides and _may_divide_by_zero(node, given))
        or (behaviour is ITEM and len(node.args) == 2 and _may_miss(*node.args)),
    )


def _may_divide_by_zero(node: fx.Node, given: dict[str, Any]) -> bool:
    """Whether an integer that is only known at run time is the divisor."""
    divisor = given.get("other", node.args[-1])
    if not isinstance(divisor, fx.Node) and node.target != "__rmod__":
        return bool(divisor == 0)
    value = value_of(node)
    if value is not None and not isinstance(value, torch.Tensor):
        return False  # sizes
    return value is None or not (value.is_floating_point() or value.is_complex())


def _may_miss(value: Any, index: Any) -> bool:
    """Whether an index may be out of range: a number for a value of unknown size, integers known only at run time.

    A mask fits or not by its shape, and so does a number by the size that the capture knows.
    """
    for part in index if isinstance(index, tuple) else (index,):
        if type(part) is int and isinstance(value, fx.Node) and value_of(value) is None and not _is_several(value):
            return True
        for known in map(value_of, nodes_in(part)):
            if known is None or (isinstance(known, torch.Tensor) and known.dtype != torch.bool):
                return True
    return False


def _is_several(node: fx.Node) -> bool:
    """Whether the node calls what always gives as many values as its arguments say."""
    if node.op == "call_method":
        return behaviour_of_method(str(node.target)).container
    return node.op == "call_function" and behaviour_of_function(node.target).container


def _of_module(node: fx.Node) -> Effects:
    module = attribute_of(node.graph.owning_module, node.target)
    behaviour = behaviour_of_module(module) if isinstance(module, nn.Module) else None
    if behaviour is None or behaviour.opaque:
        return OPAQUE
    inputs = tuple(node.all_input_nodes)
    own = tuple(f"{node.target}.{name}" for name in sorted(behaviour.statistics))
    return Effects(
        writes=(*inputs[:1], *own) if behaviour.writes else own,
        aliases=inputs if behaviour.aliases else (),
        random=behaviour.random,
        checks=behaviour.checks,
        raises=behaviour.raises,
    )
