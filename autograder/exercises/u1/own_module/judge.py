"""What each step does: asked of PyTorch, where the same program runs on modules of `torch.nn`.

Only to name a mistake there is a small framework beside it, which can make each of the mistakes: the one whose modules
look like the learner's has its name.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u1.own_module import cases
from autograder.exercises.u1.own_module.model import FLAWS, framework
from autograder.exercises.u1.own_module.visible import MOST, PARTS, Framework, Step, in_words, run, shown, told

MISCONCEPTIONS = {
    "asked PyTorch": "Your class is built on `torch.nn.Module`. Write down its rules yourself: that is the whole task.",
    "plain attribute in the way": (
        "A plain attribute of that name is still in the module's `__dict__`, and Python finds it before it asks "
        "`__getattr__`. Take it out when you register something under its name."
    ),
    "registered twice": (
        "One name is registered in two places. Before you register it as one kind, take it out of the others."
    ),
    "None is no entry": (
        "`None` keeps the entry: the name still stands for a parameter (or buffer, or child) that isn't there at the "
        "moment, keeps its place in the order, and takes nothing of another kind."
    ),
    "None is counted": "An entry that is `None` is no parameter and no buffer: leave it out of every walk.",
    "slot takes anything": (
        "The first row of the table that fits counts. A `Parameter` may go under any name, and a `Module` under any "
        "but a parameter's. Otherwise a name that stands for something takes its own kind (a buffer's any `Tensor`) or "
        "`None`. Raise `TypeError` for anything else, and change nothing: with a forgotten `Parameter(…)` the weight "
        "would no longer be trained."
    ),
    "tensors become buffers": (
        "Assigning a tensor registers nothing: it stays a plain attribute. Only `register_buffer` makes a buffer."
    ),
    "buffer forgotten": (
        "A tensor, or `None`, that is assigned to a buffer's name takes its place. It is the buffer from then on, and "
        "as persistent as the one before."
    ),
    "replaced goes last": (
        "What takes the place of something of its kind keeps its position in the order. A dictionary does that if you "
        "assign to the key, and doesn't if you delete it first."
    ),
    "not deleted": (
        "`del` must take the name out of wherever it is: of parameters, buffers, children or plain attributes. After "
        "that, there is nothing under that name, not even `None`."
    ),
    "before the constructor": (
        "A parameter or a module that is assigned before `super().__init__()` has nowhere to go: raise "
        "`AttributeError`. Plain attributes may be assigned; they need no dictionaries."
    ),
    "registers anything": (
        "`register_parameter` and `register_buffer` are strict. `KeyError`: a name that is empty, has a dot, or stands "
        "for something else, such as a method; only assigning replaces. `TypeError`: a value that is neither `None` "
        "nor a `Parameter` (for a buffer: a `Tensor`)."
    ),
    "named twice": (
        "A child, a module or a tensor that is reached in several ways is one thing: a walk gives it once, by the "
        "first way. An optimizer that got a tensor twice would step on it twice."
    ),
    "wrong order": (
        "The order is: the module itself, then its children one after the other, each with everything below it "
        "before the next one."
    ),
    "wrong paths": (
        "`named_modules` begins with the module itself under `''` and reaches every depth. A path has all names from "
        "the top, with dots between them. The walks over tensors go just as deep."
    ),
    "state without repeats": (
        "`state_dict` saves a shared tensor under each of its names: whoever loads it may not share them."
    ),
    "wrong part saved": (
        "The state holds the tensors themselves: a module's parameters, then its persistent buffers, then what its "
        "children save. A buffer that is not persistent is no part of it."
    ),
    "wrong names accepted": (
        "With `strict`, names that the state lacks, and names that the module does not have, must be an error. A "
        "tensor that is forgotten would keep its old numbers."
    ),
    "other sizes accepted": "A tensor of another size does not fit: that is an error, `strict` or not.",
    "strict is ignored": "Without `strict`, missing and unexpected names are no errors: return them.",
    "all or nothing": (
        "What fits is copied even where something else does not. It's worth knowing: after this error, half of a "
        "model has been loaded."
    ),
    "loading replaces": (
        "Loading put new tensors into the module. Copy the numbers into those that are there: an optimizer holds them, "
        "and would go on with tensors that nobody uses."
    ),
    "loading keeps the list": (
        "After loading, your module shares its list with the state: whoever changes one changes the other. Copy the "
        "numbers."
    ),
    "emptied before it is copied": (
        "A module may be given its own state: the tensor to copy from is the one to copy into. You emptied it first, "
        "and no numbers were left. `values[:] = …` replaces them in one step."
    ),
    "state changed": (
        "The dictionary that `load_state_dict` was given is another one afterwards. It belongs to the caller, who may "
        "load it again: take nothing out of it, and put nothing in."
    ),
    "unnamed": (
        "An error names the attribute that it is about. That of `load_state_dict` names every tensor that is missing, "
        "unexpected or of another size, not only the first, and no others."
    ),
    "one module only": "`train` and `eval` reach every module below.",
    "other modules": (
        "`apply` calls the `apply` of each child, in their order, and then the function with the module itself. Yours "
        "called the function with other modules, or in another order."
    ),
    "parent first": "`apply` goes through the children first; the module itself comes last.",
    "wrong result": (
        "`train`, `eval` and `apply` return the module, and `load_state_dict` a pair of lists: missing names, "
        "unexpected names."
    ),
    "accepted": "What must be refused went through.",
    "refused": "You refused what PyTorch does.",
    "wrong error": "It is refused, as it must be, but with another exception.",
    "wrong names": (
        "A walk, the state, or what is found under a name differs from PyTorch's: go through the rules for this step."
    ),
}

CALLED = {
    "slot becomes plain": "slot takes anything",
    "buffer becomes plain": "buffer forgotten",
    "persistence forgotten": "buffer forgotten",
    "buffers cannot be deleted": "not deleted",
    "deleted leaves None": "not deleted",
    "any name": "registers anything",
    "overwrites what is there": "registers anything",
    "registers any parameter": "registers anything",
    "registers any buffer": "registers anything",
    "child named twice": "named twice",
    "shared module named twice": "named twice",
    "shared parameter named twice": "named twice",
    "deepest first": "wrong order",
    "breadth first": "wrong order",
    "root left out": "wrong paths",
    "no path": "wrong paths",
    "one level": "wrong paths",
    "buffers not saved": "wrong part saved",
    "buffers first": "wrong part saved",
    "passing buffers saved": "wrong part saved",
    "copies saved": "wrong part saved",
    "missing accepted": "wrong names accepted",
    "unexpected accepted": "wrong names accepted",
    "not strict forgives sizes": "other sizes accepted",
    "first only": "unnamed",
    "bare errors": "unnamed",
    "train returns nothing": "wrong result",
    "apply returns nothing": "wrong result",
    "loading returns nothing": "wrong result",
}
"""The misconception of a flaw, where it is not called by the flaw's own name."""


