"""Finds the duplicates itself, with the editor's storages; checks its promise in `verify`."""

from fxopt_core.graphs.literal_keys import literal_key
from fxopt_core.passes import Analysis, Opportunity, OptimizationPass, register_pass


@register_pass("my_merging")
class MergePass(OptimizationPass):
    """n = f(x), m = f(x) becomes n, where f has no effect. Bitwise exact."""

    def analyze(self, editor):
        analysis, numbers, first = Analysis(), {}, {}
        storages = editor.storages
        returned = set(storages.returned)
        for node in editor.graph.nodes:
            effects = storages.effects(node)
            if effects.random:
                analysis.refuse(node, "two draws are two values")
            if effects.writes or effects.context or effects.opaque:
                first.clear()
            if not node.op.startswith("call") or effects.observable or storages.written(node):
                continue
            key = (
                node.op,
                node.target,
                literal_key(node.args, numbers),
                literal_key(sorted(node.kwargs.items()), numbers),
            )
            other = first.setdefault(key, node)
            if other is not node and not {node, other} <= returned:
                numbers[node] = other
                returned |= {other} if node in returned else set()
                analysis.opportunities.append(Opportunity(node, other))
        return analysis

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, opportunity.data)

    def verify(self, editor, result):
        self.require_gone(editor, result.rewrites)
