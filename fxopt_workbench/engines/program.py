"""What an engine is given: a graph of flat tensors, how its results are put together, and what it does besides."""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import fx, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves

from fxopt_core.capture.module import StoredGraphModule
from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.cloning import clone_graph_module
from fxopt_core.verification.isolation import ExampleInputs, split_example_inputs

SIZES_CHECK = "_guards_fn"
"""The part of an exported graph that checks open sizes. Whoever calls the program has checked them before."""

Run = Callable[..., Sequence[torch.Tensor]]
"""Takes the tensors of a call and gives those of the result."""


Facts = tuple[torch.dtype, torch.Size, tuple[int, ...]]
"""Dtype, shape and strides."""


def as_the_graph_gives_it(found: torch.Tensor, facts: Facts) -> torch.Tensor:
    """A result that lies in memory as the graph's own does.

    Raises:
        RuntimeError: it has another dtype or shape.
    """
    dtype, shape, stride = facts
    if found.dtype != dtype or found.shape != shape:
        raise RuntimeError(f"it gives {found.dtype} of {list(found.shape)}, expected {dtype} of {list(shape)}")
    if found.stride() == stride:
        return found
    return torch.empty_strided(shape, stride, dtype=dtype).copy_(found)


class NoProgramError(ValueError):
    """A model has no single graph of tensors that an engine could run."""


@dataclass(frozen=True)
class Program:
    """A graph that takes tensors by position and gives tensors.

    Attributes:
        graph: the graph module; shares its weights with the module that it was made of.
        example: the example's tensors.
        taken: which leaves of a call's arguments these are; the others are fixed by the example.
        given: for each leaf of the result: the number of a tensor of the graph, or of an argument's leaf that is handed
            through as it is, or a constant. The first of the pair says which: `result`, `argument`, `constant`.
        structure: how the leaves of the result are nested; `None` for a graph whose result is flat.
        sizes_open: whether the graph holds for other sizes than the example's.
        effects: what the graph does besides computing values, in words; empty where nothing.
    """

    graph: fx.GraphModule
    example: tuple[torch.Tensor, ...]
    taken: tuple[int, ...]
    given: tuple[tuple[str, Any], ...]
    structure: TreeSpec | None
    sizes_open: bool
    effects: tuple[str, ...]

    def facts(self) -> list[Facts]:
        """What the graph's tensors are like for the example: dtype, shape and strides of each."""
        with torch.no_grad():
            found = self.graph(*(tensor.clone() for tensor in self.example))
        return [(one.dtype, one.shape, one.stride()) for one in found]

    def result(self, leaves: Sequence[Any], tensors: Sequence[torch.Tensor]) -> Any:
        """A call's result in the form of the model's.

        Args:
            leaves: of the call's arguments.
            tensors: what the graph gave.
        """
        sources = {"result": tensors, "argument": leaves}
        flat = [sources[kind][value] if kind in sources else value for kind, value in self.given]
        return self.structure.unflatten(flat) if self.structure is not None else tuple(flat)

    def save(self, path: Path) -> None:
        """Write the graph and its example for another process of this machine, which asks for no more.

        Raises:
            Exception: something in the graph cannot be pickled.
        """
        torch.save(replace(self, given=(), structure=None), path)

    @staticmethod
    def load(path: Path) -> Program:
        """What `save` wrote. Only for files of one's own: it runs what the file says."""
        loaded = torch.load(path, weights_only=False)
        assert isinstance(loaded, Program)
        return loaded


