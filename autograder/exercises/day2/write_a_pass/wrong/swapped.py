"""other opportunities

Gives the opportunity the stand-in for the node, and the node for the stand-in.
Also: one at a time; raised.
"""

from fxopt_core.graphs.effects import effects_of
from fxopt_core.passes import Analysis, Opportunity, OptimizationPass, register_pass


@register_pass("my_merging")
class MergePass(OptimizationPass):
    def analyze(self, editor):
        analysis = Analysis()
        for node, first in find_duplicates(editor.graph_module).items():
            analysis.opportunities.append(Opportunity(first, node))
        for node in editor.graph.nodes:
            if effects_of(node).random:
                analysis.refuse(node, "two draws are two values")
        return analysis

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, opportunity.data)
