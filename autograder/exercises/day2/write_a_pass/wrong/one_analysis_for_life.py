"""keeps what it found

Goes on filling the `Analysis` of its first look.
"""

from fxopt_core.graphs.effects import effects_of
from fxopt_core.passes import Analysis, GraphEditor, Opportunity, OptimizationPass, register_pass


@register_pass("my_merging")
class MergePass(OptimizationPass):
    """Two nodes that apply the same function to the same values become one. Exact to the last bit."""

    def analyze(self, editor):
        analysis = self.__dict__.setdefault("analysis", Analysis())
        for node, stand_in in find_duplicates(editor.graph_module).items():
            analysis.opportunities.append(Opportunity(node, stand_in))
        for node in editor.graph_module.graph.nodes:
            if effects_of(node).random:
                analysis.refuse(node, "it draws random numbers")
        return analysis

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, opportunity.data)
