"""Patterns: what to look for in a graph, written as a plain function."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import attrgetter
from typing import Any, NamedTuple

from torch import fx, nn

from fxopt_core.graphs.arguments import Name, arguments_of, has_schema
from fxopt_core.graphs.operations import is_commutative
from fxopt_core.graphs.walks import reached

_NAMED = "pattern_name"


class PatternError(ValueError):
    """A function cannot be used as a pattern, or as what takes its place."""


class _AnyModule:
    """Stands in a pattern for a module of one class. Other classes, subclasses too, may compute something else."""

    def __init__(self, class_: type[nn.Module]) -> None:
        self.class_ = class_
        self.__name__ = class_.__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        proxies = [argument for argument in (*args, *kwargs.values()) if isinstance(argument, fx.Proxy)]
        if not proxies:
            raise PatternError(f"module({self.__name__}) is called outside of a pattern; expected a value of one.")
        return proxies[0].tracer.create_proxy("call_function", self, args, kwargs)


def module(class_: type[nn.Module]) -> Callable[..., Any]:
    """In a pattern: a module of exactly this class, to be called. `Match.module` gives the one that was met."""
    return _AnyModule(class_)


def named(value: Any, name: str) -> Any:
    """In a pattern: give an inner value a name, by which the match gives its node."""
    if not isinstance(value, fx.Proxy):
        raise PatternError(f"named(..., {name!r}) is given {value!r}; expected a value that the pattern computes.")
    value.node.meta[_NAMED] = name
    return value


def function_key(node: fx.Node, owner: nn.Module | None) -> Hashable:
    """What a node calls: a function, the name of a method, or the class of a module. Of a pattern's nodes too."""
    key: Any = node.target
    if node.op == "call_module":
        key = type(owner.get_submodule(str(key))) if owner is not None else None
    elif isinstance(key, _AnyModule):
        key = key.class_
    return key


class Join(NamedTuple):
    """How to get from what is known of a match to one more call: among the users of a known value."""

    known: fx.Node
    user: fx.Node


@dataclass(frozen=True, eq=False)
class Pattern:
    """What to look for.

    Attributes:
        graph: the function, traced.
        wildcards: its parameters by name. Each stands for one value: a node, or a literal.
        calls: its calls in order.
        outputs: which of them it returns.
    """

    graph: fx.Graph
    wildcards: dict[str, fx.Node]
    calls: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]

    @cached_property
    def names(self) -> dict[str, fx.Node]:
        """Wildcards and named values."""
        inner = {call.meta[_NAMED]: call for call in self.calls if _NAMED in call.meta}
        return {**self.wildcards, **inner}

    @cached_property
    def keys(self) -> dict[fx.Node, Hashable]:
        """What each call calls."""
        return {call: function_key(call, None) for call in self.calls}

    @cached_property
    def arguments(self) -> dict[fx.Node, dict[Name, Any]]:
        """The arguments of each call by name."""
        return {call: arguments_of(self.keys[call], call.args, call.kwargs) for call in self.calls}

    @cached_property
    def with_schema(self) -> frozenset[fx.Node]:
        """The calls for which a list and a tuple are the same."""
        return frozenset(call for call in self.calls if has_schema(self.keys[call]))

    @cached_property
    def swapping(self) -> frozenset[fx.Node]:
        """The calls whose first two arguments may change places; not `add(x, y, alpha=2)`, which is x + 2 y."""
        return frozenset(
            call
            for call in self.calls
            if is_commutative(self.keys[call])
            and len(self.operands(call)) == 2
            and self.arguments[call].get("alpha") in (None, 1)
        )

    def operands(self, call: fx.Node) -> tuple[Name, ...]:
        """The names of the first two arguments of a call."""
        names = {"self", "other", "a", "b", "input", 0, 1}
        return tuple(name for name in self.arguments[call] if name in names)

    def joins(self, start: fx.Node) -> tuple[Join, ...]:
        """From one of the calls and what it is computed from to all outputs.

        Raises:
            PatternError: an output shares nothing with the others.
        """
        if start not in self._joins:
            self._joins[start] = tuple(self._find_joins(start))
        return self._joins[start]

    @cached_property
    def _joins(self) -> dict[fx.Node, tuple[Join, ...]]:
        return {}

    def _find_joins(self, start: fx.Node) -> Iterator[Join]:
        below = reached([start], _inputs)
        missing = [output for output in self.outputs if output not in below]
        while missing:
            paths = {output: path for output in missing if (path := _path(output, below)) is not None}
            if not paths:
                raise PatternError(
                    f"the pattern's output {missing[0]} has no value in common with {start}; expected outputs that "
                    "share an input. Write two patterns."
                )
            output, path = next(iter(paths.items()))
            yield from (Join(known, user) for known, user in pairwise(path))
            below |= reached([output], _inputs)
            missing = [output for output in missing if output not in below]

    def __str__(self) -> str:
        return ", ".join(f"{call.name} = {getattr(call.target, '__name__', call.target)}" for call in self.calls)


