"""Traps for one pass: what it rewrote in a model is rewritten by us first, so that the rewrite is no longer legal.

The traps of the course are known, and were written for the passes of the course. These are made from what a candidate
does: wherever it rewrites something, a program puts a write, a switch of modes, another reader, or a reader of strides
between the nodes that it takes, or cuts these nodes out and calls them with values of another dtype or layout.
"""

from __future__ import annotations

import copy
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import fx

from autograder.exchange.graph_form.nodes import own_nodes
from autograder.exercises.capstone.own_pass.places import aten_level

aten = torch.ops.aten

MOST_NODES = 40
"""Nodes of a cluster that is cut out; a larger one is only planted in where it stands."""

OF_ONE_KIND = 2
"""How many plants of the same words there are for rewrites of the same operations."""


@dataclass(frozen=True)
class Planted:
    """A program that is made from another one by a plant.

    Attributes:
        kind: what was planted: the name of a misconception.
        about: what and where, in a sentence.
        graph_module: the program.
        inputs: how its inputs are made (see `made_inputs`); empty where they are those of the model.
        signature: which operations the cluster has: two clusters with the same are traps of one kind.
    """

    kind: str
    about: str
    graph_module: fx.GraphModule
    inputs: tuple[dict[str, Any], ...] = ()
    signature: str = ""


