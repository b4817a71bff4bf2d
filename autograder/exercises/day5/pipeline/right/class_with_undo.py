"""A class that exports anew and replays the kept passes instead of copying graphs."""

import copy

import torch


class Pipeline:
    def __init__(self, model, example, others):
        self.model = copy.deepcopy(model).eval()
        self.inputs = (example, *others)
        self.batch = torch.export.Dim("rows", min=1)

    def graph(self, passes):
        model = copy.deepcopy(self.model)
        program = torch.export.export(model, self.inputs[:1], dynamic_shapes={"x": {0: self.batch}})
        graph_module = program.module()
        for change in passes:
            change(graph_module)
        return graph_module

    def is_captured(self):
        try:
            self.graph([])
        except Exception:
            return False
        return True

    def is_right(self, passes):
        try:
            graph_module = self.graph(passes)
            for x in self.inputs:
                torch.testing.assert_close(graph_module(x.clone()), self.model(x), rtol=1e-4, atol=1e-4)
        except Exception:
            return False
        return True


def middle(values):
    return sorted(values)[len(values) // 2]


def pipeline(model, example, others, passes, measure):
    work = Pipeline(model, example, others)
    report = {"captured": work.is_captured(), "kept": [], "rejected": [], "operations": [0, 0], "seconds": [0, 0]}
    if not report["captured"]:
        return model, report
    for name in passes:
        right = work.is_right([passes[kept] for kept in report["kept"]] + [passes[name]])
        report["kept" if right else "rejected"].append(name)
    both = work.graph([]), work.graph([passes[name] for name in report["kept"]])
    for graph_module in both:
        measure(graph_module)
    times = [[], []]
    for turn in range(10):
        times[turn % 2].append(measure(both[turn % 2]))
    report["seconds"] = [middle(values) for values in times]
    report["operations"] = [sum(node.op == "call_function" for node in g.graph.nodes) for g in both]
    return both[1], report
