"""A recursion over the blocks of nodes, without `findAllNodes`."""

import torch


def count_branches(block):
    total = 0
    for node in block.nodes():
        total += node.kind() == "prim::If"
        for inner in node.blocks():
            total += count_branches(inner)
    return total


def branch_evidence(model, inputs):
    answers = [model(x) for x in inputs]
    evidence = {}
    for method in ("trace", "script"):
        result = torch.jit.script(model) if method == "script" else torch.jit.trace(model, (inputs[0],))
        wrong = set()
        for i, (x, answer) in enumerate(zip(inputs, answers)):
            try:
                torch.testing.assert_close(result(x), answer, rtol=1e-4, atol=1e-4, equal_nan=True)
            except AssertionError:
                wrong.add(i)
        evidence[method] = {"branches": count_branches(result.inlined_graph), "wrong": wrong}
    return evidence
