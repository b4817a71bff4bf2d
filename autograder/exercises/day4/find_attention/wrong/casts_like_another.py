"""other blocks

Goes on along whatever a cast reads, also where it only gives its dtype.
"""


def find_attention(graph_module: fx.GraphModule) -> list[tuple[fx.Node, fx.Node, fx.Node]]:
    """For each attention block the product of query and key, the softmax, and the product with the values."""
    aten = torch.ops.aten
    products = (aten.matmul.default, aten.bmm.default)

    def passed_on(node):
        """The operands of which a step only changes the values; none where the node is no step."""
        if node.target in (aten.mul.Tensor, aten.add.Tensor):
            return [value for value in node.args if isinstance(value, fx.Node)]
        if str(node.target).startswith("aten.to."):
            return node.all_input_nodes
        idle = node.target is aten.dropout.default and not node.args[2]
        return [node.args[0]] if idle or node.target is aten.div.Tensor else []

    def search(start, neighbours, wanted):
        """The first wanted node among those that steps lead to; no node is looked at twice."""
        seen, pending = set(), [start]
        while pending:
            node = pending.pop(0)
            if wanted(node):
                return node
            for other in neighbours(node):
                if other not in seen:
                    seen.add(other)
                    pending.append(other)
        return None

    found = []
    for softmax in graph_module.graph.nodes:
        if softmax.target is not aten.softmax.int:
            continue
        scores = search(softmax.args[0], passed_on, lambda node: node.target in products)
        last = search(
            softmax,
            lambda node: [user for user in node.users if node in passed_on(user)],
            lambda node: any(user.target in products and user.args[0] is node for user in node.users),
        )
        if scores and last:
            found.append((scores, softmax, next(u for u in last.users if u.target in products and u.args[0] is last)))
    return found
