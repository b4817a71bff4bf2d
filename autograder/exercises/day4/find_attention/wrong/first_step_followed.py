"""never turns back

Follows the first operand that is a product or a step, and never turns back.
"""

PRODUCTS = (aten.matmul.default, aten.bmm.default)


def passed_on(node):
    if node.target in (aten.mul.Tensor, aten.add.Tensor):
        return [value for value in node.args if isinstance(value, fx.Node)]
    off = node.target is aten.dropout.default and not node.args[2]
    return [node.args[0]] if off or node.target in (aten.div.Tensor, aten.to.dtype, aten.to.dtype_layout) else []


def products_above(node):
    while node.target not in PRODUCTS:
        leading = [source for source in passed_on(node) if source.target in PRODUCTS or passed_on(source)]
        if not leading:
            return []
        node = leading[0]
    return [node]


def products_below(softmax):
    seen, pending, found = set(), [softmax], []
    while pending:
        node = pending.pop()
        for user in node.users:
            if user.target in PRODUCTS:
                if user.args[0] is node:
                    found.append(user)
            elif node in passed_on(user) and user not in seen:
                seen.add(user)
                pending.append(user)
    return found


def find_attention(graph_module):
    found = []
    for softmax in graph_module.graph.nodes:
        if softmax.target is aten.softmax.int:
            above, below = products_above(softmax.args[0]), products_below(softmax)
            if above and below:
                found.append((above[-1], softmax, below[0]))
    return found
