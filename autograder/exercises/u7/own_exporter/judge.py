"""What a file computes in ONNX Runtime, in a process of its own, on inputs and sizes that nobody knew before."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence, EvidenceError
from autograder.exercises.u7.own_exporter.visible import (
    Program,
    asked,
    exporter_case,
    graph_of,
    inputs_of,
    linear,
    may_name,
    missing,
    names_of,
    program,
    weights_of,
)

MISCONCEPTIONS = {
    "no bytes": "`to_onnx` must return the model as bytes: `model.SerializeToString()`.",
    "too large a file": "The file is far larger than the program: store each weight once.",
    "does not load": "ONNX Runtime cannot load the model.",
    "unlike types": (
        "ONNX converts nothing by itself: both sides of an operator need the same type. Turn a Python number into a "
        "constant of 32-bit floats, and sizes into 64-bit whole numbers."
    ),
    "one name twice": (
        "Two things in the model have one name: you gave a constant, or a node of yours, the name of another node. "
        "Make names that no node of the graph has."
    ),
    "name of an input": (
        "Two things in the model have one name: you gave a constant, an output, or a node of yours, the name of an "
        "input or a weight. Those may be called `constant_0` or `output_1`, too. Make names that no node of the graph "
        "has: ask the graph first, or put a dot into them, which FX never does."
    ),
    "unknown name": "A node reads a value that no input, no weight and no earlier node has given.",
    "unknown in ONNX": (
        "The model has an operator that ONNX does not know. Translate it, or raise `NotImplementedError`: a file that "
        "nobody can run is worse than an error."
    ),
    "weights are inputs": (
        "Weights turned up among the inputs of the model. They belong into the file, as `initializer`; inputs are "
        "only those placeholders that have an entry in `sizes`."
    ),
    "other inputs": "The inputs of the model have other names than those of the program.",
    "froze an input": (
        "The model refuses an input of another size. A size that varies is declared by its name (`dim_param`), not by "
        "a number."
    ),
    "froze a size": (
        "The model works for one size and not for another one: a size that varies became a number, perhaps in the "
        "shape of a `Reshape`. Compute it in the model: `Shape` gives it."
    ),
    "last dimension": (
        "A dimension counted from the end went wrong. `Shape` with `start=-1` and `end=0` is empty, and `Transpose` "
        "takes no negative numbers."
    ),
    "scale forgotten": "`add` and `sub` have a keyword argument `alpha`: it scales the second argument.",
    "dimension dropped": "`mean` drops the dimension, unless `keepdim` is given. ONNX keeps it, unless told otherwise.",
    "number of outputs": "The model must have as many outputs as the program.",
    "outputs in another order": "The outputs must come in the order of the program.",
    "not refused": (
        "There is no translation for this operator, and you wrote a model nevertheless. Raise `NotImplementedError`."
    ),
    "unnamed": "The error must name the operator that has no translation, such as aten.erf.default.",
    "fails while running": "ONNX Runtime fails while it runs the model.",
    "other values": "The model computes something else than the program.",
}

UNKNOWN: dict[str, list[Any]] = {
    "aten.cumsum.default": [1],
    "aten.bernoulli.p": [0.5],
    "aten.add_.Tensor": ["$x"],
    "aten.mean.default": [],
    "aten.div.Tensor_mode": ["$x"],
    "aten._log_softmax.default": [-1, False],
}
"""Operators that have no translation here, with what follows their first argument. Some names are nearly others."""


def hidden_cases(random: Random) -> list[Case]:
    """Each thing that is easily forgotten, then programs that are drawn.

    Raises:
        RuntimeError: what runs the files is not installed here; nobody's answer is to blame.
    """
    if absent := missing():
        raise RuntimeError(f"grading own_exporter needs {', '.join(absent)}: install the extra `engines`")
    free = [{"batch": random.randint(2, 5), "length": random.randint(2, 6)} for _ in range(2)]
    free.append({"batch": 1, "length": 1})
    three = {"x": ["batch", "length", 4]}
    fixed: dict[str, Program] = {
        "counted from the end": program(
            {"x": ["batch", 4, "length"]},
            {},
            ["turned", "aten.permute.default", ["$x", [0, -1, 1]]],
            ["last", "aten.sym_size.int", ["$x", -1]],
            ["flat", "aten.view.default", ["$x", [-1, "$last"]]],
            outputs=["flat", "turned"],
        ),
        "keepdim": program(
            three,
            {},
            ["mean", "aten.mean.dim", ["$x", [-1, 1], True]],
            ["centred", "aten.sub.Tensor", ["$x", "$mean"]],
            ["pooled", "aten.mean.dim", ["$centred", [0]]],
            ["all", "aten.add.Tensor", ["$pooled", "$mean"], {"alpha": -2}],
        ),
        "several outputs": program(
            three,
            {"w": [4, 2]},
            ["b", "aten.sym_size.int", ["$x", 0]],
            ["rows", "aten.view.default", ["$x", [-1, 4]]],
            ["mm", "aten.mm.default", ["$rows", "$w"]],
            ["tanh", "aten.tanh.default", ["$mm"]],
            ["back", "aten.view.default", ["$tanh", ["$b", -1, 2]]],
            outputs=["back", "rows", "tanh"],
            turned=["w"],
        ),
        "two inputs": program(
            {"later": ["batch", 1, 4], "x": ["batch", "length", 4]},
            {"scale": [4]},
            ["scaled", "aten.mul.Tensor", ["$x", "$scale"]],
            ["quotient", "aten.div.Tensor", ["$scaled", 4]],
            ["sigmoid", "aten.sigmoid.default", ["$later"]],
            ["sum", "aten.add.Tensor", ["$quotient", "$sigmoid"], {"alpha": 0.5}],
            ["joined", "aten.cat.default", [["$sum", "$later"], 1]],
        ),
        "one value twice": program(
            three,
            {},
            ["tanh", "aten.tanh.default", ["$x"]],
            ["sum", "aten.add.Tensor", ["$tanh", "$x"]],
            outputs=["sum", "tanh", "sum"],
        ),
        "an input comes out": program(three, {}, ["tanh", "aten.tanh.default", ["$x"]], outputs=["x", "tanh"]),
        "an input that nobody reads": program(
            {"unread": ["length"], "x": ["batch", "length"]}, {"w": [3]}, ["relu", "aten.relu.default", ["$x"]]
        ),
        "a number with a scale": program(
            three,
            {},
            ["more", "aten.add.Tensor", ["$x", 3], {"alpha": 0.5}],
            ["less", "aten.sub.Tensor", ["$more", 0.25], {"alpha": 2}],
        ),
        "a scale of 0": program(
            three,
            {},
            ["tanh", "aten.tanh.default", ["$x"]],
            ["same", "aten.add.Tensor", ["$tanh", "$x"], {"alpha": 0}],
            ["again", "aten.sub.Tensor", ["$same", 3], {"alpha": 0}],
        ),
        # Names that whoever counts his constants by the operator is likely to give them, too.
        "names as FX gives them": program(
            three,
            {},
            ["add", "aten.add.Tensor", ["$x", 0.5]],
            ["mul", "aten.mul.Tensor", ["$add", 2]],
            ["add_1", "aten.add.Tensor", ["$mul", 3]],
            ["mul_1", "aten.mul.Tensor", ["$add_1", 0.25]],
            ["add_2", "aten.add.Tensor", ["$mul_1", "$x"], {"alpha": 2}],
            ["add_3", "aten.add.Tensor", ["$add_2", 1]],
        ),
        "joined at the front": program(
            {"x": ["batch", 3], "y": ["length", 3]},
            {"w": [2, 3]},
            ["all", "aten.cat.default", [["$y", "$w", "$x", "$y"]]],
            outputs=["all", "x"],
        ),
        "over several dimensions": program(
            three,
            {},
            ["mean", "aten.mean.dim", ["$x", [0, -1], False]],
            ["kept", "aten.mean.dim", ["$x", [1, 2], True]],
            ["sum", "aten.sub.Tensor", ["$kept", "$mean"]],
        ),
        "softmax over other dimensions": program(
            three,
            {},
            ["rows", "aten._softmax.default", ["$x", 1, False]],
            ["all", "aten._softmax.default", ["$rows", 0, False]],
            outputs=["rows", "all"],
        ),
        # Weights that are computed, as a parametrization leaves them: bias and factor are nodes like any other.
        "two layers": program(
            {"x": ["batch", 4], "y": ["length"]},
            {"w": [4, 3], "b": [3], "w2": [2, 3], "b2": [2], "w3": [2, 2]},
            ["first", "aten.addmm.default", ["$b", "$x", "$w"]],
            ["tanh", "aten.tanh.default", ["$first"]],
            ["bias", "aten.relu.default", ["$b2"]],
            ["between", "aten.sigmoid.default", ["$w2"]],
            ["turned", "aten.permute.default", ["$between", [1, 0]]],
            ["second", "aten.addmm.default", ["$bias", "$tanh", "$turned"]],
            ["factor", "aten.tanh.default", ["$w3"]],
            ["third", "aten.mm.default", ["$second", "$factor"]],
            ["beside", "aten.relu.default", ["$y"]],
            outputs=["third", "beside"],
        ),
        "a size of something inside": program(
            {"x": ["batch", 4], "y": ["length", 4]},
            {},
            ["both", "aten.cat.default", [["$x", "$y"], 0]],
            ["rows", "aten.sym_size.int", ["$both", 0]],
            ["twice", "size_mul", ["$rows", 2]],
            ["long", "aten.view.default", ["$both", ["$twice", 2]]],
            outputs=["long", "x"],
        ),
    }
    cases = []
    for name, given in fixed.items():
        cases.append(exporter_case(name, given | {"seed": random.randrange(10**6)}, free))
    cases.append(_colliding(random, free))
    for target, more in UNKNOWN.items():
        options = {"rounding_mode": "floor"} if target == "aten.div.Tensor_mode" else {}
        last = ["last", target, ["$t", *more], options]
        unknown = program(three, {}, ["t", "aten.tanh.default", ["$x"]], last)
        cases.append(exporter_case(f"no translation for {target}", unknown, [], target))
    name = random.choice(["add", "sub", "mod"])
    for size, refuse in (("size_floordiv", "floordiv"), (f"size_{name}", name)):
        cases.append(exporter_case(f"no translation for {size}", _other_size(size), [], refuse))
    for number in range(2):
        cases.append(exporter_case(f"drawn {number}", drawn(random), free))
    return cases


def _colliding(random: Random, runs: list[dict[str, int]]) -> Case:
    """Inputs, weights and nodes, read and unread, that are called like whatever the learner adds to a model."""
    spares = [f"spare{number}" for number in range(48)]
    weights = {"w": [4, 3], "b": [3], "scale": [3]} | {name: [2] for name in spares[::4]}
    inputs = {"x": ["batch", "length", 4], "y": ["batch", 3]}
    given = program(
        inputs | {name: ["length"] for name in spares if name not in weights},
        weights,
        ["rows", "aten.view.default", ["$x", [-1, 4]]],
        ["b_size", "aten.sym_size.int", ["$x", -3]],
        ["mm", "aten.addmm.default", ["$b", "$rows", "$w"]],
        ["back", "aten.view.default", ["$mm", ["$b_size", -1, 3]]],
        ["more", "aten.add.Tensor", ["$back", random.choice([2, 3, 0.5])]],
        ["mean", "aten.mean.dim", ["$more", [1]]],
        ["sum", "aten.sub.Tensor", ["$mean", "$y"], {"alpha": random.choice([2, 3, 0.5])}],
        ["scaled", "aten.mul.Tensor", ["$sum", "$scale"]],
        outputs=["scaled", "more", "scaled"],
        seed=random.randrange(10**6),
    )
    first, later = ["w", "b", "scale", "y", "mm", "more", "mean"], spares
    random.shuffle(first)
    random.shuffle(later)
    return exporter_case("names of the learner's own", given, runs, rename=[*first, *later])


def _other_size(target: str) -> Program:
    """A program that calculates a size otherwise than by a product, as `x.shape[0] // 2` does."""
    return program(
        {"x": ["batch", "length", 4]},
        {},
        ["rows", "aten.sym_size.int", ["$x", 0]],
        ["fewer", target, ["$rows", 2]],
        ["flat", "aten.view.default", ["$x", ["$fewer", -1]]],
    )


def drawn(random: Random) -> Program:
    """Three to five steps, each over the last of three dimensions."""
    width, current = 4, "x"
    nodes: list[list[Any]] = []
    weights: dict[str, list[int]] = {}
    for number in range(random.randint(3, 5)):
        name = f"step{number}"
        kind = random.choice(["linear", "one", "number", "cat", "softmax", "centre"])
        if kind == "linear":
            after = random.randint(2, 6)
            weights |= {f"w{number}": [after, width], f"b{number}": [after]}
            nodes += linear(name, f"${current}", f"w{number}", f"b{number}", "x", after, width)
            width = after
        elif kind == "one":
            nodes.append([name, f"aten.{random.choice(['relu', 'tanh', 'sigmoid'])}.default", [f"${current}"]])
        elif kind == "number":
            target = random.choice(["add", "sub", "mul", "div"])
            options = {"alpha": random.choice([2, 0.5])} if target in ("add", "sub") else {}
            nodes.append([name, f"aten.{target}.Tensor", [f"${current}", random.choice([2, 0.5, 3])], options])
        elif kind == "cat":
            nodes.append([name, "aten.cat.default", [[f"${current}", "$x"], random.choice([2, -1])]])
            width += 4
        elif kind == "softmax":
            nodes.append([name, "aten._softmax.default", [f"${current}", random.choice([-1, 1]), False]])
        else:
            nodes.append([f"{name}_m", "aten.mean.dim", [f"${current}", [random.choice([1, -1])], True]])
            nodes.append([name, "aten.sub.Tensor", [f"${current}", f"${name}_m"]])
        current = name
    return program({"x": ["batch", "length", 4]}, weights, *nodes, seed=random.randrange(10**6))


def follow_up(case: Case, evidence: Evidence) -> Case | None:
    """The file, with inputs that are made only now."""
    if "file" not in evidence.tensors or not case.kept["runs"]:
        return None
    tensors = {"file": evidence.tensors["file"]}
    names = evidence.values.get("names", {})
    runs = inputs_of(case, _with_names(case, evidence))
    for number, feeds in enumerate(runs):
        tensors |= {f"run{number}/{name}": one for name, one in feeds.items()}
    return Case(case.name, {"runs": len(runs), "names": names}, tensors)


def _with_names(case: Case, evidence: Evidence) -> Program:
    """The program as the learner's function got it.

    Raises:
        EvidenceError: these are no names for the nodes of this program.
    """
    names, given = evidence.values.get("names", {}), case.parameters["program"]
    if not isinstance(names, dict) or not names.keys() <= set(case.parameters["rename"]):
        raise EvidenceError("the names are not those of nodes that get another one")
    new = list(names.values())
    if not all(isinstance(one, str) and may_name(one) for one in new) or len({*new} - names_of(given)) != len(new):
        raise EvidenceError("the new names are not names, or not new")
    return asked(case, evidence)


def computed(given: Program, feeds: dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """What the program computes, in PyTorch."""
    module = fx.GraphModule({}, graph_of(given))
    with torch.no_grad():
        return list(fx.Interpreter(module).run(*weights_of(given).values(), *feeds.values()))


STAGES = {"no bytes": "no bytes", "too large": "too large a file"}

LOADING = (
    (r"[Dd]uplicate definition", "one name twice"),
    (r"Type Error|Type parameter|does not match expected type|bound to different types", "unlike types"),
    (r"not a registered function|No Op registered|Unrecognized|No opset import", "unknown in ONNX"),
    (r"not output of any previous nodes|Invalid (Graph|model).*input|not a graph input", "unknown name"),
)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The first thing that is wrong."""
    given, refuse, values = _with_names(case, evidence), case.parameters["refuse"], evidence.values
    stage, text = values["stage"], values["text"]
    if stage in STAGES:
        yield STAGES[stage], f"({text})"
        return
    if refuse:
        if stage != "refused":
            yield "not refused", f"({refuse})"
        elif refuse not in text:
            yield "unnamed", f"({text!r} does not say {refuse})"
        return
    if twice := _twice(given, values) & {*given["inputs"], *given["weights"]} & set(values["names"].values()):
        yield "name of an input", f"({', '.join(sorted(twice))})"
        return
    if stage == "loading":
        name = next((name for pattern, name in LOADING if re.search(pattern, text)), "does not load")
        if name == "does not load" and _counts_from_the_end(given):
            name = "last dimension"
        yield name, f"({text})"
        return
    if stage == "inputs":
        extra = [name for name in values["inputs"] if name in given["weights"]]
        yield ("weights are inputs" if extra else "other inputs"), f"({', '.join(values['inputs'])})"
        return
    if stage == "running":
        yield _why_it_stopped(case, given, values), f"(run {values['run']}: {text})"
        return
    if values["outputs"] != len(given["outputs"]):
        yield "number of outputs", f"({values['outputs']}, wanted {len(given['outputs'])})"
        return
    for number, feeds in enumerate(inputs_of(case, given)):
        right = computed(given, feeds)
        found = [evidence.tensors[f"run{number}/{place}"] for place in range(len(right))]
        if all(map(_close, found, right)):
            continue
        yield _named(given, feeds, found, right, number), f"(run {number}: {_difference(found, right)})"
        return


