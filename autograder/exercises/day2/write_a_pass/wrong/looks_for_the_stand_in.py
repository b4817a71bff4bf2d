"""chooses the stand-in itself

Looks for the duplicates again, and takes the stand-in that it finds for the node.
"""

from fxopt_core.graphs.effects import effects_of
from fxopt_core.passes import Analysis, Opportunity, OptimizationPass, register_pass


@register_pass("my_merging")
class MergePass(OptimizationPass):
    def analyze(self, editor):
        analysis = Analysis()
        for node, first in find_duplicates(editor.graph_module).items():
            analysis.opportunities.append(Opportunity(node, first))
        for node in editor.graph.nodes:
            if effects_of(node).random:
                analysis.refuse(node, "two draws are two values")
        return analysis

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, find_duplicates(editor.graph_module)[opportunity.node])
