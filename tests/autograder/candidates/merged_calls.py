"""Equal calls become one, whatever is written or switched in between."""

from fxopt_core.graphs.effects import effects_of
from fxopt_core.passes import OptimizationPass, register_pass
from fxopt_core.passes.base import Analysis, Opportunity


@register_pass("merged_calls")
class MergedCalls(OptimizationPass):
    """Looks at target and arguments, and at nothing else."""

    def analyze(self, editor):
        analysis, seen, taken = Analysis(), {}, set()
        for node in editor.graph.nodes:
            if not node.op.startswith("call") or effects_of(node).observable:
                continue
            if any(read in taken for read in node.all_input_nodes):
                continue
            first = seen.setdefault((node.op, node.target, str(node.args), str(node.kwargs)), node)
            if first is not node:
                taken.add(node)
                analysis.opportunities.append(Opportunity(node, first))
        return analysis

    def transform(self, editor, opportunity):
        editor.replace(opportunity.node, opportunity.data)