def _twice(given: Program, values: dict[str, Any]) -> set[str]:
    """Names that a model gives to two things. A weight may be listed as an input, too: older models do so."""
    defined = values["defined"]
    inputs = [name for name in defined["inputs"] if name in given["inputs"]]
    counts = Counter([*inputs, *defined["weights"], *defined["values"]])
    return {name for name, count in counts.items() if count > 1}


def _why_it_stopped(case: Case, given: Program, values: dict[str, Any]) -> str:
    if re.search(r"invalid dimensions for input|Got: \d+ Expected: \d+", values["text"]):
        return "froze an input"
    if _counts_from_the_end(given) and values["run"] == 0:
        return "last dimension"
    if any(target == "aten.mean.dim" for _, target, _, _ in given["nodes"]):
        try:
            computed(_other_keepdim(given), inputs_of(case, given)[values["run"]])
        except RuntimeError:  # with the other `keepdim` the program stops there, too
            return "dimension dropped"
    return "froze a size" if values["run"] > 0 else "fails while running"


def _counts_from_the_end(given: Program) -> bool:
    for _, target, arguments, _ in given["nodes"]:
        if target == "aten.sym_size.int" and arguments[1] < 0:
            return True
        if target == "aten.permute.default" and min(arguments[1]) < 0:
            return True
    return False


