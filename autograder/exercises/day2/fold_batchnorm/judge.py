"""What a right folding is: the algebra, the same values, one operation less, and nothing folded that must not be."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes, module_of, own_nodes
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import Original, calls_of, once_a_case
from autograder.exercises.day2.fold_batchnorm.cases import composed, hidden_cases
from autograder.exercises.day2.fold_batchnorm.visible import HALF, held_by, parts_of, weights_in, weights_of
from autograder.exercises.day2.programs import build
from autograder.exercises.explaining import OnDemand
from autograder.exercises.graph_comparison import (
    COMMON,
    Difference,
    behaviour,
    changed_modules,
    first_difference,
    operations,
    own_behaviour,
    stale,
    unusable,
)

__all__ = ["MISCONCEPTIONS", "UNNAMED", "composed", "hidden_cases", "judge"]

MISCONCEPTIONS = COMMON | {
    "not two tensors": "`folded_weights` must return two tensors: the new weight and the new bias.",
    "fails on such weights": (
        "`folded_weights` raises an error for weights that a model may have: a convolution in groups or without a "
        "bias, a BatchNorm without gamma and beta."
    ),
    "forgot eps": "Your scale lacks `eps`: BatchNorm divides by the root of *variance plus eps*.",
    "eps outside the root": (
        "You add `eps` to the root of the variance. BatchNorm adds it to the variance, under the root: "
        "`sqrt(variance + eps)`."
    ),
    "forgot the root": "You divide by the variance: BatchNorm divides by its square root.",
    "forgot the mean": "Your bias lacks the mean: BatchNorm subtracts it before it scales.",
    "bias forgotten": (
        "The convolution's own bias is lost: what BatchNorm normalises is `w * x + bias`, so that the bias is shifted "
        "and scaled, too."
    ),
    "bias not scaled": "The old bias is part of what BatchNorm scales: your new bias takes it over as it was.",
    "gamma forgotten": "The BatchNorm has a weight (gamma) of its own, which scales the result once more.",
    "beta forgotten": "The BatchNorm has a bias (beta) of its own, which is added in the end.",
    "scaled input channels": (
        "You scaled along the wrong dimension: a convolution's weight is (out, in, height, width), BatchNorm scales "
        "output channels: dimension 0."
    ),
    "wrong algebra": "What `folded_weights` returns is not right: write down what BatchNorm does to `w * x + b`.",
    "missing weights": (
        "With a convolution without bias, or in groups, or a BatchNorm without weights of its own, your result is off: "
        "what is missing counts as 0 (a bias) or 1 (gamma)."
    ),
    "folded in training mode": (
        "You folded a BatchNorm that is in training: it normalises with the statistics of the batch, and updates the "
        "running ones. Only in evaluation is it a fixed scale and shift."
    ),
    "folded without statistics": (
        "You folded a BatchNorm that keeps no running statistics: it uses those of the batch, in evaluation as well."
    ),
    "fused what another reads": (
        "You folded into a convolution whose result another node still reads: that one now gets normalised values."
    ),
    "took the previous node": (
        "You folded into the wrong convolution: which one a BatchNorm reads says its argument, not the order of nodes."
    ),
    "changed a shared convolution": (
        "The convolution is called twice, and you changed the weights of both calls. Give the place that you fold a "
        "convolution of its own."
    ),
    "looked past an activation": (
        "You folded through an activation: BatchNorm does not read the convolution there, and ReLU does not commute "
        "with a shift."
    ),
    "moved the convolution": (
        "Your convolution stands where the BatchNorm was, and between the two the input was written: it now reads "
        "other values. Put it where the old convolution is (`graph.inserting_before(convolution)`)."
    ),
    "folded a transposed convolution": (
        "You folded into a transposed convolution. Its weight is (in, out, …): scaling dimension 0 scales inputs. "
        "Fold `nn.Conv2d` only."
    ),
    "changed the model's weights": (
        "You changed weights of the module that you were given. The model that it was traced from has the same ones: "
        "copy the convolution (`copy.deepcopy`), and change the copy. Neither may `folded_weights` write into what it "
        "is given."
    ),
    "changed what holds it": (
        "You put a module into another module of the model, or took one out. The model that the graph was traced from "
        "has the same one, and a `Sequential` runs all that it holds. Add yours to the graph module itself, under a "
        "name without a dot, and leave the old ones where they are."
    ),
    "kept the gradients": (
        "A weight that you stored is still tied to the old ones in autograd, and whoever trains with the folded graph "
        "gets an error in the second backward pass: store `weight.detach()` and `bias.detach()`."
    ),
    "overwrote a module": (
        "You stored a convolution at a path where the model already has another module, and that one is gone. Take a "
        "free name: go on while `hasattr(graph_module, name)`."
    ),
    "nothing folded": "A BatchNorm that could be folded is still there.",
    "more operations": "The BatchNorm is gone, but other operations came in its place: fold it into weight and bias.",
    "something else": "The folded graph computes something else than the original.",
}

UNNAMED = ("wrong algebra", "something else")
"""What says that an answer is not right, and names no mistake."""

CLOSE: dict[str, Any] = {"relative": 1e-3, "absolute": 1e-4}
"""How far the folded graph may be off."""


def algebra(given: dict[str, Any]) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """The folded weight and bias of what `folded_weights` is given: the right ones first, then what mistakes give."""
    weight, mean, variance, eps = given["weight"], given["mean"], given["variance"], given["eps"]
    none, one = torch.zeros_like(mean), torch.ones_like(mean)
    bias, beta = (none if given[name] is None else given[name] for name in ("bias", "beta"))
    gamma = one if given["gamma"] is None else given["gamma"]
    scale, outside = gamma / (variance + eps).sqrt(), gamma / (variance.sqrt() + eps)
    plain, squared, bare = gamma / variance.sqrt(), gamma / (variance + eps), 1 / (variance + eps).sqrt()

    def by(factor: torch.Tensor) -> torch.Tensor:
        return weight * factor.reshape(-1, 1, 1, 1)

    right = (bias - mean) * scale + beta
    tried = {
        "": (by(scale), right),
        "forgot eps": (by(plain), (bias - mean) * plain + beta),
        "eps outside the root": (by(outside), (bias - mean) * outside + beta),
        "forgot the root": (by(squared), (bias - mean) * squared + beta),
        "forgot the mean": (by(scale), bias * scale + beta),
        "bias forgotten": (by(scale), beta - mean * scale),
        "bias not scaled": (by(scale), bias - mean * scale + beta),
        "gamma forgotten": (by(bare), (bias - mean) * bare + beta),
        "beta forgotten": (by(scale), (bias - mean) * scale),
    }
    if weight.shape[0] == weight.shape[1]:
        tried["scaled input channels"] = (weight * scale.reshape(1, -1, 1, 1), right)
    return tried


def _algebra(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation]:
    """Whether the folded weights are right, with everything there and without what may be missing."""
    fits: set[str] | None = None
    wrong: dict[str, str] = {}
    for name, given in weights_of(case).items():
        if name in evidence.values["raised"]:
            continue
        found = [evidence.tensors.get(f"{what} {name}") for what in ("weight", "bias")]
        if found[0] is None or found[1] is None:
            yield "not two tensors", f"(with {name})"
            return
        tried = algebra(given)
        explained = {mistake for mistake, pair in tried.items() if all(map(_close, found, pair))}
        if "scaled input channels" not in tried:
            explained.add("scaled input channels")
        fits = explained if fits is None else fits & explained
        if "" not in explained:
            pairs = zip(("weight", "bias"), found, tried[""], strict=True)
            wrong[name] = f"(with {name}: {'; '.join(_compared(what, got, want) for what, got, want in pairs)})"
    if raised := next(iter(evidence.values["raised"].items()), None) if not wrong else None:
        yield "fails on such weights", f"(with {raised[0]}: {raised[1]})"
    if wrong:
        if {*wrong} - {HALF} and {*wrong} - {HALF} <= {*MISSING}:
            fits = {"missing weights"}
        yield Deviation("wrong algebra", tuple(sorted((fits or set()) - {""})), next(iter(wrong.values())))


MISSING = ("no bias", "no gamma", "no beta")


def _close(found: Any, wanted: torch.Tensor) -> bool:
    """Whether both are the same up to rounding, which in half precision is coarse."""
    coarse = 1.0 if wanted.dtype.itemsize > 2 else 500.0
    return agrees(found, wanted, relative=1e-4 * coarse, absolute=1e-5 * coarse)


def refused(node: fx.Node) -> str:
    """Why a BatchNorm must stay, as the misconception of who folds it; `""` where it must be folded."""
    norm, source = module_of(node), node.all_input_nodes[0]
    before = module_of(source) if source.op == "call_module" else None
    assert norm is not None
    if norm.training:
        return "folded in training mode"
    if norm.running_mean is None:
        return "folded without statistics"
    if type(before) is nn.ConvTranspose2d:
        return "folded a transposed convolution"
    if type(norm) is not nn.BatchNorm2d or type(before) not in (nn.Conv2d, nn.BatchNorm2d):
        return "looked past an activation"
    return "fused what another reads" if len(source.users) > 1 else refused(source) if _is_norm(before) else ""


def _is_norm(module: Any) -> bool:
    return isinstance(module, nn.modules.batchnorm._BatchNorm)


def solved(case: Case, mistake: str = "", way: int = 0) -> fx.GraphModule:
    """The case's graph, folded by the judge, with one of the mistakes in `MISTAKES`, made in one of two ways."""
    graph_module = copy.deepcopy(original_of(case).graph_module)
    graph, modules = graph_module.graph, dict(graph_module.named_modules(remove_duplicate=False))
    for i, node in enumerate(own_nodes(graph_module)):
        if node.op != "call_module" or not _is_norm(module_of(node)) or refused(node):
            continue
        source = node.all_input_nodes[0]
        if mistake == "took the previous node":
            source = node.prev
        conv, norm = module_of(source) if source.op == "call_module" else None, module_of(node)
        if type(conv) is not nn.Conv2d:
            continue
        assert isinstance(norm, nn.BatchNorm2d)
        if mistake == "changed a shared convolution" and way:
            conv = modules[str(source.target)]
            assert isinstance(conv, nn.Conv2d)
        given = {"weight": conv.weight, "bias": conv.bias, "mean": norm.running_mean, "variance": norm.running_var}
        weight, bias = algebra(given | {"gamma": norm.weight, "beta": norm.bias, "eps": norm.eps})[""]
        new = copy.deepcopy(conv)
        new.weight = nn.Parameter(weight.detach())
        new.bias = None if mistake == "missing weights" and conv.bias is None else nn.Parameter(bias.detach())
        path = str(source.target) if mistake == "changed a shared convolution" else f"folded_by_the_judge_{i}"
        graph_module.add_submodule(path, new)
        with graph.inserting_before(node if mistake == "moved the convolution" else source):
            call = graph.call_module(path, source.args, source.kwargs)
        node.replace_all_uses_with(call)
        graph.erase_node(node)
        if mistake == "took the previous node" and way:
            source.replace_all_uses_with(call)
        if not source.users:
            graph.erase_node(source)
    graph_module.recompile()
    return graph_module


