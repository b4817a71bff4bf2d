"""`contiguous` and `clone` are taken for nothing: who reads strides, or writes, is not asked."""

import torch

from fxopt_core.passes import OptimizationPass, register_pass
from fxopt_core.passes.base import Analysis, Opportunity

COPIES = ("contiguous", "clone", torch.clone, torch.ops.aten.clone.default)


@register_pass("dropped_copies")
class DroppedCopies(OptimizationPass):
    """A copy is what it was copied from."""

    def analyze(self, editor):
        return Analysis([Opportunity(node) for node in editor.graph.nodes if node.target in COPIES])

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, opportunity.node.args[0])
