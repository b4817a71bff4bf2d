"""refused twice

Refuses what draws once for each value that reads it, and once for itself.
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
                for _ in range(1 + len(node.users)):
                    analysis.refuse(node, "two draws are two values")
        return analysis

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, opportunity.data)
