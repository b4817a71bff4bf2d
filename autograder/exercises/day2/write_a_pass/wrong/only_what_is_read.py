"""merged too little

Takes a duplicate that nobody reads for no opportunity, though it is an entry of the dictionary.
"""

from fxopt_core.graphs.effects import effects_of
from fxopt_core.passes import Analysis, Opportunity, OptimizationPass, register_pass


@register_pass("my_merging")
class MergePass(OptimizationPass):
    def analyze(self, editor):
        analysis = Analysis()
        for node, stand_in in find_duplicates(editor.graph_module).items():
            if not node.users:
                continue
            analysis.opportunities.append(Opportunity(node, stand_in))
        for node in editor.graph.nodes:
            if effects_of(node).random:
                analysis.refuse(node, "draws from the random stream")
        return analysis

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, opportunity.data)