MISTAKES = ("took the previous node", "moved the convolution", "missing weights", "changed a shared convolution")
"""Mistakes of who folds what may be folded."""


@once_a_case
def original_of(case: Case) -> Original:
    """The case's graph and what it does, with other values, other batches, and gradients with respect to inputs."""
    graph_module = build(case)
    calls = calls_of(case, batches=case.parameters.get("batches", ()), special=False)
    return Original(graph_module, calls, own_behaviour(graph_module, calls))


@once_a_case
def _mistaken(case: Case) -> Mapping[str, list[dict[str, Any]]]:
    """What a caller sees of what each of these mistakes makes; nothing, where it may be what is right."""
    known = original_of(case)

    def made(name: str) -> list[dict[str, Any]]:
        ways = [own_behaviour(solved(case, name, way), known.calls) for way in (0, 1)]
        return ways if all(_differs(case, known.behaviour, one) for one in ways) else []

    return OnDemand(MISTAKES, made)


def _shown(case: Case, names: Collection[str]) -> list[str]:
    """Which of some mistakes show in this case."""
    return [name for name in names if _mistaken(case)[name]]


def _differs(case: Case, wanted: dict[str, Any], found: dict[str, Any]) -> Difference | None:
    """The first difference; of state what the graph may write, of gradients those of inputs."""
    buffers = dict(original_of(case).graph_module.named_buffers())
    compared = []
    for seen in (wanted, found):
        calls = [
            call | {"state": {name: value for name, value in call["state"].items() if name in buffers}}
            if "state" in call
            else call
            for call in seen["calls"]
        ]
        gradients = seen["gradients"]
        if "gradients" in gradients:
            of_inputs = {name: value for name, value in gradients["gradients"].items() if name.startswith("input ")}
            gradients = {"trained": [], "gradients": of_inputs}
        compared.append(seen | {"calls": calls, "gradients": gradients})
    before, after = compared
    return first_difference(before, after, **CLOSE)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """The algebra, then which BatchNorms are gone, what the rewritten graph computes, and its structure."""
    if problems := list(_algebra(case, evidence)):
        yield from problems
        return
    yield Agreement("wrong algebra", ())
    held = evidence.values["held"]
    for path, names in held_by(parts_of(case)).items():
        if held.get(path) != names:
            yield "changed what holds it", f"({path!r} held {', '.join(names)}; now {', '.join(held.get(path, []))})"
            return
    if problem := unusable(evidence):
        yield problem
        return
    if overwritten := evidence.values["overwritten"]:
        yield "overwrote a module", f"(at the path {overwritten[0]!r})"
        return
    original, theirs = original_of(case).graph_module, decode(evidence.graphs["graph"])
    size = len(own_nodes(original))
    reasons: dict[str, set[str]] = {}
    for node in _norms(original):
        reasons.setdefault(str(node.target), set()).add(refused(node))
    left = Counter(str(node.target) for node in _norms(theirs))
    must = Counter(str(node.target) for node in _norms(original) if refused(node))
    found = behaviour(theirs, original_of(case).calls)
    different = _differs(case, original_of(case).behaviour, found)
    if (changed := changed_modules(original, theirs)) and changed.kind == "training mode":
        yield "changed the model", f"({changed})"
        return
    for path in must - left:
        why = reasons[path] - {""}
        # A layer that is called twice may be folded twice, for each call by itself.
        if different and len(why) == 1:
            yield next(iter(why)), f"(the BatchNorm {path!r}; {different})"
            return
    if different:
        before, after = (_kinds(graph) for graph in (original, theirs))
        for path in sorted(before.keys() & after.keys()):
            if before[path] != after[path] or (path in _untouched(original) and _other_weights(original, theirs, path)):
                yield "overwrote a module", f"(at the path {path!r}; {different})"
                return
        fits = tuple(
            name for name, seen in _mistaken(case).items() if not all(_differs(case, one, found) for one in seen)
        )
        yield Deviation("something else", fits, f"({different})", size)
        return
    yield Agreement("something else", partial(_shown, case))
    for name, weight in weights_in(parts_of(case)).items():
        if not agrees(evidence.tensors.get(f"kept {name}"), weight):
            yield "changed the model's weights", f"({name!r})"
            return
    if kept := evidence.values["in autograd"]:
        yield "kept the gradients", f"({', '.join(map(str, kept))})"
        return
    shared = {path for path, count in Counter(_called(original)).items() if count > 1}
    able = [
        node for node in _norms(original) if not refused(node) and str(node.all_input_nodes[0].target) not in shared
    ]
    wanted = len(_norms(original)) - len(able)
    if left.total() > wanted:
        yield "nothing folded", f"(BatchNorms left: {left.total()}, of which {wanted} may stay)"
        return
    if operations(theirs) > operations(original) - (len(_norms(original)) - left.total()):
        yield "more operations", f"({operations(original)} before, {operations(theirs)} after)"
        return
    if problem := stale(evidence, theirs):
        yield problem


