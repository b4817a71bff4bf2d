"""The reference answer of write_a_pass, made from its notebook by `make notebooks`."""

import torch
from fxopt_core.graphs.aliases import Storages
from fxopt_core.graphs.effects import effects_of
from fxopt_core.passes import Analysis
from fxopt_core.passes import GraphEditor
from fxopt_core.passes import Opportunity
from fxopt_core.passes import OptimizationPass
from fxopt_core.passes import register_pass


def key_of(node: torch.fx.Node, stand_in: dict[torch.fx.Node, torch.fx.Node]):
    """A key that is equal for nodes that apply the same function to the same values; `stand_in` as found so far."""

    def key(value):
        if isinstance(value, torch.fx.Node):
            return stand_in.get(value, value)
        if isinstance(value, slice):
            return slice, key([value.start, value.stop, value.step])
        if isinstance(value, (list, tuple)):
            return isinstance(value, list), *[key(item) for item in value]  # x[[0, 1]] is not x[0, 1]
        if isinstance(value, dict):
            return tuple((name, key(value[name])) for name in sorted(value))
        return type(value), repr(value)

    return node.op, node.target, key(node.args), key(node.kwargs)


def find_duplicates(graph_module: torch.fx.GraphModule) -> dict[torch.fx.Node, torch.fx.Node]:
    """For each node that need not be computed again the earlier node that stands in for it. Changes nothing."""
    storages, stand_in, seen = Storages(graph_module.graph), {}, {}
    returned = set(storages.returned)
    for node in graph_module.graph.nodes:
        effects = effects_of(node)
        if effects.writes or effects.context or effects.opaque:
            seen.clear()  # what was computed before the write, or in the other mode, is another value now
        if not node.op.startswith("call") or effects.observable or storages.written(node):
            continue
        first = seen.setdefault(key_of(node, stand_in), node)
        if first is node or (first in returned and node in returned):
            continue
        stand_in[node] = first
        if node in returned:
            returned.add(first)
    return stand_in


@register_pass("my_merging")
class MergePass(OptimizationPass):
    """Two nodes that apply the same function to the same values become one. Exact to the last bit."""

    def analyze(self, editor: GraphEditor) -> Analysis:
        """Every duplicate as an opportunity, every draw as a refusal."""
        analysis = Analysis()
        for node, first in find_duplicates(editor.graph_module).items():
            analysis.opportunities.append(Opportunity(node, first))
        for node in editor.graph.nodes:
            if effects_of(node).random:
                analysis.refuse(node, "it draws from the random stream: two draws are two values")
        return analysis

    def transform(self, editor: GraphEditor, opportunity: Opportunity) -> None:
        """Let the stand-in take the place of one duplicate."""
        editor.replace(opportunity.node, opportunity.data)