SHOWN = {
    "parameters": "`named_parameters`:",
    "buffers": "`named_buffers`:",
    "modules": "`named_modules`:",
    "children": "`named_children`:",
    "state": "`state_dict`:",
    "training": "`training`:",
    "got": "under that name:",
}
"""What is said of a part that differs."""


class _Net(torch.nn.Module):
    """A module of PyTorch's; classes with further names are derived from it."""


def _overwrite(tensor: torch.Tensor, number: int) -> None:
    tensor.fill_(number)


PYTORCH = Framework(
    module=_Net,
    parameter=lambda numbers: torch.nn.Parameter(torch.tensor(numbers, dtype=torch.float64)),
    tensor=lambda numbers: torch.tensor(numbers, dtype=torch.float64),
    numbers=lambda tensor: [int(number) for number in tensor[:MOST].tolist()],
    state=lambda module: module.state_dict(keep_vars=True),
    overwrite=_overwrite,
)
"""What decides."""


def hidden_cases(random: Random) -> list[Case]:
    """One case for each rule that is easily forgotten, then random programs."""
    return cases.hidden_cases(random, PYTORCH)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception at the first step of each program after which something differs from PyTorch, once each."""
    said: set[str] = set()
    for steps, found in zip(case.parameters["programs"], evidence.values["runs"], strict=True):
        wanted = run(steps, PYTORCH)
        difference = first_difference(steps, wanted, found)
        if difference is None:
            continue
        number, name, figures = difference
        twice = "registered twice" if _in_two_places(found[number]) else None
        name = twice or _explained(steps, number, wanted, found) or name
        if name not in said:
            yield name, f"({in_words(steps[number])}: {figures})"
        said.add(name)
    if not said and evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it uses {', '.join(evidence.values['torch_calls'])})"


def first_difference(
    steps: list[Step], wanted: list[dict[str, Any]], found: list[dict[str, Any]]
) -> tuple[int, str, str] | None:
    """Number of the first step that went otherwise, what that is called, and figures; `None` if none did."""
    for number, (step, right, seen) in enumerate(zip(steps, wanted, found, strict=True)):
        if (name := _outcomes_differ(step, right, seen)) is not None:
            return number, name, f"found {told(seen) or 'that it was done'}, wanted {told(right) or 'that it is done'}"
        for part in PARTS:
            if _plain(seen.get(part)) != _plain(right.get(part)):
                figures = f"{SHOWN[part]} found {_in_words(seen[part])}, wanted {_in_words(right[part])}"
                return number, "wrong names", figures
        if isinstance(got := seen.get("got"), dict) and _attribute(step) not in got["says"]:
            return number, "unnamed", f"reading it then: {got['error']}: {got['says']}"
    return None


def _outcomes_differ(step: Step, right: dict[str, Any], seen: dict[str, Any]) -> str | None:
    if seen.get("the state stays", True) is not True:
        return "state changed"
    if "error" not in right:
        if "error" in seen:
            return "refused"
        if seen["value"] == right["value"]:
            return None
        called = step[0] == "apply" and isinstance(seen["value"], list) and seen["value"][1:] == right["value"][1:]
        return "other modules" if called else "wrong result"
    if "error" not in seen:
        return {"early": "before the constructor", "set": "slot takes anything"}.get(step[0], "accepted")
    if seen["error"] != right["error"]:
        # Where name and value are both wrong, either may be said.
        return None if seen["error"] == "TypeError" and _takes_no_such_value(step) else "wrong error"
    named = seen.get("named") == right.get("named") and _attribute(step) in seen["says"]
    return None if named else "unnamed"


def _attribute(step: Step) -> str:
    """The attribute that a step's error must name; nothing for a state, whose paths are looked for."""
    return {"early": "early", "load": ""}.get(step[0], step[2] if len(step) > 2 else "")


