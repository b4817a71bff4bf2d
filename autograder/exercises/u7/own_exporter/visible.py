"""The learner's side: graphs in core ATen, the probe, the fresh process with ONNX Runtime, and what is shown."""

from __future__ import annotations

import importlib.util
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence

NEEDED = ("onnx", "onnxruntime")
"""Packages of the extra `engines` that this task needs."""

MOST_BYTES = 4 << 20
"""Largest model; the weights of these programs take some thousand bytes."""

LONGEST = 600
"""Characters of an error's message that become evidence."""

Program = dict[str, Any]
"""`inputs`: sizes of each (numbers, or the name of a size that varies); `weights`: sizes of each; `nodes`: name,
operator, arguments, keyword arguments (`"$name"` stands for an earlier node); `outputs`: names of nodes; `seed`."""

SIZES = {
    "size_mul": operator.mul,
    "size_floordiv": operator.floordiv,
    "size_add": operator.add,
    "size_sub": operator.sub,
    "size_mod": operator.mod,
}
"""Operators on sizes that aren't ATen's; only the first has a translation."""


def missing() -> list[str]:
    """The packages that this task needs and that are not installed here."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def program(inputs: dict[str, list[Any]], weights: dict[str, list[int]], *nodes: list[Any], **more: Any) -> Program:
    """A program; its last node is the output, unless `outputs` says otherwise."""
    rows = [[*node, {}] if len(node) == 3 else node for node in nodes]
    return {
        "inputs": inputs,
        "weights": weights,
        "nodes": rows,
        "outputs": [rows[-1][0]],
        "seed": 0,
        "turned": [],
    } | more


def linear(name: str, x: str, weight: str, bias: str, before: str, after: int, width: int) -> list[list[Any]]:
    """A linear layer over the last of three dimensions, as `run_decompositions` leaves it."""
    return [
        [f"{name}_b", "aten.sym_size.int", [f"${before}", 0]],
        [f"{name}_l", "aten.sym_size.int", [f"${before}", 1]],
        [f"{name}_bl", "size_mul", [f"${name}_b", f"${name}_l"]],
        [f"{name}_rows", "aten.view.default", [x, [f"${name}_bl", width]]],
        [f"{name}_t", "aten.permute.default", [f"${weight}", [1, 0]]],
        [f"{name}_mm", "aten.addmm.default", [f"${bias}", f"${name}_rows", f"${name}_t"]],
        [name, "aten.view.default", [f"${name}_mm", [f"${name}_b", f"${name}_l", after]]],
    ]


def exporter_case(
    name: str, given: Program, runs: list[dict[str, int]], refuse: str = "", rename: Sequence[str] = ()
) -> Case:
    """A case whose sizes and values the judge keeps.

    Args:
        name: name of the case.
        given: the program.
        runs: for each run the sizes that vary.
        refuse: the operator that must be refused, if there is one.
        rename: inputs, weights and nodes that get names which the learner's function gives to values of its own.
    """
    parameters = {"program": given, "refuse": refuse, "rename": list(rename)}
    return Case(name, parameters, kept={"runs": runs, "seed": given["seed"] + 1})


def visible_cases() -> list[Case]:
    """One layer; a whole block with two sizes that vary; numbers and scales; an operator without a translation."""
    layer = program(
        {"x": ["batch", 4]},
        {"weight": [3, 4], "bias": [3]},
        ["t", "aten.permute.default", ["$weight", [1, 0]]],
        ["linear", "aten.addmm.default", ["$bias", "$x", "$t"]],
        ["relu", "aten.relu.default", ["$linear"]],
    )
    block = program(
        {"x": ["batch", "length", 4]},
        {"weight": [6, 4], "bias": [6]},
        *linear("hidden", "$x", "weight", "bias", "x", 6, 4),
        ["softmax", "aten._softmax.default", ["$hidden", -1, False]],
        ["both", "aten.cat.default", [["$softmax", "$hidden"], -1]],
        ["pooled", "aten.mean.dim", ["$both", [1]]],
        seed=10,
    )
    numbers = program(
        {"x": ["batch", 3], "y": ["batch", 3]},
        {},
        ["half", "aten.mul.Tensor", ["$x", 0.5]],
        ["shifted", "aten.add.Tensor", ["$half", 2]],
        ["sum", "aten.sub.Tensor", ["$shifted", "$y"], {"alpha": 3}],
        outputs=["sum", "half"],
        seed=20,
    )
    unknown = program(
        {"x": ["batch", 3]}, {}, ["relu", "aten.relu.default", ["$x"]], ["erf", "aten.erf.default", ["$relu"]]
    )
    return [
        exporter_case("one layer", layer, [{"batch": 2}, {"batch": 5}, {"batch": 1}]),
        exporter_case("a block", block, [{"batch": 2, "length": 3}, {"batch": 4, "length": 7}]),
        exporter_case("numbers", numbers, [{"batch": 3}]),
        exporter_case("no translation", unknown, [], "aten.erf.default"),
    ]


def weights_of(given: Program) -> dict[str, torch.Tensor]:
    """The weights of a program, from its seed; those in `turned` lie in memory with their dimensions turned round."""
    generator = torch.Generator().manual_seed(given["seed"])
    found = {name: torch.randn(sizes, generator=generator) for name, sizes in given["weights"].items()}
    return {name: one.T.contiguous().T if name in given["turned"] else one for name, one in found.items()}


def graph_of(given: Program) -> fx.Graph:
    """A program as a graph: weights and inputs are placeholders, in this order."""
    graph = fx.Graph()
    nodes = {name: graph.placeholder(name) for name in (*given["weights"], *given["inputs"])}

    def argument(one: Any) -> Any:
        if isinstance(one, list):
            return [argument(each) for each in one]
        return nodes[one[1:]] if isinstance(one, str) else one

    for name, target, arguments, options in given["nodes"]:
        made = graph.call_function(function_of(target), tuple(map(argument, arguments)), options)
        made.name = name
        nodes[name] = made
    graph.output(tuple(nodes[name] for name in given["outputs"]))
    return graph


def function_of(target: str) -> Any:
    """The operator of a name such as `aten.add.Tensor`."""
    if target in SIZES:
        return SIZES[target]
    space, name, overload = target.split(".")
    return getattr(getattr(getattr(torch.ops, space), name), overload)


def renamed(given: Program, names: dict[str, str]) -> Program:
    """A program some of whose inputs, weights and nodes are called otherwise."""

    def argument(one: Any) -> Any:
        if isinstance(one, list):
            return [argument(each) for each in one]
        return f"${names.get(one[1:], one[1:])}" if isinstance(one, str) else one

    return given | {
        "inputs": {names.get(name, name): sizes for name, sizes in given["inputs"].items()},
        "weights": {names.get(name, name): sizes for name, sizes in given["weights"].items()},
        "nodes": [
            [names.get(name, name), target, argument(rest), options] for name, target, rest, options in given["nodes"]
        ],
        "outputs": [names.get(name, name) for name in given["outputs"]],
        "turned": [names.get(name, name) for name in given["turned"]],
    }


def names_of(given: Program) -> set[str]:
    """What the nodes of a program are called."""
    return {*given["inputs"], *given["weights"], *(node[0] for node in given["nodes"])}


def may_name(name: str) -> bool:
    """Whether FX leaves a placeholder this name: it changes what is no name in Python, or one that Python uses."""
    return fx.Graph().placeholder(name).name == name


def defined(file: bytes) -> dict[str, list[str]]:
    """Names of inputs, weights and values that a model defines; of none where the bytes are no model."""
    import onnx
    from google.protobuf.message import DecodeError

    try:
        graph = onnx.load_model_from_string(file).graph
    except DecodeError:  # ONNX Runtime says why
        return {"inputs": [], "weights": [], "values": []}
    return {
        "inputs": [one.name for one in graph.input],
        "weights": [one.name for one in graph.initializer],
        "values": [name for node in graph.node for name in node.output if name],
    }


def collisions(given: Program, to_onnx: Any, places: list[str]) -> dict[str, str]:
    """New names of inputs, weights and nodes: those that the learner's function gives to values of its own.

    Two rounds, for whoever evades a name that is taken may meet the next one, too.
    """
    names: dict[str, str] = {}
    for last in (len(places) // 2, len(places)):
        current = renamed(given, names)
        found = to_onnx(
            graph_of(current), weights_of(current), {name: list(one) for name, one in current["inputs"].items()}
        )
        if not isinstance(found, bytes):
            break
        parts = defined(found)
        taken = names_of(current)
        new = [
            one for one in dict.fromkeys([*parts["weights"], *parts["values"]]) if one not in taken and may_name(one)
        ]
        names |= dict(zip(places[len(names) : last], new, strict=False))
    return names


def asked(case: Case, evidence: Evidence) -> Program:
    """The program of a case, with the names that its inputs, weights and nodes got."""
    return renamed(case.parameters["program"], evidence.values.get("names", {}))


def probe(case: Case, to_onnx: Any) -> Evidence:
    """Let the learner translate the program; the file travels."""
    if absent := missing():
        raise RuntimeError(
            f"this task needs {' and '.join(absent)}, which {'is' if len(absent) == 1 else 'are'} not installed: "
            "install the course with the extra `engines`"
        )
    given = case.parameters["program"]
    names = collisions(given, to_onnx, case.parameters["rename"]) if case.parameters["rename"] else {}
    given = renamed(given, names)
    sizes = {name: list(one) for name, one in given["inputs"].items()}
    try:
        found = to_onnx(graph_of(given), weights_of(given), sizes)
    except NotImplementedError as error:
        if not case.parameters["refuse"]:
            raise
        return Evidence({"stage": "refused", "text": str(error)[:LONGEST]})
    if not isinstance(found, bytes) or not found:
        return Evidence({"stage": "no bytes", "text": type(found).__name__})
    if len(found) > MOST_BYTES:
        return Evidence({"stage": "too large", "text": f"{len(found)} bytes"})
    file = torch.frombuffer(bytearray(found), dtype=torch.uint8)
    return Evidence({"stage": "written", "text": "", "names": names}, {"file": file})


def inputs_of(case: Case, program: Program | None = None) -> list[dict[str, torch.Tensor]]:
    """For each run the values of the inputs; while a task is graded only the judge can make them."""
    generator = torch.Generator().manual_seed(case.kept["seed"])
    given = (program or case.parameters["program"])["inputs"]
    return [
        {name: torch.randn([run.get(one, one) for one in sizes], generator=generator) for name, sizes in given.items()}
        for run in case.kept["runs"]
    ]


def fresh(case: Case) -> Evidence:
    """Run a file in ONNX Runtime, on inputs that nobody has seen, where no cell of the learner's ran."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    file = case.tensors["file"].numpy().tobytes()
    values: dict[str, Any] = {"names": case.parameters["names"], "defined": defined(file)}
    try:
        session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime raises types of its own
        return Evidence(values | {"stage": "loading", "text": str(error)[:LONGEST]})
    values |= {
        "inputs": [one.name for one in session.get_inputs()],
        "outputs": len(session.get_outputs()),
    }
    tensors: dict[str, torch.Tensor] = {}
    for number in range(case.parameters["runs"]):
        prefix = f"run{number}/"
        feeds = {
            name.removeprefix(prefix): one.numpy() for name, one in case.tensors.items() if name.startswith(prefix)
        }
        if set(feeds) != set(values["inputs"]):
            return Evidence(values | {"stage": "inputs", "text": ""})
        try:
            found = session.run(None, feeds)
        except Exception as error:  # the same
            return Evidence(values | {"stage": "running", "text": str(error)[:LONGEST], "run": number})
        tensors |= {f"run{number}/{place}": torch.tensor(one) for place, one in enumerate(found)}
    return Evidence(values | {"stage": "done", "text": ""}, tensors)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """How far the file came."""
    values = evidence.values
    if values["stage"] != "done":
        return [f"{case.name}: {values['stage']}. {values['text'][:300]}"]
    lines = [f"{case.name}: ONNX Runtime computed"]
    for number, feeds in enumerate(inputs_of(case)):
        shapes = ", ".join(f"{name} {tuple(one.shape)}" for name, one in feeds.items())
        found = [tuple(evidence.tensors[f"run{number}/{place}"].shape) for place in range(values["outputs"])]
        lines.append(f"  {shapes} to {', '.join(map(str, found))}")
    return ["\n".join(lines)]
