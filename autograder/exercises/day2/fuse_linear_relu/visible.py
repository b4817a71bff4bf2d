"""The learner's side: linear layers with ReLUs behind them, some of which must stay two nodes."""

from __future__ import annotations

from typing import Any

from torch import fx
from torch.nn import functional

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day2.programs import inputs_of, program, rewrite_evidence, show_rewrite

LAYERS = {"one": "nn.Linear(4, 4)", "two": "nn.Linear(4, 4)"}


def visible_cases() -> list[Case]:
    """What fuses first, then what must stay two nodes."""
    return [
        program(
            "two layers, two forms of ReLU",
            "h = torch.relu(self.one(x))\nreturn self.act(self.two(h))",
            state=LAYERS | {"act": "nn.ReLU()"},
            trap="plain",
        ),
        program(
            "two layers in a row, one form of ReLU",
            "return torch.relu(self.two(torch.relu(self.one(x))))",
            state=LAYERS,
            trap="plain",
        ),
        program(
            "one layer, called twice",
            "return torch.relu(self.one(x)) - torch.relu(self.one(x * 2))",
            state=LAYERS,
            trap="shared",
        ),
        program(
            "somebody else reads the layer",
            "h = self.one(x)\nreturn torch.relu(h) - h.tanh()",
            state=LAYERS,
            trap="read twice",
        ),
        program(
            "the layer is returned",
            "h = self.one(x)\nreturn torch.relu(h), h",
            state=LAYERS,
            trap="read twice",
        ),
        program(
            "three dimensions",
            "return torch.relu(self.one(x))",
            state=LAYERS,
            inputs=((2, 3, 4),),
            trap="dimensions",
        ),
        program(
            "other activations, and a layer without bias",
            "h = F.gelu(self.one(x))\ng = torch.tanh(self.two(h))\nreturn torch.relu(self.bare(g)).exp()",
            state=LAYERS | {"bare": "nn.Linear(4, 4, bias=False)"},
            trap="others",
        ),
    ]


def as_recorded(case: Case, graph_module: fx.GraphModule) -> fx.GraphModule:
    """The graph, in which the methods of the case's `as_functions` are functions such as `F.tanh`, as Dynamo records.

    Symbolic tracing looks into these functions, and finds the methods.
    """
    for node in graph_module.graph.nodes:
        if node.op == "call_method" and node.target in case.parameters.get("as_functions", ()):
            node.op, node.target = "call_function", getattr(functional, node.target)
    graph_module.recompile()
    return graph_module


def probe(case: Case, fuse_linear_relu: Any) -> Evidence:
    """What the learner's function makes of the case's graph, with example inputs to look at shapes with."""

    def function(graph_module: fx.GraphModule) -> Any:
        return fuse_linear_relu(as_recorded(case, graph_module), inputs_of(case, 5))

    return rewrite_evidence(case, function)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph before and after, and the change."""
    return show_rewrite(case, evidence)
