"""Looks at a copy, and registers by a call; the stand-in is found by name when the opportunity is taken."""

import copy

from fxopt_core import passes
from fxopt_core.graphs.effects import effects_of


class MergePass(passes.OptimizationPass):
    def analyze(self, editor):
        looked_at = copy.deepcopy(editor.graph_module)
        merge_duplicates(looked_at)
        names = {node.name: stand_in.name for node, stand_in in find_duplicates(editor.graph_module).items()}
        nodes = {node.name: node for node in editor.graph.nodes}
        gone = nodes.keys() - {node.name for node in looked_at.graph.nodes}
        return passes.Analysis(
            [passes.Opportunity(nodes[name], names[name], rule="same") for name in nodes if name in gone],
            [passes.Refusal(name, "never the same twice") for name in nodes if effects_of(nodes[name]).random],
        )

    def transform(self, editor, opportunity):
        stand_in = next(node for node in editor.graph.nodes if node.name == opportunity.data)
        editor.replace(opportunity.node, stand_in)


passes.register_pass("my_merging")(MergePass)
