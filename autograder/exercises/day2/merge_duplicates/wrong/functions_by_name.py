"""something else

Two functions of one name have one key.
"""


def _text(value, numbers):
    if isinstance(value, torch.fx.Node):
        return f"<{numbers[value]}>"
    if isinstance(value, slice):
        return f"slice({_text(value.start, numbers)}:{_text(value.stop, numbers)}:{_text(value.step, numbers)})"
    if isinstance(value, dict):
        return "{" + ",".join(sorted(f"{key!r}={_text(item, numbers)}" for key, item in value.items())) + "}"
    if isinstance(value, (list, tuple)):
        return (
            ("list" if isinstance(value, list) else "tuple")
            + "("
            + ",".join(_text(item, numbers) for item in value)
            + ")"
        )
    return f"{type(value).__name__}:{value!r}"


def find_duplicates(graph_module):
    graph = graph_module.graph
    storages, numbers, seen, stand_in = Storages(graph), {}, {}, {}
    returned = set(storages.returned)
    for number, node in enumerate(graph.nodes):
        numbers[node] = number
        if node.op in ("placeholder", "output"):
            continue
        effects = effects_of(node)
        if effects.writes or effects.context or effects.opaque:
            seen.clear()
        if effects.observable or storages.written(node):
            continue
        target = node.target if isinstance(node.target, str) else node.target.__name__
        key = (node.op, target, _text(node.args, numbers), _text(node.kwargs, numbers))
        first = seen.get(key)
        if first is None:
            seen[key] = node
        elif not storages.written(first) and not (first in returned and node in returned):
            stand_in[node] = first
            numbers[node] = numbers[first]
            if node in returned:
                returned.add(first)
    return stand_in


def merge_duplicates(graph_module):
    for node, first in find_duplicates(graph_module).items():
        node.replace_all_uses_with(first)
        graph_module.graph.erase_node(node)
    graph_module.graph.lint()
    graph_module.recompile()
    return graph_module
