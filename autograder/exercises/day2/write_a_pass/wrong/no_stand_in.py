"""another stand-in

Looks the stand-in up once more instead of handing it over.
"""

from fxopt_core.graphs.effects import effects_of
from fxopt_core.passes import Analysis, Opportunity, OptimizationPass, register_pass


@register_pass("my_merging")
class MergePass(OptimizationPass):
    def analyze(self, editor):
        analysis = Analysis()
        for node, first in find_duplicates(editor.graph_module).items():
            analysis.opportunities.append(Opportunity(node))
        for node in editor.graph.nodes:
            if effects_of(node).random:
                analysis.refuse(node, "two draws are two values")
        return analysis

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, find_duplicates(editor.graph_module)[opportunity.node])
