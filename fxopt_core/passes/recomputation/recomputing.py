"""The pass: regions of a graph are recomputed in backward, so that a training step stays within a memory budget."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import fx

from fxopt_core.graphs.cloning import clone_graph_module
from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.graphs.examples import EXAMPLE_META, UnknownSizeError, attribute_of, example_of
from fxopt_core.graphs.walks import graph_of, inputs_of
from fxopt_core.passes.base import Analysis, Opportunity, OptimizationPass, PassError, PassResult, RequestError
from fxopt_core.passes.recomputation.hazards import Hazards, computing
from fxopt_core.passes.recomputation.planning import Plan, Stretch, plans
from fxopt_core.passes.recomputation.region import RecomputedRegion, mark_for_partitioner
from fxopt_core.passes.recomputation.simulation import Simulation
from fxopt_core.passes.registry import register_pass

ROUGHLY = 1.25
"""By so much a plan's estimated bytes may be too many: it counts some memory twice."""


class BudgetError(RequestError):
    """A budget is out of range or below what can be reached.

    Attributes:
        minimum: the least budget that can be reached, where that is known.
    """

    def __init__(self, message: str, minimum: float | None = None) -> None:
        super().__init__(message)
        self.minimum = minimum


class Peaks(NamedTuple):
    """Bytes that a training step of a graph holds at its peak, simulated; the graph module has them in its `meta`.

    Attributes:
        unchanged: as the graph was.
        planned: with regions recomputed.
    """

    unchanged: int
    planned: int


class _Region(NamedTuple):
    """What to make a region of.

    Attributes:
        nodes: what is computed in it.
        written: names of the values from outside that it writes.
        draws: whether it draws random numbers.
        number: among the regions of the graph.
        peaks: of the plan that it belongs to.
    """

    nodes: Sequence[fx.Node]
    written: frozenset[str]
    draws: bool
    number: int
    peaks: Peaks


