"""What each node of a graph costs, found by running the graph on fake tensors: shapes only, no memory."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.utils._pytree import tree_leaves, tree_map

from fxopt_core.costs.counting import Counter, plain, storage_of
from fxopt_core.costs.liveness import live_bytes
from fxopt_core.costs.report import Analysis, NodeCost
from fxopt_core.graphs.examples import EXAMPLE_META, in_example, value_of
from fxopt_core.graphs.module_paths import module_path
from fxopt_core.graphs.names import operation_name


def analyze_graph(
    graph_module: fx.GraphModule, parameters: Mapping[str, str] | None = None, inputs: Sequence[Any] | None = None
) -> Analysis:
    """The costs of each node of a graph, which runs on fake tensors unless it gets real ones.

    Args:
        graph_module: the graph. Its placeholders carry `meta["val"]` or `meta["example_value"]`, as those from
            `torch.export`, Dynamo and AOTAutograd do. Symbolic sizes count as in the example, and what depends on data
            is in a recorded graph as it was recorded.
        parameters: names of the placeholders that stand for parameters, and the parameters' names. Parameters that
            the graph holds itself are found without.
        inputs: values of the placeholders. A copy of the graph then really computes, on copies of them, which tells
            the sizes that depend on data: how many tokens a router sends to each expert, say.

    Raises:
        ValueError: a placeholder carries no value, or a size depends on data, was not recorded, and there are no
            `inputs`.
    """
    if inputs is not None:
        graph_module, inputs = copy.deepcopy((graph_module, tuple(inputs)))
        run = _Costs(graph_module, None, parameters or {})
        with torch.no_grad():
            run.run(*inputs)
        return run.analysis()
    values = [_example(node) for node in graph_module.graph.nodes if node.op == "placeholder"]
    mode = fake_mode([*values, *graph_module.parameters(), *graph_module.buffers()])
    run = _Costs(graph_module, mode, parameters or {})
    with mode, torch.inference_mode(False), torch.no_grad():
        run.run(*(tree_map(partial(fake_like, mode), value) for value in values))
    return run.analysis()


def fake_mode(values: list[Any]) -> FakeTensorMode:
    """The mode that fake tensors among the values belong to, or a new one."""
    return detect_fake_mode(values) or FakeTensorMode(allow_non_fake_inputs=True)


def fake_like(mode: FakeTensorMode, value: Any, device: torch.device | None = None) -> Any:
    """A fake tensor like this one, or a number, with the sizes that symbols have in the example.

    Args:
        mode: to which the new tensor belongs.
        value: a tensor, a symbolic number, or anything else, which is returned as it is.
        device: of the new tensor; by default that of `value`.

    Raises:
        UnknownSizeError: a size depends on data.
    """
    if not isinstance(value, torch.Tensor):
        return in_example(value)
    shape, strides = (list(map(in_example, sizes)) for sizes in (value.shape, value.stride()))
    with mode:
        return torch.empty_strided(shape, strides, dtype=value.dtype, device=device or value.device)


def _was_recorded(node: fx.Node) -> bool:
    """Whether the graph says what came out of a node, with every size a number: a recording does, guards too."""
    return "val" in node.meta and not any(
        isinstance(part, (torch.SymInt, torch.SymFloat, torch.SymBool))
        for leaf in tree_leaves(node.meta["val"])
        for part in ((*leaf.shape, *leaf.stride()) if isinstance(leaf, torch.Tensor) else (leaf,))
    )


def _example(node: fx.Node) -> Any:
    if not node.meta.keys() & set(EXAMPLE_META):
        raise ValueError(
            f"the placeholder {node.name!r} carries no value in its meta; capture the graph with export, dynamo or aot."
        )
    return value_of(node)


class _Costs(fx.Interpreter):
    """Runs a graph on fake tensors and notes of each node what it costs and where its value lies."""

    # Storages are told apart by their addresses, so none may be freed and its address used again.
    def __init__(self, module: fx.GraphModule, mode: FakeTensorMode | None, parameters: Mapping[str, str]) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.extra_traceback = False
        self.mode = mode
        self.parameters = parameters
        self.costs: list[tuple[fx.Node, Counter]] = []
        self.storages: dict[fx.Node, dict[int, int]] = {}
        self.outside: dict[int, int] = {}
        self.read: dict[fx.Node, dict[str, int]] = {}

    def run_node(self, node: fx.Node) -> Any:
        try:
            with Counter() as counter:
                value = super().run_node(node)
        except (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode) as error:
            if self.mode is None or not _was_recorded(node):
                raise ValueError(
                    f"the size of {node.name!r} ({operation_name(node)}) or of what it reads depends on data; "
                    "costs need sizes that are known. Capture the model, and let its graph compute: "
                    "analyze_graph(partition.graph_module, inputs=partition.example_inputs)."
                ) from error
            value = tree_map(partial(fake_like, self.mode), node.meta["val"])
            if isinstance(node.target, torch._ops.OpOverload):
                counter.count(node.target, *self.fetch_args_kwargs_from_env(node), value)
        tensors = [leaf for leaf in tree_leaves(value) if isinstance(leaf, torch.Tensor)]
        held = {storage_of(tensor): plain(tensor).untyped_storage().nbytes() for tensor in tensors}
        if node.op in ("placeholder", "get_attr"):
            own = node.op == "get_attr" and isinstance(self.fetch_attr(str(node.target)), torch.nn.Parameter)
            name = str(node.target) if own else self.parameters.get(node.name)
            if node.users:
                self.outside |= held
                self.read[node] = {name: tensors[0].numel()} if name else {}
            return value
        self.storages[node] = {key: size for key, size in held.items() if key not in self.outside}
        if node.op != "output":
            self.costs.append((node, counter))
        return value

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        value = super().get_attr(target, args, kwargs)
        if self.mode is None or not isinstance(value, torch.Tensor) or isinstance(value, FakeTensor):
            return value
        return self.mode.from_tensor(value, static_shapes=True)

    def analysis(self) -> Analysis:
        live = dict(zip(self.graph.nodes, live_bytes(self.graph, self.storages), strict=True))
        elements: dict[str, int] = {}
        nodes = []
        for node, counter in self.costs:
            read = {name: size for source in node.all_input_nodes for name, size in self.read.get(source, {}).items()}
            if node.op == "call_module":
                own = self.module.get_submodule(str(node.target)).named_parameters()
                read |= {f"{node.target}.{name}": tensor.numel() for name, tensor in own}
            elements |= read
            figures = (counter.cost, counter.dtype, tuple(read), live[node])
            nodes.append(NodeCost(node.name, operation_name(node), module_path(node)[0], *figures))
        return Analysis(tuple(nodes), elements, sum(self.outside.values()), self.graph, self.env)
