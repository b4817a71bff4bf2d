"""NaN taken for 0

It makes a 0 of each NaN before it compares.
"""


def branch_evidence(model, inputs):
    def same(found, wanted):
        return found.shape == wanted.shape and torch.allclose(
            found.nan_to_num(), wanted.nan_to_num(), rtol=1e-4, atol=1e-4
        )

    report = {}
    for name, result in (("trace", torch.jit.trace(model, inputs[0])), ("script", torch.jit.script(model))):
        branches = len(result.inlined_graph.findAllNodes("prim::If", True))
        wrong = [i for i, x in enumerate(inputs) if not same(result(x), model(x))]
        report[name] = {"branches": branches, "wrong": wrong}
    return report