@register_pass("recomputation")
class Recomputation(OptimizationPass):
    """Keep a training step within a memory budget: forget what regions save for backward, and compute it again.

        a = f(x); b = g(a); c = h(b)    becomes    c = region(x)

    where `region` computes the same, keeps `x` alone, and when backward comes there runs once more for what f, g and h
    had saved. A region is a run of consecutive nodes, of which a second run must find everything as the first did: no
    node of which nothing is known (so it calls no hook, and appends to no cache), no switch of modes, no module that
    changes its own buffers, no draw from another generator than the global one, and nothing that a later node writes.
    What a region writes itself, such as the running statistics of a batch normalisation, its second run gets as a copy
    of what it was. So buffers are written once, dropout draws the same numbers again, and the random stream goes on as
    if nothing had run twice. Exactness: bitwise, gradients and gradients of gradients too.

    The budget is a fraction of the peak of the unchanged step: forward and backward from given gradients of the
    results, beyond parameters, buffers, inputs and all gradients. Peaks are simulated operator by operator on tensors
    without data (`Simulation`). Of some dozen plans (`plans`), the cheapest within the budget is taken, and cut
    down to what the budget needs. Put this pass last: others do not see into regions.

    Args:
        memory_budget: above 0 and at most 1.

    Raises:
        BudgetError: the budget is out of range; while running, it cannot be reached. The message says what can.
    """

    def __init__(self, *, memory_budget: float = 0.5) -> None:
        number = isinstance(memory_budget, (int, float)) and not isinstance(memory_budget, bool)
        if not number or math.isnan(memory_budget) or not 0 < memory_budget <= 1:
            raise BudgetError(
                f"memory_budget is {memory_budget!r}; expected a fraction of the step's peak, above 0 and at most 1."
            )
        self.memory_budget = float(memory_budget)

    def analyze(self, editor: GraphEditor) -> Analysis:
        """Find the cheapest plan within the budget."""
        analysis = Analysis()
        nodes = computing(editor.graph)
        if not nodes or any(isinstance(_called(node), RecomputedRegion) for node in nodes):
            return analysis
        inputs = map(example_of, editor.graph.find_nodes(op="placeholder"))
        if not any(value is not None and value.requires_grad for value in (*inputs, *editor.graph_module.parameters())):
            analysis.refuse(nodes[-1], "nothing is saved for backward: no input and no parameter needs a gradient")
            return analysis
        try:
            simulation = Simulation(editor.graph_module)
            by_name, sizes = simulation.record()
            records = [by_name[node.name] for node in nodes]
            if not any(record.saved for record in records):
                analysis.refuse(nodes[-1], "nothing is saved for backward: gradients are off, or nothing needs a value")
                return analysis
            hazards = Hazards(editor.graph)
            for number, node in enumerate(nodes):
                reason = hazards.barriers[number] if records[number].saved else None
                if reason := reason or hazards.reason(number, number + 1):
                    analysis.refuse(node, reason)
            regions = self._cheapest(simulation, hazards, plans(records, sizes, hazards.legal))
            analysis.opportunities += [Opportunity(region.nodes[0], region) for region in regions]
        except UnknownSizeError as error:
            analysis.refuse(nodes[0], f"{error}; a memory budget needs sizes")
        return analysis

    def _cheapest(self, simulation: Simulation, hazards: Hazards, proposals: list[Plan]) -> list[_Region]:
        """The regions of the cheapest plan that is within the budget by its simulated peak.

        Where the cheapest proposal frees more than needed, only a first part of the graph, as short as possible, is
        recomputed as it proposes, and the rest as a cheaper one does: what forward saves first is held longest.
        """
        unchanged = least = simulation.peak()
        allowed = self.memory_budget * unchanged

        def peak(stretches: Sequence[Stretch]) -> int:
            return simulation.peak(self._trial(simulation.module, hazards, stretches)) if stretches else unchanged

        # What certainly holds too much comes last: it is only tried to say what can be reached.
        for plan in sorted(proposals, key=lambda plan: (plan.held > ROUGHLY * allowed, plan.cost)):
            planned = peak(plan.stretches)
            least = min(least, planned)
            if planned > allowed:
                continue
            others = (other for other in proposals if other.cost < plan.cost)
            cheaper = min(others, key=lambda other: other.held, default=plan)
            stretches, too_few, enough = plan.stretches, 0, len(plan.stretches)
            while enough - too_few > 1:
                half = (too_few + enough) // 2
                border = plan.stretches[half - 1][1]
                mixed = (*plan.stretches[:half], *(stretch for stretch in cheaper.stretches if stretch[0] >= border))
                if (mixed_peak := peak(mixed)) <= allowed:
                    stretches, planned, enough = mixed, mixed_peak, half
                else:
                    too_few = half
            return _regions(hazards, hazards.nodes, stretches, Peaks(unchanged, planned))
        raise BudgetError(
            f"memory_budget {self.memory_budget} is {allowed:.0f} bytes; the least that can be reached in this graph "
            f"is {least / unchanged:.4f} ({least} of {unchanged} bytes).",
            least / unchanged,
        )

    def _trial(self, module: fx.GraphModule, hazards: Hazards, stretches: Sequence[Stretch]) -> fx.GraphModule:
        """A clone of a graph with these stretches as regions."""
        trial = GraphEditor(clone_graph_module(module))
        for region in _regions(hazards, computing(trial.graph), stretches, Peaks(0, 0)):
            with trial.rewrite(self.name, region.nodes[0]):
                self.transform(trial, Opportunity(region.nodes[0], region))
        trial.finish()
        return trial.graph_module

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        """Put nodes into a region, which is called in their place."""
        region: _Region = opportunity.data
        nodes, inside = region.nodes, set(region.nodes)
        inputs = inputs_of(nodes)
        outputs = [node for node in nodes if any(user not in inside for user in node.users)]
        body, copies = graph_of(nodes, inputs, tuple(outputs))
        for copied in copies:
            mark_for_partitioner(copied, region.number)
        modules = {str(node.target): _called(node) for node in nodes if node.op == "call_module"}
        module = RecomputedRegion(
            fx.GraphModule(modules, body),
            tuple(number for number, source in enumerate(inputs) if source.name in region.written),
            region.draws,
        )
        call = editor.insert("call_module", editor.module(module, "recomputed"), tuple(inputs), like=nodes[-1])
        for name in EXAMPLE_META:
            if all(name in node.meta for node in outputs):
                call.meta[name] = tuple(node.meta[name] for node in outputs)
        results = {
            node: editor.insert("call_function", operator.getitem, (call, number), like=node, before=nodes[-1])
            for number, node in enumerate(outputs)
        }
        for node in reversed(nodes):
            if node in results:
                editor.replace(node, results[node])
            else:
                editor.erase(node)
        editor.graph_module.meta["recomputation"] = region.peaks

    def verify(self, editor: GraphEditor, result: PassResult) -> None:
        """A simulated step stays within the budget."""
        if not result.changed:
            return
        peak = Simulation(editor.graph_module).peak()
        unchanged = editor.graph_module.meta["recomputation"].unchanged
        if peak > self.memory_budget * unchanged:
            raise PassError(
                f"{self.name}: the peak is {peak} bytes, of {unchanged} before; {self.memory_budget} was asked for."
            )


def _regions(hazards: Hazards, nodes: Sequence[fx.Node], stretches: Sequence[Stretch], peaks: Peaks) -> list[_Region]:
    return [
        _Region(nodes[first:end], hazards.written(first, end), hazards.draws(first, end), number, peaks)
        for number, (first, end) in enumerate(stretches)
    ]


def _called(node: fx.Node) -> Any:
    return attribute_of(node.graph.owning_module, node.target) if node.op == "call_module" else None
