"""Finds the duplicates itself, with the editor's storages; checks its promise in `verify`."""

from fxopt_core.graphs.literal_keys import literal_key
from fxopt_core.passes import Analysis, Opportunity, OptimizationPass, register_pass


@register_pass("my_merging")
class MergePass(OptimizationPass):
    """n = f(x), m = f(x) becomes n, where f has no effect. Bitwise exact."""

    def analyze(self, editor):
        analysis, numbers, first = Analysis(), {}, {}
        storages = editor.storages
        for node in editor.graph.nodes:
            effects = storages.effects(node)
            if effects.random:
                analysis.refuse(node, "two draws are two values")
            elif node.op.startswith("call") and not effects.observable:
                key = (node.op, node.target, literal_key(node.args, numbers), literal_key(node.kwargs, numbers))
                other = first.setdefault(key, node)
                if other is not node and not {node, other} <= storages.returned:
                    numbers[node] = other
                    analysis.opportunities.append(Opportunity(node, other))
        return analysis

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, opportunity.data)

    def verify(self, editor, result):
        self.require_gone(editor, result.rewrites)
