"""What a right replacement is: the graph computes what the model with SiLU for ReLU would, writes included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes, module_of, own_nodes
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import calls_of, once_a_case
from autograder.exercises.day2.replace_relu.cases import composed, hidden_cases
from autograder.exercises.day2.replace_relu.visible import classes_of, graph_of
from autograder.exercises.explaining import OnDemand
from autograder.exercises.graph_comparison import (
    COMMON,
    behaviour,
    changed_modules,
    first_difference,
    operations,
    own_behaviour,
    stale,
    unusable,
)
from fxopt_core.graphs import is_operation, operation_name

__all__ = ["MISCONCEPTIONS", "UNNAMED", "composed", "hidden_cases", "judge"]

MISCONCEPTIONS = COMMON | {
    "functions missed": (
        "A ReLU that is called as a function is left. `torch.relu` and `F.relu` are two different targets, and both "
        "count."
    ),
    "methods missed": "A ReLU that is called as a method is left: `call_method` with the target `'relu'`.",
    "modules missed": "A ReLU that is a module is left. The target of its node is a path; look at the class there.",
    "keyword missed": "A ReLU that takes its input by name (`relu(input=x)`) is left.",
    "in-place forms missed": (
        "A ReLU that works in place is left: `relu_`, `inplace=True` as an argument, or `nn.ReLU(inplace=True)`."
    ),
    "unread ones left": (
        "You left the ReLUs whose value nobody reads. One that works in place writes all the same, and every ReLU "
        "becomes a SiLU."
    ),
    "first paths only": (
        "You left a ReLU whose module lies at two paths. `named_modules()` names each module once, by the first of its "
        "paths. `graph_module.get_submodule(node.target)` finds it by either."
    ),
    "left a ReLU": "A ReLU is left that should have become a SiLU.",
    "lost the write": (
        "You replaced a ReLU that works in place by a SiLU that returns a new tensor. Whoever reads the written tensor "
        "afterwards still reads the old values. The new one must write, too (`F.silu(h, inplace=True)`)."
    ),
    "writes where none was": (
        "Your SiLU works in place where the ReLU did not. Whoever else reads the input now reads changed values."
    ),
    "went by the name": (
        "You replaced something that is no ReLU: `relu6`, the module `nn.ReLU6`, a `LeakyReLU`, another module at a "
        "path called `relu`, or somebody's own function of that name. Compare targets and classes, not names."
    ),
    "changed the modules": (
        "You changed or exchanged a module of the model that the graph came from. Change the node, not the module: "
        "others may share it."
    ),
    "removed the modules": (
        "A module that the graph no longer calls is gone from the model. It may be called elsewhere: leave the modules "
        "as and where they are (no `delete_all_unused_submodules`, no `delete_submodule`)."
    ),
    "overwrote a module": (
        "You stored a module of your own at a path where the model already has another one, and that one is gone. Take "
        "a free name: go on while `hasattr(graph_module, name)`."
    ),
    "lost a SiLU": (
        "There are fewer SiLUs than there were ReLUs. Each ReLU becomes one, even if nobody reads what it returns. One "
        "that works in place writes all the same: `eliminate_dead_code` does not know that."
    ),
    "lost other operations": (
        "Operations are gone that are no ReLU. Leave the rest alone, also what nobody reads: to remove dead code is "
        "another rewrite."
    ),
    "left the old node": "The SiLU is there, but so is the old ReLU: erase it.",
    "left readers": (
        "The SiLU is there, but some nodes still read the old ReLU: those that hold it in a list or by keyword, and "
        "the output, which holds what it returns in a tuple. `replace_all_uses_with` finds them all."
    ),
    "more operations": "There are more operations than before. One SiLU takes the place of one ReLU.",
    "something else": "The graph computes something else than the model with SiLU for ReLU.",
}

UNNAMED = ("left a ReLU", "something else")
"""What says that an answer is not right, and names no mistake."""


def works_in_place(node: fx.Node) -> bool | None:
    """Whether a node is a ReLU that works in place; `None` for what is no ReLU."""
    if node.op == "call_module":
        module = module_of(node)
        return module.inplace if type(module) is nn.ReLU else None
    if node.op == "call_method":
        return {"relu": False, "relu_": True}.get(str(node.target))
    if node.target in (torch.relu_, nn.functional.relu_):
        return True
    if node.target in (torch.relu, nn.functional.relu):
        return bool(node.kwargs.get("inplace", node.args[1] if len(node.args) > 1 else False))
    return None


Form = tuple[str, str, bool, str]
"""Of a ReLU: the node's `op`, what it is called, whether it works in place, and how it is told: `name` or `position`
for the input or flag that is given so, `""` for a flag by name or none."""


def form_of(node: fx.Node) -> Form | None:
    """In which form a node is a ReLU; `None` for what is no ReLU."""
    writes = works_in_place(node) if node.op.startswith("call") else None
    if writes is None:
        return None
    how = "position" if len(node.args) > 1 else "" if node.args else "name"
    if node.op == "call_function":
        told = "torch.relu" if node.target is torch.relu else "F.relu" if node.target is nn.functional.relu else "relu_"
    else:
        told = "nn.ReLU" if node.op == "call_module" else str(node.target)
    return node.op, told, writes, how


Which = Callable[[Form], bool]

LEFT: dict[str, tuple[Which, ...]] = {
    "functions missed": (
        lambda form: form[1] == "torch.relu",
        lambda form: form[1] == "F.relu",
        lambda form: form[1] == "F.relu" and not form[2],
        lambda form: form[0] == "call_function" and not form[2],
        lambda form: form[0] == "call_function",
    ),
    "methods missed": (
        lambda form: form[0] == "call_method",
        lambda form: form[0] == "call_method" and not form[2],
    ),
    "modules missed": (
        lambda form: form[0] == "call_module",
        lambda form: form[0] == "call_module" and not form[2],
    ),
    "keyword missed": (
        lambda form: form[3] == "name",
        lambda form: form[3] == "name" and not form[2],
        lambda form: form[3] == "name" and form[0] == "call_function",
        lambda form: form[3] == "name" and form[0] == "call_module",
    ),
    "in-place forms missed": (
        lambda form: form[2],
        lambda form: form[1] in ("relu_",),
        lambda form: form[2] and form[1] == "F.relu",
        lambda form: form[2] and form[0] == "call_module",
        lambda form: form[2] and form[0] == "call_method",
        lambda form: form[2] and form[0] == "call_function",
    ),
}
"""Of each mistake which forms it leaves, in each way in which it can be made."""

OTHERWISE: dict[str, tuple[Which, ...]] = {
    "lost the write": (
        lambda form: form[2],
        lambda form: form[2] and form[1] == "F.relu",
        lambda form: form[2] and form[3] == "position",
        lambda form: form[2] and form[1] == "relu_",
        lambda form: form[2] and form[0] == "call_method",
        lambda form: form[2] and form[0] == "call_module",
        lambda form: form[2] and form[0] != "call_module",
        lambda form: form[2] and form[0] == "call_function",
    ),
    "writes where none was": (
        lambda form: not form[2],
        lambda form: not form[2] and form[0] == "call_function",
        lambda form: not form[2] and form[0] == "call_method",
        lambda form: not form[2] and form[0] == "call_module",
        lambda form: not form[2] and form[3] == "position",
    ),
}
"""Of each mistake for which forms it confuses whether they work in place, in each way in which it can be made."""


def _never(form: Form) -> bool:
    return False


def replaced(graph_module: fx.GraphModule, confused: Which = _never) -> fx.GraphModule:
    """The judge's own replacement, in place; `confused` says for which forms a SiLU writes if the ReLU did not."""
    for node in own_nodes(graph_module):
        if (form := form_of(node)) is None:
            continue
        value = node.args[0] if node.args else node.kwargs["input"]
        with graph_module.graph.inserting_before(node):
            keywords: dict[str, Any] = {"inplace": form[2] != confused(form)}
            new = graph_module.graph.call_function(nn.functional.silu, (value,), keywords)
        node.replace_all_uses_with(new)
        graph_module.graph.erase_node(node)
    return graph_module


