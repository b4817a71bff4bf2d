"""failed on a hidden case

Looks above a value once for each way that leads to it: of forty sums in a row there are too many.
"""

PRODUCTS = {aten.matmul.default, aten.bmm.default}


def operands(node):
    """What a step hands on; nothing for other nodes."""
    name = getattr(node.target, "__name__", "").split(".")[0]
    if name == "dropout" and node.args[2]:
        return []
    wide = {"mul": 2, "add": 2, "div": 1, "to": 1, "dropout": 1}.get(name, 0)
    return [value for value in node.args[:wide] if isinstance(value, fx.Node)]


def climb(node, goal):
    """The first node above (or at) `node` that is a goal, along steps."""
    if node.target in goal:
        return node
    for value in operands(node):
        if (found := climb(value, goal)) is not None:
            return found
    return None


def climb_to_all(node, seen):
    if node in seen:
        return
    seen.add(node)
    if node.target is aten.softmax.int:
        yield node
    for value in operands(node):
        yield from climb_to_all(value, seen)


def find_attention(graph_module):
    blocks = {}
    for last in graph_module.graph.nodes:
        if last.target in PRODUCTS:
            for middle in climb_to_all(last.args[0], set()):
                first = climb(middle.args[0], PRODUCTS)
                if first is not None:
                    blocks.setdefault(middle, (first, middle, last))
    return list(blocks.values())
