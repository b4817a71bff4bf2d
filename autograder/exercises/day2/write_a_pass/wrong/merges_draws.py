"""merged draws

Compares calls by text, draws included.
Also: one at a time.
"""

from fxopt_core.graphs.effects import effects_of
from fxopt_core.passes import Analysis, Opportunity, OptimizationPass, register_pass


@register_pass("my_merging")
class MergePass(OptimizationPass):
    def analyze(self, editor):
        analysis = Analysis()
        seen = {}
        for node in editor.graph.nodes:
            first = seen.setdefault(str((node.target, node.args, node.kwargs)), node)
            if first is node or node.op in ("placeholder", "output"):
                continue
            analysis.opportunities.append(Opportunity(node, first))
        for node in editor.graph.nodes:
            if effects_of(node).random:
                analysis.refuse(node, "it draws from the random stream")
        return analysis

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, opportunity.data)
