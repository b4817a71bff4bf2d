"""A counting backend; whom to blame is found by experiment, one argument at a time."""

import torch


class Counter:
    def __init__(self, function):
        self.compiled = 0
        torch._dynamo.reset()
        self.function = torch.compile(function, backend=self.backend, dynamic=False)

    def backend(self, graph_module, example_inputs):
        self.compiled += 1
        return graph_module.forward

    def compiles(self, arguments):
        before = self.compiled
        self.function(**arguments)
        return self.compiled > before


def guilty(function, first, arguments):
    for name in first:
        counter = Counter(function)
        counter.compiles(first)
        if counter.compiles({**first, name: arguments[name]}):
            return name


def recompile_log(function, calls):
    counter = Counter(function)
    compiled = [counter.compiles(arguments) for arguments in calls]
    log = [["compiled", ""]]
    for arguments, again in zip(calls[1:], compiled[1:]):
        log.append(["recompiled", guilty(function, calls[0], arguments)] if again else ["reused", ""])
    return log
