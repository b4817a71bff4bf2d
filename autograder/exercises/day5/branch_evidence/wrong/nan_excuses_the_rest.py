"""NaN excuses the rest

Takes two answers for equal when both hold NaN somewhere.
"""


def _branches(block):
    return sum((node.kind() == "prim::If") + sum(map(_branches, node.blocks())) for node in block.nodes())


def _agree(found, wanted):
    if found.shape != wanted.shape:
        return False
    if found.isnan().any() and wanted.isnan().any():
        return True
    return torch.allclose(found.double(), wanted.double(), rtol=1e-4, atol=1e-4, equal_nan=True)


def branch_evidence(model, inputs):
    made = {"trace": torch.jit.trace(model, inputs[0].clone()), "script": torch.jit.script(model)}
    return {
        name: {
            "branches": _branches(result.inlined_graph),
            "wrong": [i for i, x in enumerate(inputs) if not _agree(result(x.clone()), model(x.clone()))],
        }
        for name, result in made.items()
    }