def program_of(module: Any, example_inputs: ExampleInputs, held: Collection[int] = ()) -> Program:
    """The program of an optimised module.

    Args:
        module: an `fx.GraphModule` that is called with `example_inputs`.
        example_inputs: of one call.
        held: which leaves of the call are weights, that the program holds and a call does not bring.

    Raises:
        NoProgramError: it is no single graph, or takes something that is neither a tensor nor fixed.
    """
    if not isinstance(module, fx.GraphModule):
        raise NoProgramError("the model takes several graphs with Python code between them")
    graph_module = clone_graph_module(module, StoredGraphModule)
    graph = graph_module.graph
    for node in graph.find_nodes(op="call_module", target=SIZES_CHECK):
        graph.erase_node(node)
    vars(graph_module)["_modules"].pop(SIZES_CHECK, None)
    codegen = graph._codegen
    nested = codegen.pytree_info if isinstance(codegen, fx.graph._PyTreeCodeGen) else None
    leaves = tree_leaves(split_example_inputs(example_inputs))
    placeholders = graph.find_nodes(op="placeholder")
    if len(placeholders) != len(leaves):
        raise NoProgramError(f"its graph has {len(placeholders)} inputs, and the call {len(leaves)}")
    effects = _effects(graph)
    sizes_open = _has_open_sizes(module)
    taken = []
    for number, (node, leaf) in enumerate(zip(placeholders, leaves, strict=True)):
        if isinstance(leaf, torch.Tensor) and number not in held:
            taken.append(number)
            continue
        if isinstance(leaf, torch.Tensor):
            name = f"held_{number}"
            setattr(graph_module, name, leaf if isinstance(leaf, nn.Parameter) else nn.Buffer(leaf))
            with graph.inserting_before(node):
                node.replace_all_uses_with(graph.get_attr(name))
        _put_in(node, leaf)
        graph.erase_node(node)
    given, structure = _flat_output(graph, placeholders, nested)
    graph.set_codegen(fx.graph.CodeGen())
    graph_module.recompile()
    example = tuple(leaves[number].detach() for number in taken)
    return Program(graph_module, example, tuple(taken), given, structure, sizes_open, effects)


def _put_in(node: fx.Node, value: Any) -> None:
    """Give those who read an input its value."""
    if node.users and not isinstance(value, (int, float, bool, complex, str, type(None), torch.dtype, torch.device)):
        raise NoProgramError(f"its graph reads {node.name}, which is a {type(value).__name__} and no tensor")

    def put(one: fx.Node) -> Any:
        return value if one is node else one

    for user in list(node.users):
        user.args, user.kwargs = fx.node.map_arg(user.args, put), fx.node.map_arg(user.kwargs, put)


def _flat_output(
    graph: fx.Graph, placeholders: list[fx.Node], nested: Any
) -> tuple[tuple[tuple[str, Any], ...], TreeSpec | None]:
    """Make the graph return each tensor that it computes once, and say how the result is put together of them."""
    output = graph.output_node()
    leaves, spec = tree_flatten(output.args[0], is_leaf=lambda one: isinstance(one, fx.Node))
    # The code generator of an exported graph puts its flat results together itself.
    structure = nested.out_spec if nested is not None and nested.out_spec is not None else spec
    results: list[fx.Node] = []
    given: list[tuple[str, Any]] = []
    for leaf in leaves:
        if not isinstance(leaf, fx.Node):
            given.append(("constant", leaf))
        elif leaf in placeholders:
            given.append(("argument", placeholders.index(leaf)))
        else:
            if not isinstance(leaf.meta.get("val", leaf.meta.get("example_value", torch.empty(0))), torch.Tensor):
                raise NoProgramError(f"it returns {leaf.name}, which is computed and no tensor")
            if leaf not in results:
                results.append(leaf)
            given.append(("result", results.index(leaf)))
    output.args = (tuple(results),)
    return tuple(given), structure


def _has_open_sizes(module: fx.GraphModule) -> bool:
    signature = getattr(module, "call_signature", None)
    return bool(signature is not None and signature.dynamic)


def _effects(graph: fx.Graph) -> tuple[str, ...]:
    """What a graph does that an engine which only computes values would leave out."""
    found: dict[str, str] = {}
    storages = Storages(graph)
    nodes = (*graph.find_nodes(op="placeholder"), *graph.find_nodes(op="get_attr"))
    outside = {storages.of(node) for node in nodes}
    for node, effects in storages.effectful.items():
        what = {
            # In place on what the graph itself has made is nobody's business.
            "it writes into what it is given or holds": any(storages.of(one) in outside for one in effects.writes),
            "it draws random numbers": effects.random,
            "it calls something of which nothing is known": effects.opaque,
        }
        for words, applies in what.items():
            if applies:
                found.setdefault(words, node.name)
    return tuple(f"{words} ({name})" for words, name in found.items())


def detached(graph_module: fx.GraphModule) -> fx.GraphModule:
    """A copy with weights of its own, outside of autograd, for an engine that bakes them in."""
    copied = copy.deepcopy(graph_module)
    for parameter in copied.parameters():
        parameter.requires_grad_(False)
    return copied