_inputs = attrgetter("all_input_nodes")


def _path(output: fx.Node, below: set[fx.Node]) -> list[fx.Node] | None:
    """A way from something reached to the output. One from a call is preferred: calls have few users."""
    shortest: dict[bool, list[fx.Node]] = {}
    pending, seen = [[output]], {output}
    for path in pending:
        for source in path[0].all_input_nodes:
            if source in below:
                shortest.setdefault(source.op == "placeholder", [source, *path])
            elif source not in seen:
                seen.add(source)
                pending.append([source, *path])
    return shortest.get(False, shortest.get(True))


def trace(function: Callable[..., Any]) -> Pattern:
    """Trace a function of wildcards, without demands on how its calls hang together.

    Raises:
        PatternError: it is not a plain function of values, makes a tensor, or returns something else than values.
    """
    name = getattr(function, "__name__", str(function))
    if isinstance(function, nn.Module):
        raise PatternError(f"the pattern {name} is a module; expected a function. See `module` to look for one.")
    try:
        graph = fx.Tracer().trace(function)
    except (fx.proxy.TraceError, TypeError) as error:
        raise PatternError(
            f"the pattern {name} cannot be traced: {error}. Expected calls without control flow."
        ) from error
    nodes = list(graph.nodes)
    strange = [node for node in nodes if node.op == "get_attr" or str(node.target).startswith("*")]
    if strange:
        raise PatternError(f"the pattern {name} has {strange[0].target}; expected calls of its parameters only.")
    returned = graph.output_node().args[0]
    outputs = tuple(returned) if isinstance(returned, (tuple, list)) else (returned,)
    if not outputs or not all(isinstance(output, fx.Node) for output in outputs):
        raise PatternError(f"the pattern {name} returns {returned!r}; expected a value or a tuple of values.")
    return Pattern(
        graph,
        {str(node.target): node for node in nodes if node.op == "placeholder"},
        tuple(node for node in nodes if node.op not in ("placeholder", "output")),
        outputs,
    )


def pattern(function: Callable[..., Any]) -> Pattern:
    """A pattern from a plain function.

    It may call operators (`torch.ops.aten.add.Tensor`), functions of torch and Python's operators, methods of
    tensors, and modules by class (`module(nn.Conv2d)(x)`). Its parameters are wildcards, and match nodes as well as
    literals; one that is used twice must meet the same value twice. What it returns are the outputs of the match,
    each of which is replaced. Two calls in a pattern are two nodes in a graph, also where they call the same.

    Raises:
        PatternError: the function cannot be a pattern; the message says why.
    """
    traced = trace(function)
    needed = reached(traced.outputs, _inputs)
    for node in (*traced.wildcards.values(), *traced.calls):
        if node not in needed:
            raise PatternError(f"{node} is not needed for what the pattern returns; expected only what is.")
    if any(output.op == "placeholder" for output in traced.outputs):
        raise PatternError("the pattern returns a wildcard; expected calls.")
    if len(set(traced.outputs)) < len(traced.outputs):
        raise PatternError("the pattern returns one value twice; expected each once.")
    if len(traced.names) < len(traced.wildcards) + sum(_NAMED in call.meta for call in traced.calls):
        raise PatternError("two values of the pattern have one name; expected a name for each.")
    traced.joins(traced.outputs[0])
    return traced
