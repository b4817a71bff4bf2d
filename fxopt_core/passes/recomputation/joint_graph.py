"""Which values of a joint forward and backward graph to save: a partitioner for AOTAutograd, within a budget."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.backends.debugging import boxed_nop
from torch._functorch import config
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from torch.utils.checkpoint import CheckpointPolicy
from torch.utils.flop_counter import flop_registry

from fxopt_core.graphs.legality import legality
from fxopt_core.passes.recomputation.segments import OPERATIONS_PER_BYTE
from fxopt_core.passes.recomputation.training_step import BudgetError, check_budget

KNOBS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.25, 0.2, 0.15, 0.1, 0.05, 0.02, 0.0)
"""Values of `activation_memory_budget` that are tried. Torch takes them for a share of what is saved, which says little
about the peak (pytorch issue 197838): so each is only a way to another partition, whose peak is worked out."""


@dataclass(frozen=True)
class JointPoint:
    """One way to cut the joint graph in two.

    Attributes:
        budget: the least budget for which it is taken: its peak as a fraction of that without recomputation.
        predicted_bytes: most bytes alive at a time in forward and backward, beyond inputs and gradients.
        cost: what backward computes again, in the unit of `Segment.cost`.
        knob: torch's `activation_memory_budget` that led to it; `None` where nothing is recomputed.
    """

    budget: float
    predicted_bytes: int
    cost: float
    knob: float | None


Cut = tuple[fx.GraphModule, fx.GraphModule]
Report = Callable[[tuple[JointPoint, ...], JointPoint], object]
"""Called with the Pareto curve and the point that was taken."""


def recomputation_backend(budget: float, report: Report = lambda curve, point: None) -> Callable[..., Any]:
    """A backend of `torch.compile` that recomputes in backward as much as a budget asks for, operation by operation.

        torch.compile(model, backend=recomputation_backend(0.5))

    Kernels are those of eager mode, like with `aot_eager`. Where Dynamo finds several graphs, each must keep the budget
    for itself; with `fullgraph=True` there is one.

    Args:
        budget: see `partition`.
        report: called for each joint graph.

    Raises:
        BudgetError: the budget is out of range; while compiling (and then wrapped by Dynamo), it cannot be reached.
    """
    check_budget(budget)

    def cut(joint: fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Cut:
        return partition(joint, inputs, budget=budget, report=report, **options)

    backend: Callable[..., Any] = aot_autograd(
        fw_compiler=boxed_nop, bw_compiler=boxed_nop, partition_fn=cut, keep_inference_input_mutations=True
    )
    return backend


def partition(
    joint: fx.GraphModule,
    inputs: Sequence[Any],
    *,
    budget: float,
    report: Report = lambda curve, point: None,
    num_fwd_outputs: int,
    **options: Any,
) -> Cut:
    """Cut a joint graph into forward and backward so that the peak of both stays within a budget.

    Torch's min-cut partitioner proposes cuts; the peak of each follows from the sizes and the last uses of its values;
    the cheapest within the budget is taken. The proposals do not depend on the budget, so a lower budget never has a
    higher predicted peak.

    Args:
        joint: as AOTAutograd passes it; it may be changed.
        inputs: of the joint graph.
        budget: fraction, above 0 and at most 1, of the peak without recomputation.
        report: called with the Pareto curve and the point that was taken.
        num_fwd_outputs: how many of the outputs belong to forward.
        options: passed on to torch's partitioners.

    Raises:
        BudgetError: the budget is out of range, or below what can be reached.
    """
    check_budget(budget)
    options["num_fwd_outputs"] = num_fwd_outputs
    for node in joint.graph.nodes:
        if _draws(node):
            node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    whole = default_partition(copy.deepcopy(joint), inputs, **options)
    baseline = cut_peak(whole, num_fwd_outputs)
    proposals = [(JointPoint(1.0, baseline, recomputed(whole), None), whole)]
    for knob in KNOBS:
        with config.patch(activation_memory_budget=knob):
            cut = min_cut_rematerialization_partition(copy.deepcopy(joint), inputs, **options)
        if a_draw_comes_once(cut):
            continue
        peak = cut_peak(cut, num_fwd_outputs)
        proposals.append((JointPoint(peak / max(baseline, 1), peak, recomputed(cut), knob), cut))
    proposals.sort(key=lambda proposal: (proposal[0].cost, proposal[0].predicted_bytes))
    front: list[tuple[JointPoint, Cut]] = []
    for point, cut in proposals:
        if not front or point.predicted_bytes < front[-1][0].predicted_bytes:
            front.append((point, cut))
    chosen = next(((point, cut) for point, cut in front if point.budget <= budget), None)
    if chosen is None:
        least = front[-1][0]
        raise BudgetError(
            f"the budget {budget} is {budget * baseline:.0f} bytes; the least that can be reached in this joint graph "
            f"is {least.budget:.4f} ({least.predicted_bytes} of {baseline} bytes).",
            least.budget,
        )
    report(tuple(point for point, _ in front), chosen[0])
    return chosen[1]


@legality("recomputation: a draw comes once")
def a_draw_comes_once(cut: Cut) -> str | None:
    """Drawn again in backward, random numbers are others: the gradients would be wrong."""
    again = [node.name for node in _recomputed(cut) if _draws(node)]
    return f"backward would draw {', '.join(again)} anew" if again else None


def cut_peak(cut: Cut, num_fwd_outputs: int) -> int:
    """Most bytes alive at a time in forward and then backward, beyond inputs of forward and results of backward.

    What forward returns to its caller is alive throughout; what it saves, until its last use in backward.
    """
    forward, backward = (half.graph for half in cut)
    given = {_memory(node) for node in forward.find_nodes(op="placeholder")}
    returned = _returned(forward)
    outputs = {_memory(node) for node in returned[:num_fwd_outputs]} - given
    saved = {_memory(node) for node in returned[num_fwd_outputs:]} - given - outputs
    results = {_memory(node) for node in _returned(backward)}
    throughout = sum(size for _, size in outputs)
    first = _peak(forward, skip=given, kept=outputs | saved, alive=set(), start=0)
    # Gradients of outputs are the caller's; saved values come in alive and are freed after their last use.
    second = _peak(backward, skip=given | outputs | results, kept=set(), alive=saved, start=throughout)
    return max(first, second)


def recomputed(cut: Cut) -> float:
    """What backward computes again, in the unit of `Segment.cost`."""
    real = [node for node in _recomputed(cut) if not _is_view(node)]
    return sum(_operations(node) + OPERATIONS_PER_BYTE * _memory(node)[1] for node in real)


def _recomputed(cut: Cut) -> list[fx.Node]:
    """The nodes that both halves have."""
    forward, backward = cut
    known = {node.name for node in forward.graph.nodes if node.op == "call_function"}
    return [node for node in backward.graph.nodes if node.op == "call_function" and node.name in known]


def _draws(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags


Memory = tuple[int, int]
"""Identity and bytes of the memory behind a value."""


def _memory(node: Any) -> Memory:
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(value, torch.Tensor):
        return 0, 0
    storage = value.untyped_storage()
    return storage._cdata, _known(storage.nbytes())


def _known(size: int | torch.SymInt) -> int:
    """A size as in the example; converting a symbolic one to a number would fix it for all calls.

    Raises:
        ValueError: it depends on data.
    """
    if not isinstance(size, torch.SymInt):
        return int(size)
    if size.node.hint is None:
        raise ValueError(f"the size {size} depends on data; a memory budget needs sizes that are known.")
    return int(size.node.hint)


def _is_view(node: fx.Node) -> bool:
    return any(_memory(node) == _memory(argument) for argument in node.all_input_nodes)


def _returned(graph: fx.Graph) -> list[Any]:
    return list(graph.output_node().args[0])  # type: ignore[arg-type]


def _operations(node: fx.Node) -> int:
    count = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if count is None:
        return 0
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda argument: argument.meta.get("val"))
    return _known(count(*args, **kwargs, out_val=node.meta["val"]))


def _peak(graph: fx.Graph, *, skip: set[Memory], kept: set[Memory], alive: set[Memory], start: int) -> int:
    """Most bytes alive at a time while the nodes run in order, each value being freed after its last use."""
    nodes = list(graph.nodes)
    first: dict[Memory, int] = dict.fromkeys(alive, 0)
    last: dict[Memory, int] = {}
    for number, node in enumerate(nodes):
        if node.op == "call_function" and _memory(node)[1]:
            first.setdefault(_memory(node), number)
        for used in (node, *node.all_input_nodes):
            last[_memory(used)] = number
    changes = [0] * (len(nodes) + 2)
    for memory, number in first.items():
        if memory in skip:
            continue
        changes[number] += memory[1]
        if memory not in kept:
            changes[last.get(memory, number) + 1] -= memory[1]
    return start + max(accumulate(changes))
