"""remembers the graph

Looks at each graph module once, though its graph may have changed since.
"""

from fxopt_core.graphs.effects import effects_of
from fxopt_core.passes import Analysis, Opportunity, OptimizationPass, register_pass


@register_pass("my_merging")
class MergePass(OptimizationPass):
    def __init__(self):
        self.found = {}

    def analyze(self, editor):
        analysis = Analysis()
        if editor.graph_module not in self.found:
            self.found[editor.graph_module] = find_duplicates(editor.graph_module)
        for node, first in self.found[editor.graph_module].items():
            analysis.opportunities.append(Opportunity(node, first))
        for node in editor.graph.nodes:
            if effects_of(node).random:
                analysis.refuse(node, "two draws are two values")
        return analysis

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, opportunity.data)
