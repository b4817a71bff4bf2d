"""refused too much

Refuses whatever has an effect, writes included.
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
            if effects_of(node).observable:
                analysis.refuse(node, "it does something besides computing")
        return analysis

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, opportunity.data)
