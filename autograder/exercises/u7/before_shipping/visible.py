"""The learner's side: graphs with signatures, as `run_decompositions` leaves them; probe and display."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.export import graph_signature as signatures

from autograder.exchange.evidence import Case, Evidence

MOST_PAIRS, LONGEST = 200, 200
"""How many pairs become evidence, and how long their words are at most."""

SPACE = "fxopt_u7"
"""Namespace of the operators that PyTorch doesn't have."""

Program = dict[str, Any]
"""`arguments`: name and kind of each (`tensor`, `size`, or `constant` with its value); `parameters`, `buffers`: their
names in the model; `graph`: nodes as name, operator, arguments, and keyword arguments if there are any; `branches`:
further graphs, with the names of their inputs; `writes`: for each node the buffer, parameter or argument of which it is
the new value. `"$name"` stands for a node, `"#name"` for a branch."""

CUSTOM = ("blur", "quantise", "pack")

TRAINED_CUSTOM = {
    "smooth": "(Tensor x, bool training=False) -> Tensor",
    "settle": "(Tensor x, float rate, *, bool train) -> Tensor",
    "learn": "(Tensor x, int train=0) -> Tensor",
    "tune": "(Tensor x, bool trainable=False, bool training=False) -> Tensor",
}
"""Custom operators with an argument that says True for training, one that only looks so (a number of steps), and one
with an argument of another name beside it."""


def define_operators() -> None:
    """Define the custom operators, once in a process."""
    for name, schema in {**dict.fromkeys(CUSTOM, "(Tensor x) -> Tensor"), **TRAINED_CUSTOM}.items():
        if not hasattr(getattr(torch.ops, SPACE), name):
            _LIBRARY.define(f"{name}{schema}")


_LIBRARY = torch.library.Library(SPACE, "FRAGMENT")
define_operators()


def placeholder(kind: str, name: str) -> str:
    """What the placeholder of a parameter (`p`) or a buffer (`b`) is called in the graph."""
    return f"{kind}_{name.replace('.', '_')}"


def program(
    arguments: list[list[Any]],
    graph: list[list[Any]],
    *,
    parameters: list[str] | None = None,
    buffers: list[str] | None = None,
    branches: dict[str, list[Any]] | None = None,
    writes: dict[str, str] | None = None,
) -> Program:
    """A program; its last node is the output."""
    given = {"parameters": parameters or [], "buffers": buffers or [], "branches": branches or {}}
    return {"arguments": arguments, "graph": graph, **given, "writes": writes or {}}


def shipping_case(name: str, given: Program, operators: list[str], *, state: bool = False) -> Case:
    """A case: a program, and what the target has."""
    return Case(name, {"program": given, "target": {"operators": sorted(operators), "state": state}})


TRAINED: list[list[Any]] = [
    ["t", "aten.permute.default", ["$p_layer_weight", [1, 0]]],
    ["mm", "aten.mm.default", ["$x", "$t"]],
    ["drop", "aten.native_dropout.default", ["$mm", 0.5, True]],
    ["kept", "getitem", ["$drop", 0]],
]


def visible_cases() -> list[Case]:
    """A model that counts its calls; one that was exported in training mode; and one that decides on data."""
    more: list[Any] = ["more", "aten.add.Tensor", ["$b_meter_calls", 1]]
    counts = program(
        [["x", "tensor"]],
        [more, ["relu", "aten.relu.default", ["$x"]]],
        buffers=["meter.calls"],
        writes={"more": "meter.calls"},
    )
    trained = program([["x", "tensor"], ["times", "constant", 3]], TRAINED, parameters=["layer.weight"])
    decides = program(
        [["x", "tensor"]],
        [
            ["packed", f"{SPACE}.pack.default", ["$x"]],
            ["sum", "aten.sum.default", ["$packed"]],
            ["positive", "aten.gt.Scalar", ["$sum", 0]],
            ["cond", "cond", ["$positive", "#yes", "#no", ["$x"]]],
            ["result", "getitem", ["$cond", 0]],
        ],
        branches={
            "yes": [["y"], [["blur", f"{SPACE}.blur.default", ["$y"]]]],
            "no": [["y"], [["cos", "aten.cos.default", ["$y"]]]],
        },
    )
    most = ["aten.add.Tensor", "aten.relu.default", "aten.permute.default", "aten.mm.default", "aten.sum.default"]
    most += ["aten.native_dropout.default", "aten.gt.Scalar", "aten.cos.default"]
    return [
        shipping_case("it counts its calls", counts, most),
        shipping_case("exported while it was trained", trained, most),
        shipping_case("it decides on data", decides, most),
        shipping_case("nothing is lost", counts, most, state=True),
    ]


