"""Passes that a learner might hand in and that are wrong, each in its own way; by name of what must be recognised."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from fxopt_core.passes import GraphEditor, OptimizationPass
from fxopt_core.passes.base import Analysis, Opportunity
from fxopt_core.verification import Tolerance

aten = torch.ops.aten


class Naive(OptimizationPass):
    """Rewrites wherever `meets` says so, and asks nothing else."""

    def analyze(self, editor: GraphEditor) -> Analysis:
        calls = [node for node in editor.graph.nodes if node.op.startswith("call")]
        return Analysis([Opportunity(node) for node in calls if self.meets(node)])

    def meets(self, node: fx.Node) -> bool:
        raise NotImplementedError

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        editor.replace(opportunity.node, opportunity.node.all_input_nodes[0])


def earlier_twin(node: fx.Node) -> fx.Node | None:
    for other in node.graph.nodes:
        if other is node:
            return None
        if (other.op, other.target, other.args, other.kwargs) == (node.op, node.target, node.args, node.kwargs):
            return other
    return None


class MergesDropouts(Naive):
    """Equal calls of dropout are merged, although each draws."""

    def meets(self, node: fx.Node) -> bool:
        return "dropout" in str(node.target) and earlier_twin(node) is not None

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        twin = earlier_twin(opportunity.node)
        assert twin is not None
        editor.replace(opportunity.node, twin)


class DropsCopies(Naive):
    """A copy is taken for what it was copied from."""

    def meets(self, node: fx.Node) -> bool:
        return node.target in (aten.clone.default, torch.clone, "clone")


class DropsWrites(Naive):
    """In-place operations whose result nobody reads are taken for dead."""

    def meets(self, node: fx.Node) -> bool:
        name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        return not node.users and name.split(".")[0].endswith("_")

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        editor.erase(opportunity.node)


class Detaches(Naive):
    """What `detach` does is taken for nothing."""

    def meets(self, node: fx.Node) -> bool:
        return node.target in (aten.detach.default, torch.detach, "detach")


class DropsCasts(Naive):
    """Casts are taken for nothing."""

    def meets(self, node: fx.Node) -> bool:
        return node.target in (aten._to_copy.default, aten.to.dtype, "to", "float", "double")


class SinIsCos(Naive):
    """Simply another function."""

    def meets(self, node: fx.Node) -> bool:
        return node.target in (torch.sin, aten.sin.default, "sin")

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        node = opportunity.node
        new = editor.insert("call_function", torch.cos, node.args, like=node, before=node)
        editor.replace(node, new)


class AsksForMuch(SinIsCos):
    """Hides behind a tolerance."""

    tolerance = Tolerance(relative=2.0)


class Grows(Naive):
    """Puts an absolute value over each relu, and over that another one in the next run."""

    def meets(self, node: fx.Node) -> bool:
        return node.target in (torch.relu, aten.relu.default, aten.abs.default)

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        node = opportunity.node
        readers = list(node.users)
        new = editor.insert("call_function", aten.abs.default, (node,), like=node, before=node.next)
        for reader in readers:
            reader.replace_input_with(node, new)


class Silent(OptimizationPass):
    """Changes the graph while it should only look."""

    def analyze(self, editor: GraphEditor) -> Analysis:
        for node in editor.graph.nodes:
            if node.target in (torch.sin, aten.sin.default):
                node.target = torch.ops.aten.sin.default if node.target is torch.sin else torch.sin
        return Analysis()

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        raise AssertionError


def mine(x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x)


class OwnFunction(SinIsCos):
    """Builds a call of a function that only its own package has."""

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        opportunity.node.op, opportunity.node.target = "call_function", mine


class FoldsInTraining(Naive):
    """Takes batch normalisation for a factor and an addend, which it is in evaluation mode only."""

    def meets(self, node: fx.Node) -> bool:
        return isinstance(self.called(node), torch.nn.BatchNorm2d)

    def called(self, node: fx.Node) -> torch.nn.Module | None:
        root = node.graph.owning_module
        return root.get_submodule(str(node.target)) if root and node.op == "call_module" else None

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        node, norm = opportunity.node, self.called(opportunity.node)
        assert isinstance(norm, torch.nn.BatchNorm2d)
        norm.eval()
        one = torch.zeros(1, norm.num_features, 1, 1)
        addend = norm(one).detach()
        factor = (norm(one + 1) - addend).detach()
        for function, value in ((torch.mul, factor), (torch.add, addend)):
            arguments = (node.args[0], value.mean().item())
            node.args = (editor.insert("call_function", function, arguments, like=node, before=node),)
        editor.replace(node, node.args[0])


class HardCodesShape(Naive):
    """Writes the sizes of the example into the graph."""

    def meets(self, node: fx.Node) -> bool:
        return node.target == "flatten" and "val" in node.meta

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        node = opportunity.node
        arguments = (node.args[0], *map(int, node.meta["val"].shape))
        editor.replace(node, editor.insert("call_method", "reshape", arguments, like=node, before=node))


WRONG: dict[str, list[type[Any]]] = {
    "changes draws": [MergesDropouts],
    "changes sharing": [DropsCopies],
    "loses a write": [DropsWrites],
    "changes gradients": [Detaches],
    "changes layout": [DropsCasts],
    "changes values": [SinIsCos],
    "asks for too much": [AsksForMuch],
    "not idempotent": [Grows],
    "untrue report": [Silent],
    "graph cannot travel": [OwnFunction],
    "folds in training mode": [FoldsInTraining],
    "hard-codes a shape": [HardCodesShape],
}
