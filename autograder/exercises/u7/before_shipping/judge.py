"""What a program would lose: worked out from the rows that it is made of, never from graph or signature."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u7.before_shipping.visible import (
    CUSTOM,
    SPACE,
    TRAINED_CUSTOM,
    Program,
    placeholder,
    program,
    shipping_case,
)

MISCONCEPTIONS = {
    "no pairs": "`losses` must return pairs of two words: the kind of loss, and a name.",
    "state missed": (
        "The program writes to a buffer or a parameter, and the target keeps no state: what it writes is gone after "
        "the call. The signature names what is written: `buffers_to_mutate` and `parameters_to_mutate`."
    ),
    "kept state reported": "The target keeps state between calls, so a buffer that is written is not lost there.",
    "written input missed": (
        "The program writes to an argument of the caller, who will not see it: `user_inputs_to_mutate` names it."
    ),
    "frozen argument missed": (
        "An argument that is no tensor (`ConstantArgument`) became part of the program, with the value that it had. "
        "That goes for `None`, `False` and 0 as well."
    ),
    "free argument reported": "A size (`SymIntArgument`) and a tensor stay free: only a `ConstantArgument` is frozen.",
    "operators in branches missed": (
        "An operator inside a branch is missing. The graphs of branches are submodules, and a branch may have "
        "branches: go through `module.modules()`."
    ),
    "operator missed": "The target does not have an operator of the program, and you did not report it.",
    "another overload": (
        "The target has another overload of this operator, and you took that for the operator itself. "
        "`aten.gt.Tensor` does not do the work of `aten.gt.Scalar`: compare whole names."
    ),
    "operator that is there": "You reported an operator that the target has.",
    "no operator": (
        "`getitem` and `cond` are no operators of a library: every target has them. Look at nodes whose target is a "
        "`torch._ops.OpOverload`."
    ),
    "training missed": (
        "An operator was recorded in training mode. Its schema has an argument `train` or `training`, and the node "
        "gives True for it."
    ),
    "training by keyword missed": (
        "A node gives True for `train` or `training` by keyword, and you did not report it. What is given by keyword "
        "stands in `node.kwargs`, not in `node.args`."
    ),
    "not True": (
        "You reported an operator as training whose argument is not True: it is a number that only counts as true, or "
        "the argument has another name than `train` and `training`."
    ),
    "training everywhere": "An operator was reported as training although the node says False: look at the value.",
    "one loss for each name": (
        "A buffer and an argument may have the same name, and both lose something. Keep pairs of kind and name apart, "
        "not names."
    ),
    "other names": (
        "State and arguments are reported by the names that the *user* knows: `meter.calls`, not `b_meter_calls`."
    ),
    "more than once": "Each loss is reported once, however many nodes there are.",
    "something else": "You reported something that is not lost.",
}

EVERYTHING = (
    "aten.add.Tensor",
    "aten.relu.default",
    "aten.permute.default",
    "aten.mm.default",
    "aten.sum.default",
    "aten.gt.Scalar",
    "aten.cos.default",
    "aten.sin.default",
    "aten.native_dropout.default",
    "aten._native_batch_norm_legit_functional.default",
    "aten.mul.Tensor",
    *(f"{SPACE}.{name}.default" for name in (*CUSTOM, *TRAINED_CUSTOM)),
)

TRAINING = {
    "aten.native_dropout.default": (2, "train"),
    "aten._native_batch_norm_legit_functional.default": (5, "training"),
    f"{SPACE}.smooth.default": (1, "training"),
    f"{SPACE}.settle.default": (2, "train"),
    f"{SPACE}.learn.default": (1, "train"),
    f"{SPACE}.tune.default": (2, "training"),
}
"""Which argument says whether an operator was recorded in training mode: its place and its name."""

Loss = tuple[str, str]


def losses(given: Program, target: dict[str, Any]) -> set[Loss]:
    """What the target would lose of a program."""
    found: set[Loss] = set()
    owned = {*given["buffers"], *given["parameters"]}
    for written in given["writes"].values():
        if written not in owned:
            found.add(("input", written))
        elif not target["state"]:
            found.add(("state", written))
    found |= {("argument", name) for name, kind, *_ in given["arguments"] if kind == "constant"}
    for node in _nodes(given):
        name = node[1]
        if name in ("getitem", "cond"):
            continue
        if name not in target["operators"]:
            found.add(("operator", name))
        if any(_trains(node)):
            found.add(("training", name))
    return found


def _trains(node: list[Any]) -> tuple[bool, bool]:
    """Whether a node gives True for its argument `train` or `training`, by position and by keyword."""
    _, name, arguments, *keywords = node
    if name not in TRAINING:
        return False, False
    place, word = TRAINING[name]
    named = keywords[0] if keywords else {}
    return len(arguments) > place and arguments[place] is True, named.get(word) is True


def _nodes(given: Program, branches: bool = True) -> list[list[Any]]:
    inside = [node for _, nodes in given["branches"].values() for node in nodes] if branches else []
    return [*given["graph"], *inside]


OF_A_VALUE = ("state", "input", "argument")
"""Kinds of loss whose names are those of values, not of operators."""


def hidden_cases(random: Random) -> list[Case]:
    """Each kind of loss by itself, where it is easily overlooked; then programs of everything, drawn."""
    relu = ["relu", "aten.relu.default", ["$x"]]
    norm = ["norm", "aten._native_batch_norm_legit_functional.default"]
    norm_arguments = ["$x", None, None, "$b_norm_mean", "$b_norm_var"]
    trained = program(
        [["x", "tensor"]],
        [
            [*norm, [*norm_arguments, True, 0.1, 1e-5]],
            ["mean", "getitem", ["$norm", 3]],
            ["var", "getitem", ["$norm", 4]],
            ["out", "getitem", ["$norm", 0]],
        ],
        buffers=["norm.mean", "norm.var"],
        writes={"mean": "norm.mean", "var": "norm.var"},
    )
    evaluated = program(
        [["x", "tensor"], ["n", "size"], ["mask", "constant", None], ["a", "constant", 0], ["z", "constant", False]],
        [
            [*norm, [*norm_arguments, False, 0.1, 1e-5]],
            ["out", "getitem", ["$norm", 0]],
            ["drop", "aten.native_dropout.default", ["$out", 0.5, False]],
            ["kept", "getitem", ["$drop", 0]],
        ],
        buffers=["norm.mean", "norm.var"],
    )
    writes = program(
        [["x", "tensor"], ["cache", "tensor"]],
        [["new", "aten.add.Tensor", ["$cache", "$x"]], ["scaled", "aten.mul.Tensor", ["$p_scale", 2]], relu],
        parameters=["scale"],
        writes={"new": "cache", "scaled": "scale"},
    )
    nested = program(
        [["x", "tensor"]],
        [["sum", "aten.sum.default", ["$x"]], ["gt", "aten.gt.Scalar", ["$sum", 0]], _cond("outer", "$x")],
        branches={
            "inner_yes": [["z"], [["sin", "aten.sin.default", ["$z"]]]],
            "inner_no": [["z"], [["pack", f"{SPACE}.pack.default", ["$z"]]]],
            "outer_yes": [
                ["y"],
                [["relu", "aten.relu.default", ["$y"]], ["gt", "aten.gt.Scalar", ["$y", 0]], _cond("inner", "$relu")],
            ],
            "outer_no": [["y"], [["again", "aten.cos.default", ["$y"]], ["cos", "aten.cos.default", ["$again"]]]],
        },
    )
    smooth, settle, learn, tune = (f"{SPACE}.{name}.default" for name in ("smooth", "settle", "learn", "tune"))
    by_keyword = program(
        [["x", "tensor"]],
        [
            ["one", smooth, ["$x", False]],
            ["two", smooth, ["$one"], {"training": True}],
            ["three", settle, ["$two", 0.5], {"train": True}],
        ],
    )
    looks_trained = program(
        [["x", "tensor"]],
        [
            ["one", smooth, ["$x"], {"training": False}],
            ["two", settle, ["$one"], {"rate": 1.0, "train": False}],
            ["three", learn, ["$two", 2]],
            ["four", learn, ["$three"], {"train": 3}],
            ["five", tune, ["$four", True, False]],
            ["six", tune, ["$five"], {"trainable": True, "training": False}],
            ["seven", smooth, ["$six"]],
            # Another flag that is True, where batch normalisation and dropout have theirs.
            ["eight", "aten.mean.dim", ["$seven", [0], True]],
        ],
    )
    same_name = program(
        [["x", "tensor"], ["n", "constant", 3]],
        [["new", "aten.add.Tensor", ["$b_n", 1]], relu],
        buffers=["n"],
        writes={"new": "n"},
    )
    # The node that reads the branch `if_yes` gets another name: the argument was there first.
    like_a_branch = program(
        [["x", "tensor"], ["if_yes", "tensor"]],
        [["sum", "aten.sum.default", ["$if_yes"]], ["gt", "aten.gt.Scalar", ["$sum", 0]], _cond("if", "$x")],
        branches={
            "if_yes": [["y"], [["blur", f"{SPACE}.blur.default", ["$y"]]]],
            "if_no": [["y"], [["cos", "aten.cos.default", ["$y"]]]],
        },
    )
    without = [name for name in EVERYTHING if not name.startswith(SPACE)]
    cases = [
        shipping_case("trained statistics", trained, [one for one in without if "norm" not in one]),
        shipping_case("evaluated", evaluated, without),
        shipping_case("written from outside", writes, without, state=True),
        shipping_case("a parameter is written", writes, without),
        shipping_case("a buffer called like an argument", same_name, without),
        shipping_case("an argument called like a branch", like_a_branch, without),
        shipping_case("trained by keyword", by_keyword, list(EVERYTHING)),
        shipping_case("what only looks trained", looks_trained, [*EVERYTHING, "aten.mean.dim"]),
        shipping_case("branches", nested, [one.replace("Scalar", "Tensor") for one in without if "cos" not in one]),
    ]
    return [*cases, *(_drawn(random, number) for number in range(4))]


def _cond(name: str, x: str) -> list[Any]:
    return [name, "cond", ["$gt", f"#{name}_yes", f"#{name}_no", [x]]]


def _drawn(random: Random, number: int) -> Case:
    buffers = random.sample(["steps", "norm.mean", "cache.keys", "deep.er.count"], random.randint(1, 3))
    parameters = random.sample(["weight", "layer.bias"], random.randint(0, 2))
    arguments: list[list[Any]] = [["x", "tensor"], ["state", "tensor"]]
    arguments += random.sample([["n", "size"], ["flag", "constant", True], ["mask", "constant", None]], 2)
    graph: list[list[Any]] = [
        ["sum", "aten.sum.default", ["$x"]],
        ["gt", "aten.gt.Scalar", ["$sum", 0]],
    ]
    branches: dict[str, list[Any]] = {}
    current = "$x"
    for place in range(random.randint(3, 6)):
        name = f"node{place}"
        kind = random.choice(["plain", "plain", "custom", "dropout", "cond"])
        if kind == "plain":
            target = random.choice(["relu", "cos", "sin"])
            graph.append([name, f"aten.{target}.default", [current]])
        elif kind == "custom":
            graph.append([name, f"{SPACE}.{random.choice(CUSTOM)}.default", [current]])
        elif kind == "dropout":
            graph.append([f"{name}_pair", "aten.native_dropout.default", [current, 0.1, random.random() < 0.5]])
            graph.append([name, "getitem", [f"${name}_pair", 0]])
        else:
            for side in ("yes", "no"):
                target = random.choice([f"aten.{random.choice(['cos', 'sin'])}", f"{SPACE}.{random.choice(CUSTOM)}"])
                branches[f"{name}_{side}"] = [["y"], [[f"in_{side}", f"{target}.default", ["$y"]]]]
            graph.append(_cond(f"{name}", current))
            graph.append([f"{name}_out", "getitem", [f"${name}", 0]])
            current = f"${name}_out"
            continue
        current = f"${name}"
    writes = {}
    values = [(name, placeholder("b", name)) for name in buffers] + [
        (name, placeholder("p", name)) for name in parameters
    ]
    for place, (written, own) in enumerate([*values, ("state", "state")]):
        if random.random() < 0.6:
            graph.insert(0, [f"new{place}", "aten.mul.Tensor", [f"${own}", 2]])
            writes[f"new{place}"] = written
    operators = [name for name in EVERYTHING if random.random() < 0.7]
    given = program(arguments, graph, parameters=parameters, buffers=buffers, branches=branches, writes=writes)
    return shipping_case(f"drawn {number}", given, operators, state=random.random() < 0.3)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The first thing that is missed, then what was reported and is not lost."""
    given, target = case.parameters["program"], case.parameters["target"]
    rows = evidence.values["found"]
    if rows is None:
        yield "no pairs", ""
        return
    found, wanted = [(kind, name) for kind, name in rows], losses(given, target)
    renamed = {placeholder(kind, name) for kind, names in _owned(given) for name in names}
    for kind, name in found:
        if kind in ("state", "input", "argument") and name in renamed and (kind, name) not in wanted:
            yield "other names", f"({kind} {name})"
            return
    # First what stands in no branch: whoever misses that, too, does not overlook branches.
    at_top = {node[1] for node in _nodes(given, branches=False)}
    missed = sorted(
        wanted - set(found), key=lambda one: (one[0] in ("operator", "training") and one[1] not in at_top, one)
    )
    more = sorted(set(found) - wanted)
    if missed:
        kind, name = missed[0]
        if kind in OF_A_VALUE and any(other == name and more in OF_A_VALUE for more, other in found):
            yield "one loss for each name", f"({kind} {name})"
            return
        yield _missed(given, target, kind, name), f"({kind} {name})"
        return
    if more:
        kind, name = more[0]
        yield _more(given, target, kind, name), f"({kind} {name})"
        return
    if len(found) != len(set(found)):
        yield "more than once", f"({next(one for one in found if found.count(one) > 1)})"


