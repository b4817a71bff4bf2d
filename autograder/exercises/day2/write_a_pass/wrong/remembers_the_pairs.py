"""needs its own analysis

Keeps what it found in the pass, and does not look at what the opportunity carries.
"""

from fxopt_core.graphs.effects import effects_of
from fxopt_core.passes import Analysis, Opportunity, OptimizationPass, register_pass


@register_pass("my_merging")
class MergePass(OptimizationPass):
    def analyze(self, editor):
        analysis = Analysis()
        self.pairs = find_duplicates(editor.graph_module)
        for node, first in find_duplicates(editor.graph_module).items():
            analysis.opportunities.append(Opportunity(node, first))
        for node in editor.graph.nodes:
            if effects_of(node).random:
                analysis.refuse(node, "two draws are two values")
        return analysis

    def transform(self, editor, opportunity):
        for node, first in getattr(self, "pairs", {}).items():
            if node is opportunity.node:
                editor.replace(node, first)
