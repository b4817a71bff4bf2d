"""ones tried alone

Tries each size of 1 by itself; two that must be equal fail then, one by one.
"""

from itertools import combinations


def _offered(model, example):
    shapes = {name: [Dim.AUTO] * value.dim() for name, value in example.items()}
    return export(copy.deepcopy(model), (), dict(example), dynamic_shapes=shapes)


def _doubled(example, places):
    changed = dict(example)
    for name, axis in places:
        changed[name] = torch.cat([changed[name], changed[name]], dim=axis)
    return changed


def _runs(model, example):
    try:
        _offered(model, example)
    except Exception:
        return False
    return True


def dynamic_sizes(model, example):
    ones = [(name, axis) for name, value in example.items() for axis, size in enumerate(value.shape) if size == 1]
    program = None
    ones = [place for place in ones if _runs(model, _doubled(example, [place]))]
    for number in range(len(ones), -1, -1):
        for places in combinations(ones, number):
            changed = _doubled(example, places)
            try:
                with torch.no_grad():
                    model(**changed)
                program = _offered(model, changed)
            except Exception:
                continue
            break
        if program is not None:
            break
    names, found = {}, {}
    values = {node.name: node.meta["val"] for node in program.graph.find_nodes(op="placeholder")}
    for name in example:
        found[name] = [
            int(str(size)) if str(size).isdigit() else names.setdefault(str(size), f"size {len(names)}")
            for size in values[name].shape
        ]
    return found