def _takes_no_such_value(step: Step) -> bool:
    """Whether a step registers what is neither `None` nor of the right kind."""
    accepted = {"parameter": "P", "buffer": "PT"}.get(step[0], "")
    return bool(accepted) and step[3] is not None and str(step[3])[0] not in accepted


def _plain(part: Any) -> Any:
    """A part without the words of an error."""
    return part["error"] if isinstance(part, dict) and "error" in part else part


def _in_two_places(seen: dict[str, Any]) -> bool:
    """Whether one path stands for several kinds."""
    walks = [seen[part] for part in ("parameters", "buffers", "modules") if isinstance(seen[part], list)]
    kinds = [{path for path, _ in walk} for walk in walks]
    return sum(map(len, kinds)) > len(set().union(*kinds))


def _explained(steps: list[Step], number: int, wanted: list[dict[str, Any]], found: list[dict[str, Any]]) -> str | None:
    """The flaw that does the same up to this step, where PyTorch does not; of several, the one that does so longest."""
    best, longest = None, number
    for flaw in FLAWS:
        flawed = run(steps, framework(flaw))
        difference = first_difference(steps, flawed, found)
        same = len(steps) if difference is None else difference[0]
        if same > longest and first_difference(steps[: number + 1], wanted[: number + 1], flawed[: number + 1]):
            best, longest = flaw, same
    return None if best is None else CALLED.get(best, best)


def _in_words(part: Any) -> str:
    if isinstance(part, dict) and "error" not in part:
        return ", ".join(f"{label} {flag}" for label, flag in part.items())
    text = shown(part) if isinstance(part, (dict, list)) else str(part)
    return text if len(text) <= 240 else f"{text[:240]} …"