class _Values(fx.Interpreter):
    """Keeps what each node returned."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)

    def values_of(self, inputs: tuple[Any, ...]) -> dict[fx.Node, Any]:
        self.run(*inputs, enable_io_processing=False)
        return dict(self.env)


def planted(
    graph_module: fx.GraphModule,
    inputs: tuple[Any, ...],
    rewritten: set[str],
    source: random.Random,
    known: Collection[tuple[str, str]] = (),
) -> list[Planted]:
    """Plants for one model, at most two of a kind for rewrites of the same operations.

    Args:
        graph_module: the model's graph, as it was before the candidate.
        inputs: its inputs.
        rewritten: names of the nodes that the candidate removed or changed.
        source: chooses among the sites.
        known: kinds with signatures of which there are enough already.
    """
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        values = _Values(copy.deepcopy(graph_module)).values_of(copy.deepcopy(inputs))
    by_name = {node.name: value for node, value in values.items()}
    found = []
    for cluster in clusters(graph_module, rewritten):
        signature = " ".join(sorted(_target(node) for node in cluster))
        offers = [
            *_in_place(graph_module, cluster, by_name),
            *_cut_out(graph_module, cluster, by_name),
            *_called_otherwise(graph_module, inputs),
        ]
        source.shuffle(offers)
        taken: Counter[tuple[str, str]] = Counter()
        for kind, about, make, specifications in offers:
            # Writes and readers differ much by where they are; there is one of each sentence.
            alike = (about.split("`")[0], signature)
            if (kind, signature) in known or taken[alike] >= OF_ONE_KIND:
                continue
            program = make()
            given = made_inputs(specifications) if specifications else inputs
            if program is not None and _runs(program, given):
                taken[alike] += 1
                found.append(Planted(kind, about, program, tuple(specifications), signature))
    return found


def clusters(graph_module: fx.GraphModule, rewritten: set[str]) -> list[list[fx.Node]]:
    """The rewritten nodes that hang together: one reads the other, or both read the same; in order of the graph.

    One cluster for each set of operations: the layers of a model are alike.
    """
    nodes = [node for node in own_nodes(graph_module) if node.name in rewritten and node.op.startswith("call")]
    group = {node: number for number, node in enumerate(nodes)}
    for node in nodes:
        near = [node, *node.all_input_nodes, *(user for read in node.all_input_nodes for user in read.users)]
        joined = {group[other] for other in near if other in group}
        first = min(joined)
        group = {other: first if number in joined else number for other, number in group.items()}
    found: dict[str, list[fx.Node]] = {}
    for number in dict.fromkeys(group.values()):
        cluster = [node for node in nodes if group[node] == number]
        found.setdefault(" ".join(_target(node) for node in cluster), cluster)
    return list(found.values())


def _target(node: fx.Node) -> str:
    if node.op == "call_module":
        root = node.graph.owning_module
        return type(root.get_submodule(str(node.target))).__name__ if root is not None else "module"
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


Offer = tuple[str, str, Callable[[], fx.GraphModule | None], list[dict[str, Any]]]
"""Kind, sentence, what makes the program, and how its inputs are made."""

Put = Callable[[fx.Graph, fx.Node, fx.Node, bool], None]
"""Plants at an edge: the graph, the node that is read, its reader, and whether to write in operators of ATen."""


def _call(graph: fx.Graph, aten_form: Any, name: str, *args: Any) -> fx.Node:
    return graph.call_function(aten_form, args) if aten_form is not None else graph.call_method(name, args)


def _write(graph: fx.Graph, read: fx.Node, reader: fx.Node, in_aten: bool) -> None:
    with graph.inserting_before(reader):
        _call(graph, aten.mul_.Tensor if in_aten else None, "mul_", read, 0.5)


def _write_through_view(graph: fx.Graph, read: fx.Node, reader: fx.Node, in_aten: bool) -> None:
    with graph.inserting_before(reader):
        part = _call(graph, aten.select.int if in_aten else None, "select", read, 0, 0)
        _call(graph, aten.fill_.Scalar if in_aten else None, "fill_", part, 0.25)


def _switch(graph: fx.Graph, read: fx.Node, reader: fx.Node, in_aten: bool) -> None:
    with graph.inserting_before(reader):
        graph.call_function(torch._C._set_grad_enabled, (False,))
    with graph.inserting_after(reader):
        graph.call_function(torch._C._set_grad_enabled, (True,))


def _switch_between(graph: fx.Graph, read: fx.Node, reader: fx.Node, in_aten: bool) -> None:
    """Only what is computed above is outside of autograd."""
    first = next(iter(graph.nodes))
    while first.op in ("placeholder", "get_attr"):
        first = first.next
    with graph.inserting_before(first):
        graph.call_function(torch._C._set_grad_enabled, (False,))
    with graph.inserting_before(reader):
        graph.call_function(torch._C._set_grad_enabled, (True,))


def _another_reader(graph: fx.Graph, read: fx.Node, reader: fx.Node, in_aten: bool) -> None:
    _return_too(graph, reader)


def _write_to_result(graph: fx.Graph, read: fx.Node, reader: fx.Node, in_aten: bool) -> None:
    """The value is returned, and written before others read it."""
    with graph.inserting_before(reader.next):
        _call(graph, aten.add_.Tensor if in_aten else None, "add_", reader, 1.0)


def _return_too(graph: fx.Graph, node: fx.Node) -> None:
    output = graph.output_node()
    before = output.args[0]
    output.args = ((*before, node) if isinstance(before, (tuple, list)) else (before, node),)


EDGES: tuple[tuple[str, str, Put], ...] = (
    ("planted write", "before `{reader}` reads `{read}`, it is written: `mul_(0.5)`", _write),
    ("planted write", "before `{reader}` reads `{read}`, its first row is filled through a view", _write_through_view),
    ("planted write", "the result of `{reader}` is written, before others read it: `add_(1.0)`", _write_to_result),
    ("planted switch", "`{reader}` is computed without gradients, what is around it with them", _switch),
    ("planted switch", "from `{reader}` on gradients are recorded, before it they are not", _switch_between),
    ("planted reader", "the program returns the value of `{reader}`, too", _another_reader),
)
"""What is planted where a node of the cluster reads something: kind, sentence, and how."""


def _in_place(graph_module: fx.GraphModule, cluster: list[fx.Node], values: dict[str, Any]) -> Iterator[Offer]:
    in_aten = aten_level(graph_module)

    def make(put: Put, read: str, reader: str) -> fx.GraphModule:
        program = copy.deepcopy(graph_module)
        known = {node.name: node for node in program.graph.nodes}
        put(program.graph, known[read], known[reader], in_aten)
        return _finished(program)

    for reader in cluster:
        value = values.get(reader.name)
        if not isinstance(value, torch.Tensor) or not value.is_floating_point():
            continue
        for read in reader.all_input_nodes:
            if read.op != "get_attr" and _is_float(values.get(read.name)):
                for kind, about, put in EDGES:
                    words = about.format(read=read.name, reader=reader.name)
                    yield kind, words, partial(make, put, read.name, reader.name), []
        words = f"somebody reads the memory of `{reader.name}` by its strides"
        yield "planted strides", words, partial(_reads_strides, graph_module, reader.name, value, in_aten), []


def _reads_strides(
    graph_module: fx.GraphModule, name: str, value: torch.Tensor, in_aten: bool
) -> fx.GraphModule | None:
    if not value.is_contiguous() or value.dim() < 2 or value.numel() < 2:
        return None
    program = copy.deepcopy(graph_module)
    graph = program.graph
    node = next(one for one in graph.nodes if one.name == name)
    with graph.inserting_after(node):
        seen = graph.call_function(
            aten.as_strided.default if in_aten else torch.as_strided, (node, list(value.shape), list(value.stride()))
        )
    with graph.inserting_after(seen):
        _return_too(graph, graph.call_function(aten.mul.Tensor if in_aten else torch.mul, (seen, 2.0)))
    return _finished(program)


def _cut_out(graph_module: fx.GraphModule, cluster: list[fx.Node], values: dict[str, Any]) -> Iterator[Offer]:
    """The cluster alone, as a program of the values that it reads: in other dtypes and layouts."""
    inside = _with_what_is_between(cluster)
    if len(inside) > MOST_NODES:
        return
    reads = [read for node in inside for read in node.all_input_nodes if read not in inside]
    outside = [read for read in dict.fromkeys(reads) if read.op != "get_attr"]
    seen = [values.get(node.name) for node in outside]
    if not outside or not all(isinstance(value, torch.Tensor) and value.numel() for value in seen):
        return
    specifications = [
        {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch."), "layout": "rows", "seed": number}
        for number, value in enumerate(seen)
        if isinstance(value, torch.Tensor)
    ]
    names = [node.name for node in inside], [node.name for node in outside]
    alone = partial(_alone, graph_module, *names)
    for layout, words in LAYOUTS.items():
        if layout == "one tensor" and len(outside) < 2:
            continue
        kind = "planted alias" if layout == "one tensor" else "planted layout"
        yield kind, f"called with {words}", alone, [one | {"layout": layout} for one in specifications]
    for dtype in ("float64", "float16", "bfloat16", "int64"):
        changed = [
            one | {"dtype": dtype} if getattr(torch, str(one["dtype"])).is_floating_point else one
            for one in specifications
        ]
        make = partial(_alone, graph_module, *names, None if dtype == "int64" else getattr(torch, dtype))
        yield "planted dtype", f"called in {dtype}", make, changed


LAYOUTS = {
    "columns": "values that lie in memory column by column",
    "steps": "values that are every other one of a larger tensor",
    "expanded": "values of which all rows are one row in memory",
    "one tensor": "one tensor in the place of several",
}
"""How a tensor may lie in memory besides row by row."""


def _called_otherwise(graph_module: fx.GraphModule, inputs: tuple[Any, ...]) -> Iterator[Offer]:
    """The whole program in another dtype, or with inputs that lie otherwise in memory."""
    if not all(map(_is_float, inputs)):
        return
    specifications = [
        {"shape": list(value.shape), "dtype": "float32", "layout": "rows", "seed": number}
        for number, value in enumerate(inputs)
    ]

    def make(dtype: torch.dtype) -> fx.GraphModule:
        program = copy.deepcopy(graph_module)
        _to_dtype(program, dtype)
        return _finished(program)

    for dtype in ("float64", "float16", "bfloat16"):
        words = f"the whole program in {dtype}"
        yield (
            "planted dtype",
            words,
            partial(make, getattr(torch, dtype)),
            [one | {"dtype": dtype} for one in specifications],
        )
    for layout in ("columns", "steps", "expanded"):
        words = f"the whole program, called with {LAYOUTS[layout]}"
        yield (
            "planted layout",
            words,
            partial(make, torch.float32),
            [one | {"layout": layout} for one in specifications],
        )


def _with_what_is_between(cluster: list[fx.Node]) -> list[fx.Node]:
    """The cluster with each node that reads some of it and is read by some of it."""
    below: set[fx.Node] = set(cluster)
    for node in own_nodes(cluster[0].graph):
        if any(read in below for read in node.all_input_nodes):
            below.add(node)
    above: set[fx.Node] = set(cluster)
    for node in reversed(own_nodes(cluster[0].graph)):
        if any(user in above for user in node.users):
            above.add(node)
    return [node for node in own_nodes(cluster[0].graph) if node in below and node in above and node.op != "output"]


def _alone(
    graph_module: fx.GraphModule, inside: list[str], outside: list[str], dtype: torch.dtype | None = None
) -> fx.GraphModule:
    """The nodes `inside` as a program whose inputs are `outside`; it returns what others read of them."""
    root = copy.deepcopy(graph_module)
    graph, made = fx.Graph(), dict[fx.Node, fx.Node]()
    known = {node.name: node for node in root.graph.nodes}
    for number, name in enumerate(outside):
        made[known[name]] = graph.placeholder(f"value_{number}")
    for name in inside:
        for read in known[name].all_input_nodes:
            if read not in made:
                made[read] = graph.node_copy(read)
        made[known[name]] = graph.node_copy(known[name], made.__getitem__)
    results = [made[known[name]] for name in inside if any(user.name not in inside for user in known[name].users)]
    graph.output(tuple(results) if len(results) > 1 else results[0])
    program = fx.GraphModule(root, graph)
    if dtype is not None:
        _to_dtype(program, dtype)
    return _finished(program)


def _to_dtype(program: fx.GraphModule, dtype: torch.dtype) -> None:
    program.to(dtype)
    for node in own_nodes(program):  # constants that are neither parameters nor buffers
        if node.op == "get_attr":
            *path, name = str(node.target).split(".")
            owner = program.get_submodule(".".join(path))
            value = getattr(owner, name)
            if isinstance(value, torch.Tensor) and value.is_floating_point() and value.dtype != dtype:
                setattr(owner, name, value.to(dtype))


def made_inputs(specifications: list[dict[str, Any]] | tuple[dict[str, Any], ...]) -> tuple[torch.Tensor, ...]:
    """The inputs of a cluster that stands alone; the same for the same specifications."""
    first: torch.Tensor | None = None
    found = []
    for given in specifications:
        shape, dtype, layout = given["shape"], getattr(torch, given["dtype"]), given["layout"]
        generator = torch.Generator().manual_seed(given["seed"])
        whole = torch.randn([*shape[:-1], 2 * shape[-1]] if shape and layout == "steps" else shape, generator=generator)
        whole = (whole * 3).round() if not dtype.is_floating_point else whole
        value = (whole > 0) if dtype == torch.bool else whole.to(dtype)
        if layout == "columns" and len(shape) > 1:
            value = value.transpose(-1, -2).contiguous().transpose(-1, -2)
        elif layout == "steps" and shape:
            value = value[..., ::2]
        elif layout == "expanded" and shape and shape[0] > 1:
            value = value[:1].expand(shape)
        elif layout == "one tensor" and first is not None and (first.shape, first.dtype) == (value.shape, value.dtype):
            value = first
        first = value if first is None else first
        found.append(value)
    return tuple(found)


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _finished(program: fx.GraphModule) -> fx.GraphModule:
    for node in own_nodes(program):
        node.meta.clear()
    program.graph.lint()
    program.recompile()
    return program


def _runs(program: fx.GraphModule, inputs: tuple[Any, ...]) -> bool:
    """Whether the program can be called at all: what was planted may not fit there."""
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):
        try:
            _Values(copy.deepcopy(program)).values_of(copy.deepcopy(inputs))
        except Exception:  # whatever an operator raises on these values
            return False
    return True
