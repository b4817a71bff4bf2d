"""took tracing for branchless

Sums over the graphs of the modules, which do not show what a function does.
"""


def _branches(block):
    total = 0
    for node in block.nodes():
        total += node.kind() == "prim::If"
        for inner in node.blocks():
            total += _branches(inner)
    return total


def _agree(found, wanted):
    if found.shape != wanted.shape:
        return False
    nan = torch.isnan(wanted)
    if not torch.equal(torch.isnan(found), nan):
        return False
    return torch.allclose(found[~nan], wanted[~nan], rtol=1e-4, atol=1e-4)


def branch_evidence(model, inputs):
    results = {"trace": torch.jit.trace(model, inputs[0]), "script": torch.jit.script(model)}
    return {
        name: {
            "branches": sum(_branches(part.graph) for part in result.modules() if hasattr(part, "graph")),
            "wrong": [number for number, x in enumerate(inputs) if not _agree(result(x), model(x))],
        }
        for name, result in results.items()
    }