def _forms(graph_module: fx.GraphModule) -> Counter[Form]:
    return Counter(form for node in all_nodes(graph_module) if (form := form_of(node)) is not None)


def _at_second_paths(graph_module: fx.GraphModule) -> Counter[Form]:
    """The ReLUs that are a module which has an earlier path, too."""
    first = dict(graph_module.named_modules())
    calls = (node for node in own_nodes(graph_module) if node.op == "call_module" and node.target not in first)
    return Counter(form for node in calls if (form := form_of(node)) is not None)


def _some(forms: Mapping[Form, int], which: Which) -> Counter[Form]:
    return Counter({form: count for form, count in forms.items() if which(form)})


@once_a_case
def _wanted(case: Case) -> dict[str, Any]:
    return own_behaviour(replaced(graph_of(case)), calls_of(case))


@once_a_case
def _confused(case: Case) -> Mapping[str, list[dict[str, Any]]]:
    """What a caller sees of each mistake that shows in this case, in each way in which it can be made."""
    forms = _forms(graph_of(case))

    def made(name: str) -> list[dict[str, Any]]:
        tried = {frozenset(some): way for way in OTHERWISE[name] if (some := _some(forms, way))}
        seen = [own_behaviour(replaced(graph_of(case), way), calls_of(case)) for way in tried.values()]
        return [one for one in seen if first_difference(_wanted(case), one, absolute=1e-6)]

    return OnDemand(OTHERWISE, made)