def function_of(target: str) -> Any:
    """The operator of a name such as `aten.add.Tensor`."""
    if target == "getitem":
        return operator.getitem
    if target == "cond":
        return torch.ops.higher_order.cond
    space, name, overload = target.split(".")
    return getattr(getattr(getattr(torch.ops, space), name), overload)


def build(given: Program) -> tuple[fx.GraphModule, signatures.ExportGraphSignature]:
    """Graph and signature of a program."""
    root = torch.nn.Module()
    for name, (inputs, nodes) in given["branches"].items():
        setattr(root, name, fx.GraphModule(root, _graph(inputs, nodes, [nodes[-1][0]])))
    inputs = [placeholder("p", name) for name in given["parameters"]]
    inputs += [placeholder("b", name) for name in given["buffers"]]
    inputs += [name for name, *_ in given["arguments"]]
    last = given["graph"][-1][0]
    graph = _graph(inputs, given["graph"], [*given["writes"], last])
    return fx.GraphModule(root, graph), _signature(given, last)


def _graph(inputs: list[str], rows: list[list[Any]], outputs: list[str]) -> fx.Graph:
    graph = fx.Graph()
    nodes = {name: graph.placeholder(name) for name in inputs}

    def argument(one: Any) -> Any:
        if isinstance(one, list):
            return [argument(each) for each in one]
        if isinstance(one, str) and one.startswith("#"):
            return graph.create_node("get_attr", one[1:])
        return nodes[one[1:]] if isinstance(one, str) and one.startswith("$") else one

    for name, target, arguments, *keywords in rows:
        named = {key: argument(value) for key, value in keywords[0].items()} if keywords else {}
        nodes[name] = graph.call_function(function_of(target), tuple(map(argument, arguments)), named)
        nodes[name].name = name
    graph.output(tuple(nodes[name] for name in outputs))
    return graph


def _signature(given: Program, last: str) -> signatures.ExportGraphSignature:
    kinds, tensor = signatures.InputKind, signatures.TensorArgument
    inputs = [
        signatures.InputSpec(kinds.PARAMETER, tensor(placeholder("p", name)), name) for name in given["parameters"]
    ]
    inputs += [
        signatures.InputSpec(kinds.BUFFER, tensor(placeholder("b", name)), name, True) for name in given["buffers"]
    ]
    for name, kind, *value in given["arguments"]:
        argument: Any = tensor(name)
        if kind == "constant":
            argument = signatures.ConstantArgument(name, value[0])
        elif kind == "size":
            argument = signatures.SymIntArgument(name)
        inputs.append(signatures.InputSpec(kinds.USER_INPUT, argument, None))
    outputs = []
    for name, written in given["writes"].items():
        kind = signatures.OutputKind.USER_INPUT_MUTATION
        if written in given["buffers"]:
            kind = signatures.OutputKind.BUFFER_MUTATION
        elif written in given["parameters"]:
            kind = signatures.OutputKind.PARAMETER_MUTATION
        outputs.append(signatures.OutputSpec(kind, tensor(name), written))
    outputs.append(signatures.OutputSpec(signatures.OutputKind.USER_OUTPUT, tensor(last), None))
    return signatures.ExportGraphSignature(inputs, outputs)


def probe(case: Case, losses: Any) -> Evidence:
    """Let the learner read a program."""
    target = case.parameters["target"]
    module, signature = build(case.parameters["program"])
    found = losses(module, signature, {"operators": set(target["operators"]), "state": target["state"]})
    return Evidence({"found": _pairs(found)})


def _pairs(found: Any) -> list[list[str]] | None:
    """Pairs of words, as JSON; `None` where something else is among them."""
    if not isinstance(found, (list, tuple, set, frozenset)):
        return None
    rows: list[list[str]] = []
    for one in list(found)[:MOST_PAIRS]:
        if not isinstance(one, (list, tuple)) or len(one) != 2 or not all(isinstance(word, str) for word in one):
            return None
        rows.append([word[:LONGEST] for word in one])
    return rows


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What was found."""
    found = evidence.values["found"]
    lines = [f"{case.name}: {'nothing' if not found else ''}"]
    lines += [f"  {kind:10} {name}" for kind, name in found or []]
    return ["\n".join(lines)]