def _close(found: torch.Tensor, right: torch.Tensor) -> bool:
    return (
        found.shape == right.shape and found.dtype == right.dtype and torch.allclose(found, right, rtol=1e-4, atol=1e-4)
    )


def _named(
    given: Program, feeds: dict[str, torch.Tensor], found: list[torch.Tensor], right: list[torch.Tensor], number: int
) -> str:
    if sorted(tuple(one.shape) for one in found) == sorted(tuple(one.shape) for one in right) and all(
        any(_close(one, other) for other in right) for one in found
    ):
        return "outputs in another order"
    for name, change in (("scale forgotten", _without_scale), ("dimension dropped", _other_keepdim)):
        try:
            flawed = computed(change(given), feeds)
        except Exception:  # a program that is changed like this may not fit together any more
            continue
        if all(map(_close, found, flawed)):
            return name
    if _counts_from_the_end(given):
        return "last dimension"
    if any(one.shape != other.shape and one.numel() == other.numel() for one, other in zip(found, right, strict=True)):
        return "dimension dropped"
    if number > 0:
        return "froze a size"
    return "other values"


def _changed(given: Program, change: Any) -> Program:
    return given | {"nodes": [change(*node) for node in given["nodes"]]}


def _without_scale(given: Program) -> Program:
    return _changed(given, lambda name, target, arguments, options: [name, target, arguments, {}])


def _other_keepdim(given: Program) -> Program:
    def other(name: str, target: str, arguments: list[Any], options: dict[str, Any]) -> list[Any]:
        if target == "aten.mean.dim":
            arguments = [*arguments[:2], not (len(arguments) > 2 and arguments[2])]
        return [name, target, arguments, options]

    return _changed(given, other)


def _difference(found: list[torch.Tensor], right: list[torch.Tensor]) -> str:
    for place, (one, other) in enumerate(zip(found, right, strict=True)):
        if one.shape != other.shape:
            return f"output {place} has shape {tuple(one.shape)}, wanted {tuple(other.shape)}"
        if not _close(one, other):
            return f"output {place} is off by {float((one - other).abs().max()):.3g}"
    return "nothing"
