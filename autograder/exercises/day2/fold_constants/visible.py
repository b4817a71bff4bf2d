"""The learner's side: programs that compute from weights alone, some of which must do so at every call."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day2.programs import build, program, rewrite_evidence, show_rewrite

WEIGHT = {"w": "torch.rand(4, 4)"}


def visible_cases() -> list[Case]:
    """What can be folded first, then what only seems constant."""
    return [
        program(
            "a chain of three operations",
            "scale = (self.w.abs() + 1).sqrt()\nreturn x @ scale",
            state=WEIGHT,
            trap="chain",
        ),
        program(
            "two constants, and keywords",
            "a = torch.softmax(self.w, dim=0)\nb = self.v.sum(dim=1, keepdim=True)\nreturn (x @ a) * b.t()",
            state=WEIGHT | {"v": "torch.rand(4, 4)"},
            trap="two",
        ),
        program(
            "a layer on a weight, in evaluation",
            "return x @ self.layer(self.w)",
            state=WEIGHT | {"layer": "nn.Linear(4, 4)"},
            trap="modules",
        ),
        program(
            "noise of the shape of a weight",
            "noise = torch.rand_like(self.w) * 2\nreturn x @ noise",
            state=WEIGHT,
            trap="draws",
        ),
        program(
            "a counter",
            "self.calls.add_(1.0)\nrate = 1 / self.calls\nreturn x * rate",
            state={"calls": "torch.zeros(())"},
            trap="written buffer",
        ),
        program(
            "a parameter, in training",
            "return x @ self.scale.exp()",
            state={"scale": "nn.Parameter(torch.rand(4, 4))"},
            training=True,
            trap="training",
        ),
        program(
            "the same parameter, in evaluation",
            "return x @ self.scale.exp()",
            state={"scale": "nn.Parameter(torch.rand(4, 4))"},
            trap="parameters",
        ),
        program(
            "a constant that is returned",
            "table = self.w.abs() * 2\nreturn x + 1, torch.exp(table)",
            state=WEIGHT,
            trap="returned",
        ),
        program(
            "a constant that is written",
            "total = self.w * 2\ntotal.add_(x)\nreturn total.sum(dim=0)",
            state=WEIGHT,
            inputs=((4, 4),),
            trap="written result",
        ),
        program(
            "sizes, which are no tensors",
            "part = self.w / self.w.size(0)\nreturn (x @ part) * self.w.size(1)",
            state=WEIGHT,
            trap="size",
        ),
        program(
            "a buffer has the name that your constant gets",
            "return x @ self.w.exp() + self.taken",
            state=WEIGHT | {"taken": "torch.rand(4)"},
            trap="taken name",
        ),
    ]


def probe(case: Case, fold_constants: Any) -> Evidence:
    """What the learner's function makes of the case's graph.

    Where a name is to be taken, the function runs once before, to learn the name that it gives a constant; the graph
    then has its buffer or parameter `taken` under that name. With `taken_too` it runs once more, for the next name.
    What has the name may be the very tensor that another name has, too: the entry `one_with` of the case says which.
    """
    name = _name_of_a_constant(build(case), fold_constants) if case.parameters["trap"] == "taken name" else None
    following, one_with = None, case.parameters.get("one_with")
    if name is not None and "taken_too" in case.parameters["state"]:
        once_more = build(case)
        _rename(once_more, "taken", name)
        following = _name_of_a_constant(once_more, fold_constants)

    results: list[Any] = []

    def fold(graph_module: fx.GraphModule) -> Any:
        if name is not None:
            _rename(graph_module, "taken", name)
        if following is not None:
            _rename(graph_module, "taken_too", following)
        tied = name if name is not None and hasattr(graph_module, name) else None
        if tied is not None and one_with is not None:
            setattr(graph_module, tied, getattr(graph_module, one_with))
        taken = {path: getattr(graph_module, path).clone() for path in (name, following) if path is not None}
        result = fold_constants(graph_module)
        overwritten.extend(path for path, value in taken.items() if not torch.equal(_tensor(result, path), value))
        results.append(result)
        if tied is not None and one_with is not None and getattr(result, tied, None) is getattr(result, one_with, None):
            _untie(result, tied)  # as the judge knows it
        if name is not None and isinstance(getattr(result, name, None), torch.nn.Parameter):
            _rename(result, name, "taken")  # as the judge knows it
        if isinstance(result, fx.GraphModule):
            in_autograd.extend(_detached(result))
        return result

    overwritten: list[Any] = []
    in_autograd: list[str] = []
    evidence = rewrite_evidence(case, fold)
    evidence.values["overwritten"] = [str(path) for path in overwritten[:1]]
    held = dict(results[0].named_buffers()) if isinstance(results[0], fx.GraphModule) else {}
    evidence.values["in autograd"] = in_autograd
    evidence.values["inference"] = [path for path, value in held.items() if value.is_inference()]
    return evidence


def _detached(graph_module: fx.GraphModule) -> list[str]:
    """The buffers that require gradients. A graph travels with none that are parameters, so these are detached."""
    found = [path for path, value in graph_module.named_buffers() if value.requires_grad]
    for path in found:
        owner, _, name = path.rpartition(".")
        buffers = graph_module.get_submodule(owner)._buffers
        buffers[name] = graph_module.get_buffer(path).detach()
    return found


def _untie(graph_module: Any, path: str) -> None:
    """Give a name that holds the tensor of another one an equal tensor of its own."""
    held = getattr(graph_module, path)
    own = held.detach().clone()
    parameter = isinstance(held, torch.nn.Parameter)
    setattr(graph_module, path, torch.nn.Parameter(own, requires_grad=held.requires_grad) if parameter else own)


def _tensor(graph_module: Any, name: Any) -> torch.Tensor:
    value = getattr(graph_module, name, None)
    return value if isinstance(value, torch.Tensor) else torch.empty(0)


def _name_of_a_constant(graph_module: fx.GraphModule, fold_constants: Any) -> str | None:
    """A name under which the function stores what it folds, if it is one that a buffer can have."""
    before = {node.target for node in graph_module.graph.nodes if node.op == "get_attr"}
    folded = fold_constants(graph_module)
    if not isinstance(folded, fx.GraphModule):
        return None
    read = (node.target for node in folded.graph.nodes if node.op == "get_attr")
    return next((name for name in read if name not in before and name.isidentifier()), None)


def _rename(graph_module: fx.GraphModule, old: str, new: str) -> None:
    """Give a buffer or parameter that a node reads another name, in module and graph; nothing, where it has it."""
    for node in graph_module.graph.nodes:
        if node.op == "get_attr" and node.target == old:
            held = getattr(graph_module, old)
            delattr(graph_module, old)
            if isinstance(held, torch.nn.Parameter):
                graph_module.register_parameter(new, held)
            else:
                graph_module.register_buffer(new, held)
            node.target = new
    graph_module.recompile()


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph before and after, and the change."""
    return show_rewrite(case, evidence)