def _norms(graph_module: fx.GraphModule) -> list[fx.Node]:
    """The calls that normalise a batch."""
    return [node for node in all_nodes(graph_module) if node.op == "call_module" and _is_norm(module_of(node))]


def _called(graph_module: fx.GraphModule) -> list[str]:
    return [str(node.target) for node in all_nodes(graph_module) if node.op == "call_module"]


def _kinds(graph_module: fx.GraphModule) -> dict[str, str]:
    return {str(n.target): type(module_of(n)).__name__ for n in all_nodes(graph_module) if n.op == "call_module"}


def _untouched(graph_module: fx.GraphModule) -> set[str]:
    """Paths of convolutions that no BatchNorm reads."""
    read = {str(node.all_input_nodes[0].target) for node in _norms(graph_module)}
    return set(_called(graph_module)) - read


def _other_weights(original: fx.GraphModule, theirs: fx.GraphModule, path: str) -> bool:
    one, other = (getattr(graph.get_submodule(path), "weight", None) for graph in (original, theirs))
    return isinstance(one, torch.Tensor) and not agrees(other, one.detach())


def _compared(name: str, found: Any, wanted: torch.Tensor) -> str:
    """In words how a folded weight or bias differs from the right one: found and expected at the worst place."""
    if _close(found, wanted):
        return f"the {name} is right"
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        described = [f"{tuple(value.shape)} of {value.dtype}" for value in (found, wanted)]
        return f"the {name} has shape {described[0]}, expected {described[1]}"
    distance = (found - wanted).abs().nan_to_num(nan=torch.inf)
    place = tuple(int(i) for i in torch.unravel_index(distance.argmax(), wanted.shape))
    where = f"channel {place[0]}" + (f", at {place}" if len(place) > 1 else "")
    return f"the {name} of {where}: found {found[place].item():.4f}, expected {wanted[place].item():.4f}"
