"""What the signature says, read by the judge from its own export of the case's model."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form.nodes import own_nodes
from autograder.exercises.day3.read_signature.visible import KEYS, KINDS, build, described

MISCONCEPTIONS = {
    "not the four lists": (
        "Return a dictionary with the keys parameters, buffers, inputs and unused, each with a list of names, which "
        "are strings (`node.name`, not the node)."
    ),
    "names of the graph": (
        "You named parameters or buffers as the graph calls its placeholders (`p_shift`). What they are called in the "
        "model (`shift`) is in the signature: the `target` of each input."
    ),
    "buffer missed": (
        "A buffer is missing: `state_dict` leaves out what is registered with `persistent=False`, but the graph reads "
        "it all the same. Ask the signature."
    ),
    "buffers among parameters": "You took buffers for parameters: only parameters are trained.",
    "parameters among buffers": (
        "You took parameters for buffers. One that is frozen (`requires_grad=False`) is a parameter all the same: ask "
        "the `kind` of the input."
    ),
    "inputs missed": (
        "Not all inputs that the user hands in are there. One that is never read still has to be handed in."
    ),
    "unused missed": (
        "Some input is read by no node, and you do not name it as unused: a parameter left over, or an input that only "
        "training needs. A placeholder that nobody reads has no `users`."
    ),
    "used called unused": "You call inputs unused that some node reads.",
    "reader that nobody reads": (
        "You call inputs unused whose readers lead nowhere: nobody needs what they compute. They read their inputs all "
        "the same, and so does a node that writes in place (`add_`): a placeholder is unused when it has no `users`."
    ),
    "written taken for read": (
        "A buffer is missing among the unused: the graph returns its new value and never reads the old one. That "
        "somebody writes it does not make it used."
    ),
    "only handed on": (
        "You call an input unused that the graph returns as it came. The output is a node, too, and it reads what it "
        "returns."
    ),
    "listed a constant": (
        "You list a tensor that is neither parameter nor buffer nor input: the model holds it as a plain attribute, "
        "and its kind is `CONSTANT_TENSOR`. It belongs in none of the lists."
    ),
    "program changed": (
        "Your function changes the program, or keeps something from one call to the next. Read the program and leave "
        "it as it is: erase nothing from its graph, and sort a copy of a list."
    ),
    "list is not right": "One of the lists does not name what is in the signature of the program.",
    "other names": "The names are not those in the signature of the program.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Other numbers of layers, and other leftovers."""
    names = random.sample(["old_head", "probe", "teacher", "auxiliary"], 3)
    layers = random.sample(range(1, 5), 2)
    return [
        Case("hidden 0", {"layers": layers[0], "spare": names[:2], "persistent": False}),
        Case("hidden 1", {"layers": layers[1], "spare": names[2:], "persistent": False}),
        *(Case(f"hidden {kind}", {"kind": kind, "batch": random.randint(2, 9)}) for kind in KINDS),
    ]


def read(program: ExportedProgram) -> dict[str, list[str]]:
    """The right answer."""
    answer: dict[str, list[str]] = {key: [] for key in KEYS}
    users = {node.name: len(node.users) for node in own_nodes(program.graph)}
    kinds = {InputKind.PARAMETER: "parameters", InputKind.BUFFER: "buffers", InputKind.USER_INPUT: "inputs"}
    for item in program.graph_signature.input_specs:
        name = item.target or item.arg.name
        if item.kind not in kinds:  # a constant is none of the three
            continue
        answer[kinds[item.kind]].append(name)
        if not users[item.arg.name]:
            answer["unused"].append(name)
    return {key: sorted(names) for key, names in answer.items()}


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The first list that is not right, and why; then whether the program is still the same for who asks again."""
    values = evidence.values
    again = values["again"]
    if finding := next(misread(case, values), None):
        yield finding
    elif other := [key for key in ("kind", *KEYS) if again.get(key) != values[key]]:
        yield "program changed", f"({other[0]}: {values[other[0]]}, then {again.get(other[0])})"
    elif values["after"] != described(build(case)):
        yield "program changed", "(afterwards its signature, or its graph, is not what it was)"


def misread(case: Case, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What is not right with one answer."""
    if values["kind"] != "mapping" or any(not isinstance(values[key], list) for key in KEYS):
        yield "not the four lists", ""
        return
    program = build(case)
    wanted = read(program)
    known = {name for names in wanted.values() for name in names}
    in_graph = {item.arg.name for item in program.graph_signature.input_specs} - known
    loose = {item.target for item in program.graph_signature.input_specs if item.persistent is False}
    fixed = [item for item in program.graph_signature.input_specs if item.kind is InputKind.CONSTANT_TENSOR]
    constants = {str(name) for item in fixed for name in (item.target, item.arg.name)}
    for key in KEYS:
        found, right = set(values[key]), set(wanted[key])
        if found == right and len(found) == len(values[key]):
            continue
        missing, extra = right - found, found - right
        detail = f"({key}: {', '.join(sorted(found)[:6]) or 'none'}; there: {', '.join(sorted(right)[:6]) or 'none'})"
        if extra and extra <= constants:
            yield "listed a constant", detail
        elif found & in_graph - constants:
            yield "names of the graph", detail
        elif extra - known:
            yield "other names", detail
        elif key == "parameters" and extra and extra <= set(wanted["buffers"]):
            yield "buffers among parameters", detail
        elif key == "parameters" and missing and missing <= set(values["buffers"]):
            yield "parameters among buffers", detail
        elif key == "buffers" and missing and missing <= loose and not extra:
            yield "buffer missed", detail
        elif key == "inputs" and missing and missing <= set(wanted["unused"]) and not extra:
            yield "inputs missed", detail
        elif key == "unused" and extra:
            lonely = extra <= read_for_nobody(program)
            name = "reader that nobody reads" if lonely else "used called unused"
            yield ("only handed on" if extra <= handed_on(program) else name), detail
        elif key == "unused" and missing:
            written = missing <= set(program.graph_signature.buffers_to_mutate.values())
            yield ("written taken for read" if written else "unused missed"), detail
        else:
            yield "list is not right", detail
        return


def read_for_nobody(program: ExportedProgram) -> set[str]:
    """The inputs, by the names that the answer gives them, that are read and do not reach the output."""
    needed: set[str] = set()
    for node in reversed(own_nodes(program.graph)):
        if node.op == "output" or node.name in needed:
            needed.update(source.name for source in node.all_input_nodes)
    items = {item.arg.name: item.target or item.arg.name for item in program.graph_signature.input_specs}
    nodes = (node for node in own_nodes(program.graph) if node.name in items)
    return {items[node.name] for node in nodes if node.users and node.name not in needed}


def handed_on(program: ExportedProgram) -> set[str]:
    """The inputs, by the names that the answer gives them, that only the output reads."""
    only = {node.name for node in own_nodes(program.graph) if {user.op for user in node.users} == {"output"}}
    return {item.target or item.arg.name for item in program.graph_signature.input_specs if item.arg.name in only}
