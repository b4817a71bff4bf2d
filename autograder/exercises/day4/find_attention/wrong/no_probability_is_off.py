"""a dropout that is on

Takes a dropout of probability 0 for one that is off.
"""

PRODUCTS = (aten.matmul.default, aten.bmm.default)


def passed_on(node):
    if node.target in (aten.mul.Tensor, aten.add.Tensor):
        return [value for value in node.args if isinstance(value, fx.Node)]
    off = node.target is aten.dropout.default and (not node.args[2] or node.args[1] == 0)
    return [node.args[0]] if off or node.target in (aten.div.Tensor, aten.to.dtype, aten.to.dtype_layout) else []


def products_above(node):
    seen, pending, found = set(), [node], []
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.target in PRODUCTS:
            found.append(node)
        else:
            pending += passed_on(node)
    return found


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