def _shown_whole(case: Case, names: Collection[str]) -> list[str]:
    """Which of some mistakes show in this case in each way in which they can be made."""
    return [name for name in names if len(_confused(case)[name]) == len(OTHERWISE[name])]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """Which ReLUs are left, then what the graph computes, and which mistakes would have given just that."""
    if problem := unusable(evidence):
        yield problem
        return
    original, theirs = graph_of(case), decode(evidence.graphs["graph"])
    size, forms, left = len(own_nodes(original)), _forms(original), _forms(theirs)
    unread = Counter(form for node in all_nodes(original) if not node.users and (form := form_of(node)) is not None)
    second = _at_second_paths(original)
    more = _silus(theirs) - _silus(original)
    kinds, came = _classes(original), _classes(theirs)
    for path in sorted(kinds.keys() & came.keys()):
        if kinds[path] != came[path]:
            name = "changed the modules" if kinds[path] == "ReLU" else "overwrote a module"
            yield name, f"({path!r} was a {kinds[path]}, and is a {came[path]})"
            return
    if more > forms.total():
        yield "went by the name", f"(ReLUs before: {forms.total()}; SiLUs that came: {more})"
        return
    if left and more == forms.total():
        read = any(node.users for node in all_nodes(theirs) if form_of(node) is not None)
        # Where nobody reads a SiLU, no reader was changed at all: that is no matter of lists.
        read = read and any(node.users for node in all_nodes(theirs) if _is_silu(node))
        yield ("left readers" if read else "left the old node"), f"(left: {_told(left)})"
        return
    if left:
        fits = tuple(name for name, ways in LEFT.items() if any(left == _some(forms, way) for way in ways))
        fits += ("unread ones left",) * (left == unread) + ("first paths only",) * (left == second)
        yield Deviation("left a ReLU", fits, f"(left: {_told(left)})", size)
        return
    shown = tuple(name for name, ways in LEFT.items() if all(_some(forms, w) for w in ways))
    shown += ("unread ones left",) * bool(unread) + ("first paths only",) * bool(second)
    yield Agreement("left a ReLU", shown)
    found = behaviour(theirs, calls_of(case))
    if different := first_difference(_wanted(case), found, absolute=1e-6):
        if more < forms.total() and not _others(theirs) - _others(original):
            yield "lost a SiLU", f"(ReLUs before: {forms.total()}; SiLUs that came: {more})"
            return
        fits = tuple(
            name
            for name, ways in _confused(case).items()
            if any(not first_difference(one, found, absolute=1e-6) for one in ways)
        )
        yield Deviation("something else", fits, f"({different})", size)
        return
    yield Agreement("something else", partial(_shown_whole, case))
    if evidence.values["classes"] != classes_of(case):
        yield "changed the modules", ""
        return
    if evidence.values["gone"]:
        yield "removed the modules", f"({', '.join(evidence.values['gone'])})"
        return
    if changed := changed_modules(original, theirs):
        yield "changed the model", f"({changed})"
        return
    if operations(theirs) > operations(original):
        yield "more operations", f"({operations(original)} operations before, {operations(theirs)} after)"
        return
    if more < forms.total():
        new = sorted(_others(theirs) - _others(original))
        counts = f"(ReLUs before: {forms.total()}; SiLUs that came: {more}; others: {', '.join(new) or 'none'})"
        yield ("something else" if new else "lost a SiLU"), counts
        return
    if lost := _others(original) - _others(theirs):
        yield "lost other operations", f"(gone: {', '.join(sorted(lost))})"
        return
    if problem := stale(evidence, theirs):
        yield problem


def _told(forms: Counter[Form]) -> str:
    kinds = {"call_function": "function", "call_method": "method", "call_module": "module"}
    return ", ".join(f"the {kinds[op]} {name}{' in place' if writes else ''}" for op, name, writes, _ in sorted(forms))


def _others(graph_module: fx.GraphModule) -> Counter[str]:
    """The operations that read a value and are neither ReLU nor SiLU, by name."""
    calls = (node for node in all_nodes(graph_module) if is_operation(node) and form_of(node) is None)
    return Counter(operation_name(node) for node in calls if node.all_input_nodes and not _is_silu(node))


def _classes(graph_module: fx.GraphModule) -> dict[str, str]:
    """The class of each module that is called, by its path."""
    return {str(n.target): type(module_of(n)).__name__ for n in all_nodes(graph_module) if n.op == "call_module"}


def _silus(graph_module: fx.GraphModule) -> int:
    """How many nodes are a SiLU, as a function or as a module."""
    return sum(map(_is_silu, all_nodes(graph_module)))


def _is_silu(node: fx.Node) -> bool:
    name = operation_name(node).removeprefix("aten.").partition(".")[0]
    return is_operation(node) and name in ("silu", "silu_", "SiLU")
