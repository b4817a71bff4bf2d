"""takes them all

`transform` asks for all pairs anew, and takes them.
"""

from fxopt_core.passes import Analysis, GraphEditor, Opportunity, OptimizationPass, register_pass


@register_pass("my_merging")
class MergePass(OptimizationPass):
    """Two nodes that apply the same function to the same values become one. Exact to the last bit."""

    def analyze(self, editor):
        analysis = Analysis()
        analysis.opportunities.extend(
            Opportunity(late, early) for late, early in find_duplicates(editor.graph_module).items()
        )
        for node in filter(lambda node: effects_of(node).random, editor.graph_module.graph.nodes):
            analysis.refuse(node, "it draws random numbers, each time others")
        return analysis

    def transform(self, editor, opportunity):
        for node, stand_in in find_duplicates(editor.graph_module).items():
            editor.replace(node, stand_in)