def _owned(given: Program) -> list[tuple[str, list[str]]]:
    return [("p", given["parameters"]), ("b", given["buffers"])]


def _missed(given: Program, target: dict[str, Any], kind: str, name: str) -> str:
    if kind in ("operator", "training"):
        at_top = {node[1] for node in _nodes(given, branches=False)}
        if name not in at_top:
            return "operators in branches missed"
        if kind == "operator":
            packet = name.rpartition(".")[0]
            other = any(one.rpartition(".")[0] == packet for one in target["operators"])
            return "another overload" if other else "operator missed"
        by_position = any(_trains(node)[0] for node in _nodes(given) if node[1] == name)
        return "training missed" if by_position else "training by keyword missed"
    return {"state": "state missed", "input": "written input missed", "argument": "frozen argument missed"}[kind]


def _more(given: Program, target: dict[str, Any], kind: str, name: str) -> str:
    if kind == "state" and target["state"] and name in given["writes"].values():
        return "kept state reported"
    if kind == "argument" and name in {argument for argument, *_ in given["arguments"]}:
        return "free argument reported"
    if kind == "operator" and any(word in name for word in ("getitem", "cond")):
        return "no operator"
    if kind == "operator" and name in target["operators"]:
        return "operator that is there"
    if kind == "training" and name in {node[1] for node in _nodes(given)}:
        if name not in TRAINING or name.endswith((".learn.default", ".tune.default")):
            return "not True"
        return "training everywhere"
    return "something else"
