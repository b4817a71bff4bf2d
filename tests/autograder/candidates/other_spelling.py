"""Writes `nn.Linear` as the operator that it is: the same product of matrices, in other words."""

import torch
from torch import nn

from fxopt_core.passes import OptimizationPass, register_pass
from fxopt_core.passes.base import Analysis, Opportunity


@register_pass("other_spelling")
class OtherSpelling(OptimizationPass):
    """`nn.Linear` becomes `aten.linear`."""

    def analyze(self, editor):
        analysis = Analysis()
        for node in editor.graph.nodes:
            if node.op == "call_module" and type(editor.graph_module.get_submodule(node.target)) is nn.Linear:
                analysis.opportunities.append(Opportunity(node))
        return analysis

    def transform(self, editor, opportunity):
        node = opportunity.node
        weight = editor.insert("get_attr", f"{node.target}.weight", like=node)
        given = [node.args[0], weight]
        if editor.graph_module.get_submodule(node.target).bias is not None:
            given.append(editor.insert("get_attr", f"{node.target}.bias", like=node))
        editor.replace(node, editor.call(torch.ops.aten.linear.default, *given, like=node))
