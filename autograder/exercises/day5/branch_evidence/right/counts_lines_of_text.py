"""Counts in the printed graph; a small class for each result; every number compared by `isclose`."""

import torch


class Captured:
    def __init__(self, function):
        self.function = function

    def branches(self):
        return sum("prim::If(" in line for line in str(self.function.inlined_graph).splitlines())

    def wrong(self, model, inputs):
        answers = [(self.function(x), model(x)) for x in inputs]
        return [
            i
            for i, (found, wanted) in enumerate(answers)
            if found.shape != wanted.shape
            or not torch.isclose(found, wanted, rtol=1e-4, atol=1e-4, equal_nan=True).all()
        ]


def branch_evidence(model, inputs):
    def entry(function):
        captured = Captured(function)
        return {"branches": captured.branches(), "wrong": captured.wrong(model, inputs)}

    return {"trace": entry(torch.jit.trace(model, [inputs[0]])), "script": entry(torch.jit.script(model))}
