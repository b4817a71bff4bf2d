"""The only thing that changes a graph: it keeps what nodes know of themselves, and a log of every rewrite."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import Target
from torch.utils._pytree import tree_leaves

from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.exactness import EXACT, Tolerance
from fxopt_core.graphs.example_values import ExampleValues
from fxopt_core.graphs.examples import EXAMPLE_META, value_of
from fxopt_core.graphs.timeline import Timeline
from fxopt_core.graphs.walks import nodes_in

KEPT_META = ("stack_trace", "nn_module_stack", "source_fn_stack", "original_aten", "from_node", "seq_nr")
"""Provenance that a new node takes over from the node in whose place it stands."""

COMPUTES = operator.attrgetter("op", "target", "_args", "_kwargs")
"""What a node computes. What nobody has set is the same object later, so that many of these compare fast."""


class NodeSnapshot(NamedTuple):
    """A node as it was at one moment."""

    name: str
    op: str
    target: Target
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def __str__(self) -> str:
        target = self.target if isinstance(self.target, str) else getattr(self.target, "__name__", str(self.target))
        given = [*map(repr, self.args), *(f"{name}={value!r}" for name, value in self.kwargs.items())]
        return f"{self.name} = {target}({', '.join(given)})"


def snapshot(node: fx.Node) -> NodeSnapshot:
    """The node as it is now."""
    return NodeSnapshot(node.name, node.op, node.target, node.args, node.kwargs)


@dataclass(slots=True)
class Rewrite:
    """One change of a graph.

    Attributes:
        rule: the name of the pass, or `pass/rule`.
        node: the name of the node where it was found.
        tolerance: how far it may be off.
        stack_trace: where in the model that node came from, as the capture kept it.
        before: the nodes that were removed or changed.
        after: the new nodes that stand in their place.
        reused: the names of nodes that were there before and are now used instead.
    """

    rule: str
    node: str
    tolerance: Tolerance = EXACT
    stack_trace: str | None = None
    before: list[NodeSnapshot] = field(default_factory=list)
    after: list[NodeSnapshot] = field(default_factory=list)
    reused: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """Names this rewrite among those of one run; the same in every run on the same graph."""
        return f"{self.rule}@{self.node}"


class _Logging:
    """Logs one rewrite; a class, because rewrites are many and a generator takes twice as long."""

    __slots__ = ("_editor", "_rewrite")

    def __init__(self, editor: GraphEditor, rewrite: Rewrite) -> None:
        self._editor, self._rewrite = editor, rewrite

    def __enter__(self) -> Rewrite:
        self._editor._current = self._rewrite
        return self._rewrite

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._editor._current = None
        if kind is None:
            self._editor.changed = True
            # One that does nothing is none. Unless watched, it may have gone past the editor.
            if self._rewrite.before or self._rewrite.after or not self._editor.watched:
                self._editor.rewrites.append(self._rewrite)
            self._editor._storages = self._editor._timeline = None


class GraphEditor:
    """Changes the graph of one `GraphModule`, and nothing of the model that it came from.

    Every change is made inside `rewrite(...)`. Nodes keep their provenance, new ones take over that of the node
    they replace, and their example value is computed. Parameters, buffers and modules are never changed: a changed
    one is registered under a new name beside the old. `finish` recompiles once, if anything changed.

    Args:
        graph_module: the module whose graph is changed in place.
        most: how many rewrites passes may make, to see what the first of them do by themselves.
        watched: whether a pass that changes the graph past the editor is found out, which takes time. Otherwise
            rewrites that seem to do nothing are logged, too.

    Attributes:
        changed: whether a rewrite was made, or tried.
    """

    def __init__(self, graph_module: fx.GraphModule, *, most: float = math.inf, watched: bool = False) -> None:
        self.most, self.watched, self.changed = most, watched, False
        self.graph_module = graph_module
        self.graph = graph_module.graph
        self.rewrites: list[Rewrite] = []
        self._current: Rewrite | None = None
        self._storages: Storages | None = None
        self._timeline: Timeline | None = None
        self._registered: dict[str, list[torch.Tensor]] = {}
        self._examples = ExampleValues()
        self._names: dict[Target, str] = {}

    @property
    def storages(self) -> Storages:
        """The storage classes of the graph as it is now; computed anew after a change."""
        if self._storages is None:
            self._storages = Storages(self.graph)
        return self._storages

    @property
    def timeline(self) -> Timeline:
        """Where modes are switched and storages written in the graph as it is now; computed anew after a change."""
        if self._timeline is None:
            self._timeline = Timeline(self.graph, self.storages)
        return self._timeline

    def rewrite(self, rule: str, node: fx.Node, *, tolerance: Tolerance = EXACT) -> _Logging:
        """Log what happens in the `with` block as one rewrite, found at `node`."""
        return _Logging(self, Rewrite(rule, node.name, tolerance, node.meta.get("stack_trace")))

    @property
    def current(self) -> Rewrite:
        """The rewrite that is being made.

        Raises:
            RuntimeError: none is.
        """
        if self._current is None:
            raise RuntimeError("a graph is changed outside of `with editor.rewrite(...)`; expected it inside.")
        return self._current

    def _require_usable(self, nodes: Iterable[fx.Node], before: fx.Node | None = None) -> None:
        """Refuse at once what would leave a broken graph.

        Args:
            nodes: which are to be read or taken as a place.
            before: the place where they are to be read.

        Raises:
            TypeError: one is no node.
            ValueError: one was erased, is of another graph, or comes after that place.
        """
        for node in nodes:
            if not isinstance(node, fx.Node):
                raise TypeError(
                    f"{node!r} is given where a node of the graph is expected. Make one with call, insert or constant."
                )
            if node._erased:
                raise ValueError(
                    f"{node.name} was erased and can neither be read nor tell a place. Make new nodes before you erase "
                    "or replace the old ones."
                )
            if node.graph is not self.graph:
                raise ValueError(f"{node.name} belongs to another graph; expected a node of the graph that is edited.")
            if before is not None and not node < before:
                raise ValueError(
                    f"{node.name} is computed after the place where it would be read (before {before.name}). Give a "
                    "later node as `before`."
                )

    def replace(self, node: fx.Node, replacement: fx.Node) -> None:
        """Let every user of `node` use `replacement` instead, and erase `node`.

        Raises:
            ValueError: one of them was erased already, or the replacement reads the node whose place it takes.
        """
        log = self.current
        self._require_usable((node, replacement))
        if replacement is node or node in replacement.all_input_nodes:
            raise ValueError(
                f"{replacement.name} reads {node.name}, and cannot take its place: it would read itself. Redirect the "
                "other users only (`user.replace_input_with`)."
            )
        if replacement.name not in [new.name for new in log.after]:
            log.reused.append(replacement.name)
        node.replace_all_uses_with(replacement)
        self.erase(node)

    def erase(self, node: fx.Node) -> None:
        """Take out a node that nobody uses.

        Raises:
            ValueError: it was erased already.
        """
        self._require_usable((node,))
        self.current.before.append(snapshot(node))
        self.graph.erase_node(node)

    def erase_unused(self, nodes: Iterable[fx.Node]) -> None:
        """Take out those of these nodes that nobody uses, and what then nobody uses any more. Inputs and results stay.

        Args:
            nodes: which, like those that they read, do nothing besides computing.
        """
        pending = list(nodes)[::-1]
        erased: set[fx.Node] = set()
        while pending:
            node = pending.pop()
            if not node.users and node.op not in ("placeholder", "output") and node not in erased:
                erased.add(node)
                above = node.all_input_nodes
                self.erase(node)
                pending += above

    def change(
        self,
        node: fx.Node,
        *,
        args: tuple[Any, ...],
        kwargs: dict[str, Any] | None = None,
        function: Callable[..., Any] | None = None,
    ) -> None:
        """Give a node other arguments, and where it is to compute the same in another way, another function."""
        log = self.current
        self._require_usable((node,))
        self._require_usable(nodes_in((args, kwargs)), node)
        log.before.append(snapshot(node))
        if function is not None:
            node.op, node.target = "call_function", function
        node.args = args
        if kwargs is not None:
            node.kwargs = kwargs
        log.after.append(snapshot(node))

    def insert(
        self,
        op: str,
        target: Target,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        *,
        like: fx.Node,
        before: fx.Node | None = None,
    ) -> fx.Node:
        """A new node before `before` (by default before `like`), with the provenance of `like`.

        Its example value is computed from those of the inputs, where they have one.

        Raises:
            ValueError: a node among the arguments, or the place, was erased, is of another graph, or comes too late.
        """
        log = self.current
        place = before if before is not None else like
        self._require_usable((place,))
        self._require_usable(nodes_in((args, kwargs)), place)
        # As `create_node` would name it; finding that out each time would take longer than all else that it does.
        name = self._names.get(target) or self._names.setdefault(
            target, re.sub("[^0-9a-zA-Z_]+", "_", self.graph._target_to_str(target))
        )
        with self.graph.inserting_before(place):
            node = self.graph.create_node(op, target, (), kwargs, name)
        # Not with the node: `create_node` walks through what it is given, to warn of symbolic numbers, which are meant.
        node.args = args
        kept = like.meta
        node.meta.update({name: kept[name] for name in KEPT_META if name in kept})
        inputs = node.all_input_nodes if op == "call_function" else []
        for name in EXAMPLE_META:
            value = self._examples.value(node, inputs, name, like)
            if value is not None:
                node.meta[name] = value
        log.after.append(snapshot(node))
        return node

    def call(self, function: Callable[..., Any], *args: Any, like: fx.Node, **kwargs: Any) -> fx.Node:
        """A new `call_function` node before `like`."""
        return self.insert("call_function", function, args, kwargs, like=like)

    def compute(self, function: Callable[..., Any], *arguments: Any, like: fx.Node) -> tuple[fx.Node, ...]:
        """The operators of ATen by which a function computes its results, before `like`; the nodes of the results.

        Args:
            function: of tensors, which returns a tuple of them; without branches on values.
            arguments: what it is given: nodes with example values, literals, or lists of these.
            like: as for `insert`.
        """
        examples = fx.node.map_arg(arguments, value_of)
        with torch.no_grad():
            traced = make_fx(function)(*examples)
        inputs = traced.graph.find_nodes(op="placeholder")
        made: dict[fx.Node, Any] = dict(zip(inputs, tree_leaves(arguments), strict=True))
        for node in traced.graph.nodes:
            if node.op == "call_function":
                new_args, new_kwargs = fx.node.map_arg((node.args, node.kwargs), made.__getitem__)
                made[node] = self.insert(node.op, node.target, new_args, new_kwargs, like=like)
        return tuple(made[result] for result in traced.graph.output_node().args[0])  # type: ignore[union-attr, index]

    def constant(self, tensor: torch.Tensor | nn.Parameter, hint: str, *, like: fx.Node) -> fx.Node:
        """A `get_attr` node of a new parameter or non-persistent buffer, before `like`. `hint` is part of its name."""
        name = self._free_name(hint)
        if isinstance(tensor, nn.Parameter):
            self.graph_module.register_parameter(name, tensor)
        else:
            self.graph_module.register_buffer(name, tensor, persistent=False)
        self._registered[name] = [tensor]
        node = self.insert("get_attr", name, like=like)
        for key in EXAMPLE_META:
            example = like.meta.get(key)
            if isinstance(example, FakeTensor):
                node.meta[key] = example.fake_mode.from_tensor(tensor, static_shapes=True)
        return node

    def module(self, module: nn.Module, hint: str) -> str:
        """Register a new submodule under a free name, which is returned."""
        name = self._free_name(hint)
        self.graph_module.add_submodule(name, module)
        self._registered[name] = [*module.parameters()]
        return name

    def bytes_added(self, rewrites: Iterable[Rewrite]) -> int:
        """How many bytes the tensors take that were registered for these rewrites."""
        if not self._registered:
            return 0
        names = {str(new.target) for rewrite in rewrites for new in rewrite.after} & self._registered.keys()
        storages = (tensor.untyped_storage() for name in names for tensor in self._registered[name])
        return sum({storage._cdata: storage.nbytes() for storage in storages}.values())

    def _free_name(self, hint: str) -> str:
        base = re.sub(r"\W", "_", hint)
        name, number = base, 0
        while hasattr(self.graph_module, name):
            number += 1
            name = f"{base}_{number}"
        return name

    @property
    def full(self) -> bool:
        """Whether as many rewrites were made as may be."""
        return len(self.rewrites) >= self.most

    def witness(self) -> list[Any]:
        """The number of rewrites and, if watched, what every node computes, to see later whether that is still so."""
        return [len(self.rewrites), *(map(COMPUTES, self.graph.nodes) if self.watched else ())]

    def finish(self, *, recompile: bool = True) -> None:
        """Check the graph's structure and recompile it, if anything changed.

        Raises:
            RuntimeError: the graph is malformed.
        """
        if self.changed:
            self.graph.lint()
            if recompile:
                self.graph_module.recompile()
