"""What is constant is folded, and nothing else: the graph does the same, at every call and after a training step."""

from __future__ import annotations

import copy
import operator
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import DRAWS, PURE, WRITES, Composer, once_a_case, original_of, written_cases
from autograder.exercises.day2.programs import inputs_of
from autograder.exercises.graph_comparison import (
    COMMON,
    behaviour,
    changed_modules,
    first_difference,
    own_behaviour,
    stale,
    unusable,
)
from autograder.exercises.seen_effects import Seen, seen_effects
from fxopt_core.graphs import is_operation, operation_name

MISCONCEPTIONS = COMMON | {
    "froze a draw": (
        "You folded a random draw: it now gives the same numbers at every call, and the random stream no longer moves."
    ),
    "folded a written buffer": (
        "You folded a value that is computed from a buffer which the graph itself writes: at the next call the buffer "
        "holds something else."
    ),
    "folded in training mode": (
        "You folded a parameter of a module in training: the optimiser will change it, and your constant will not know."
    ),
    "returned the constant itself": (
        "You fold a value that is returned: the caller gets the stored tensor itself, and what the caller writes into "
        "it stands in all later results."
    ),
    "folded what is written": (
        "You folded a value into which the graph writes afterwards: it now writes into the stored constant, and each "
        "call starts where the last one ended."
    ),
    "lost an argument": "Your constant was computed with other arguments than the node has, keywords included.",
    "overwrote a buffer": (
        "You stored a constant under a name that the model has already given to a buffer of its own, and that buffer "
        "is gone, without an error. Take a name that is free: go on while `hasattr(graph_module, name)`."
    ),
    "one name for two constants": "Two constants were stored under one name: the second has replaced the first.",
    "spared parameters": "In evaluation parameters do not change either: what depends on them alone can be folded.",
    "spared modules": "A module in evaluation that reads constants alone gives a constant: fold it, too.",
    "spared buffers": (
        "In training parameters change, but buffers do not, unless the graph writes them: what depends on buffers "
        "alone can be folded there, too."
    ),
    "stored a parameter": (
        "You stored a constant as a parameter: the optimiser would train it. Use `register_buffer`."
    ),
    "stored no buffer": (
        "You stored a constant as a plain attribute: it neither moves with the module to another device nor is it "
        "saved. Use `register_buffer`."
    ),
    "kept the gradients": (
        "A constant that you stored still requires gradients, and keeps alive the whole graph of autograd behind it: "
        "compute constants under `torch.no_grad()`."
    ),
    "stored an inference tensor": (
        "You computed a constant under `torch.inference_mode()`: such a tensor can take no part in a backward pass, "
        "and whoever trains what comes after it gets an error. `torch.no_grad()` is enough."
    ),
    "folded an effect": (
        "You folded something that has an effect besides its value, an assertion say: it must happen at every call."
    ),
    "folded across a switch": (
        "You folded an operation behind a switch of the mode (autocast), and computed its value outside of that mode: "
        "there it has another dtype."
    ),
    "folded too little": "An operation is left that reads nothing but constants, and could be computed beforehand.",
    "stopped halfway": (
        "An operation is left that reads nothing but constants: what was folded is a constant to its readers."
    ),
    "something else": "The folded graph computes something else than the original.",
}

UNNAMED = ("something else", "folded too little")

BY_TRAP = {
    "written buffer": "folded a written buffer",
    "training": "folded in training mode",
    "returned": "returned the constant itself",
    "written result": "folded what is written",
    "two": "lost an argument",
    "switch": "folded across a switch",
}
"""Which mistake a case is there for: where the case is right, the mistake is not made."""

WRONG = tuple(BY_TRAP.values())
"""Mistakes that fold too much, or something else."""

TOO_LITTLE = ("spared parameters", "spared modules", "spared buffers", "stopped halfway")
"""Mistakes that fold too little."""

AUTOCAST = 'm = torch.amp.autocast_mode._enter_autocast("cpu", torch.bfloat16, True, False)'
FORKS = "\n".join(f"a{i + 1} = torch.sin(a{i}) + torch.cos(a{i})" for i in range(20))
WEIGHT = {"w": "torch.rand(4, 4)", "v": "torch.rand(4, 4)"}
PARAMETER = WEIGHT | {"p": "nn.Parameter(torch.rand(4, 4))"}
LAYERS = WEIGHT | {"layer": "nn.Linear(4, 4)", "drop": "nn.Dropout(0.5)", "norm": "nn.BatchNorm1d(4)"}

FIXED = f"""
== attributes in modules: chain
a = self.block[0].weight.t() * 2
b = self.block[1].weight.abs()
return x @ a - b

== a constant of every kind: chain
a = torch.cat([self.w, self.v], dim=1)[:, 2:6]
b = torch.where(self.v > 0.5, self.w, -0.0)
c = self.w.masked_fill(self.v > 0.5, float("nan"))
d = torch.stack([self.w, self.v])[1]
e = self.w.to(torch.float64)
f = torch.clamp(self.w, max=0.7, min=0.2)
return x @ a - b, c, x @ d, torch.sub(x, e), x - f

== signs of zero: chain
c = self.w * -0.0
d = self.w * 0.0
return torch.atan2(x * 0.0, c), torch.atan2(x * 0.0, d)

== keywords and defaults: two
a = torch.sum(self.w, dim=1, keepdim=True)
b = torch.sub(self.w, self.v, alpha=3)
c = F.softmax(input=self.w, dim=0)
return x + a - b * c

== whole numbers: chain
a = self.n * 2 + 1
return x[a], torch.sub(x, a.float())

== sizes of an input: sizes
n = x.size(0)
a = self.w * 2
return a.sum() * n, x.reshape(n * self.w.size(0))

== sizes that shape: sizes
return x.reshape(self.w.size(1), -1, self.w.shape[0]).sum(dim=0) * self.w.sum()

== parts of a result: sizes
a, b = torch.split(self.w, 2, dim=1)
c = torch.max(self.w, dim=0)
return x[:, :2] * a - b + c[0][:2]

== weights that are returned: returned
a = self.w * 2
return self.w, x @ a

== a view of a weight is returned: returned
a = self.w.sin()
return self.w.t(), x @ a, self.v

== a constant that is returned in a list: returned
a = self.w.sin()
b = a.cos()
return {{'a': [a], 'x': x @ b}}

== a view of a constant is returned: returned
a = self.w.sin()
return x @ self.v.cos(), a.view(-1)[1:]

== what is written through a view: written result
a = self.w.sin()
b = a.t()[1:]
b.add_(1.0)
return x @ a

== what is written by a flag: written result
a = self.w - 0.5
F.relu(a, inplace=True)
b = self.w - 0.5
self.act(b)
c = self.v.sin()
torch.add(c, 1.0, out=c)
return x @ a - b + c

== a buffer that is written: written buffer
a = self.w.sin()
self.w.add_(0.25)
b = self.w.cos()
return x @ a - b, x - self.v.sin()

== a buffer that is written behind a view: written buffer
a = self.w.sum(dim=0)
self.w[1].mul_(0.5)
return x @ self.v.sin() + a

== a buffer that another name has, too: written buffer
a = self.w.sin()
self.tied.add_(0.25)
return x @ a

== an input that is written: written input
a = self.w.sin()
b = torch.neg(x)
b.add_(a)
x.add_(a)
return b

== draws: draws
a = F.dropout(self.w, 0.5, True)
b = torch.bernoulli(self.w)
c = F.dropout(self.v, 0.5, False)
d = self.drop(self.v)
return x @ a - b + c - d

== draws of a module: draws
return x @ self.drop(self.w)

== draws that read nothing: draws
return x + torch.rand(4, 4) * self.w.sin()

== what reads nothing: creations
return x * torch.ones(4, 4) + torch.arange(4) * self.w.sin()

== a check of a constant: effects
a = self.w.sum() > 0
torch._assert(a, 'weights')
return x @ self.w.sin()

== statistics of constants: effects
return x @ self.norm(self.w)

== autocast: switch
a = self.w.sin()
{AUTOCAST}
b = self.w @ self.v
torch.amp.autocast_mode._exit_autocast(m)
return x @ a, b.float() + x

== without gradients for a while: gradients
a = self.w.sin()
torch._C._set_grad_enabled(False)
b = x @ a
torch._C._set_grad_enabled(True)
return b * x

== parameters in training: training
a = self.p.sin() * self.w
b = self.w.cos()
return x @ a - b

== layers in training: training
return x @ self.layer(self.w) + self.v.sin()

== parameters and buffers in evaluation: parameters
a = self.p.sin() * self.w
b = self.layer.weight.t() @ a
return x @ b

== layers in evaluation: modules
a = self.norm(self.layer(self.w))
return x @ self.drop(a).sin()

== layers of other modes: modules
a = self.norm(self.w)
return x @ a.sin()

== many forks: chain
a0 = self.w
{FORKS}
return x @ a20

== one constant, many readers: chain
a = self.w.sin()
b = a.cos()
return x @ a + b, x - b, b * x.sin() + a

== a name that is taken: taken name
c = self.w.exp().sin()
return x @ c - self.taken

== the weight itself: nothing
return x @ self.w + self.v

== nothing to compute: nothing
return x

== no rows: chain
a = self.w[:0].sin()
return x.sum() + a.sum(), a + x

== double precision: chain
a = self.w.double().exp()
return x @ a
"""
"""Name, trap and lines of a case for each class, the same for every seed."""

MORE: dict[str, dict[str, Any]] = {
    "a name that is taken": {"state": WEIGHT | {"taken": "torch.rand(4)"}},
    "attributes in modules": {"state": {"block": "nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4))"}},
    "whole numbers": {"state": {"n": "torch.tensor([0, 1, 0, 1])"}, "inputs": ([4],)},
    "what is written by a flag": {"state": WEIGHT | {"act": "nn.ReLU(inplace=True)"}},
    "a buffer that another name has, too": {"state": WEIGHT | {"tied": "self.w.t()"}},
    "draws": {"state": LAYERS},
    "draws of a module": {"state": LAYERS, "modes": {"drop": True}},
    "statistics of constants": {"state": LAYERS, "modes": {"norm": True}},
    "parameters in training": {"state": PARAMETER, "training": True},
    "layers in training": {"state": LAYERS, "training": True},
    "parameters and buffers in evaluation": {"state": PARAMETER | LAYERS},
    "layers in evaluation": {"state": LAYERS},
    "layers of other modes": {"state": LAYERS, "training": True, "modes": {"norm": False}},
    "sizes of an input": {"batches": [2, 1]},
    "no rows": {"inputs": ([0, 4],)},
    "double precision": {"inputs": (([4, 4], "float64"),)},
}
"""Further entries of these cases."""


def hidden_cases(random: Random) -> list[Case]:
    """A case for each class, then programs in which constants, draws, writes and inputs are mixed."""
    more = {name: {"state": WEIGHT} | given for name, given in MORE.items()}
    names = [line.removeprefix("== ").rpartition(": ")[0] for line in FIXED.splitlines() if line.startswith("== ")]
    fixed = written_cases(FIXED, {name: more.get(name, {"state": WEIGHT}) for name in names})
    return fixed + [composed(random, number) for number in range(4)]


def composed(random: Random, number: int = 0) -> Case:
    """A random program that computes from weights and from its input, with draws and writes in either."""
    composer = Composer(random)
    composer.state |= PARAMETER
    composer.values += ["self.w", "self.v", "self.p"]
    for _ in range(random.randint(7, 11)):
        kind = random.random()
        if kind < 0.12:
            composer.do(composer.fill(WRITES, composer.let(f"torch.sin({composer.pick()})")))
        elif kind < 0.2:
            composer.let(composer.fill(DRAWS))
        else:
            first = random.choice(["self.w", "self.v", "self.p", None])
            composer.let(composer.fill(PURE, first))
    if random.random() < 0.3:
        composer.do("self.v.mul_(0.5)")
    results = [value for value in composer.values if not value.startswith("self.")]
    return composer.case(
        f"hidden mixture {number}",
        f"{random.choice(results)}, {' + '.join(results[-7:])}, x * 2",
        training=random.random() < 0.4,
        trap="mixture",
    )


def trained(graph_module: fx.GraphModule) -> fx.GraphModule:
    """A copy after what might be a training step: every parameter that is still there has another value."""
    copied = copy.deepcopy(graph_module)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(0.5)
    return copied


@once_a_case
def _seen(case: Case) -> dict[fx.Node, Seen]:
    return seen_effects(original_of(case).graph_module, inputs_of(case, 11))


def constants(case: Case, *mistakes: str) -> dict[fx.Node, Any]:
    """The nodes whose value never changes, with their values, where these mistakes are made."""
    graph_module, seen = copy.deepcopy(original_of(case).graph_module), list(_seen(case).values())
    nodes = list(graph_module.graph.nodes)
    does = dict(zip(nodes, seen, strict=True))
    held = frozenset(tensor.untyped_storage()._cdata for tensor in _state(original_of(case).graph_module))
    inputs = frozenset(place for node in nodes if node.op == "placeholder" for place in does[node].value)
    written = frozenset(place for node in nodes for place in does[node].wrote)
    # Seen on a copy: which of its storages are attributes say the nodes that read them.
    attributes = held | {place for node in nodes if node.op == "get_attr" for place in does[node].value}
    if written & inputs or any(does[node].unknown for node in nodes):
        written |= attributes
    returned = _handed_on(nodes, does)
    found: dict[fx.Node, Any] = {}
    interpreter = fx.Interpreter(graph_module, garbage_collect_values=False)
    for node in nodes:
        effects = does[node]
        if (effects.switched or effects.unknown) and "folded across a switch" not in mistakes:
            break
        if _is_constant(node, effects, written, returned, found, graph_module, mistakes):
            interpreter.env = dict(found)
            with torch.no_grad():
                try:
                    value = _without_keywords(node, found) if _loses(node, mistakes) else interpreter.run_node(node)
                except Exception:  # without its keywords this call cannot be made
                    value = interpreter.run_node(node)
                found[node] = value
    originals = dict(zip(nodes, original_of(case).graph_module.graph.nodes, strict=True))
    return {originals[node]: value for node, value in found.items()}


_JOINS = (operator.add, operator.mul, operator.iadd, operator.getitem)
_MAY_BE_VIEWS = frozenset({"to", "reshape", "contiguous", "flatten", "float", "double", "type"})


def _handed_on(nodes: list[fx.Node], does: dict[fx.Node, Seen]) -> set[fx.Node]:
    """The nodes whose memory the caller may get, as careful as who knows no shapes: `a + b` might join two lists."""
    found: set[fx.Node] = set()
    pending = list(nodes[-1].all_input_nodes)
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            careful = node.target in _JOINS or node.target in _MAY_BE_VIEWS
            pending += [source for source in node.all_input_nodes if careful or does[source].value & does[node].value]
    return found


def _loses(node: fx.Node, mistakes: tuple[str, ...]) -> bool:
    return "lost an argument" in mistakes and node.op in ("call_function", "call_method") and bool(node.kwargs)


def _without_keywords(node: fx.Node, found: dict[fx.Node, Any]) -> Any:
    first, *others = fx.node.map_arg(node.args, found.__getitem__) or (None,)
    if isinstance(node.target, str):
        return getattr(first, node.target)(*others)
    return node.target(first, *others)


def _is_constant(
    node: fx.Node,
    effects: Seen,
    written: frozenset[int],
    returned: set[fx.Node],
    found: dict[fx.Node, Any],
    graph_module: fx.GraphModule,
    mistakes: tuple[str, ...],
) -> bool:
    training = graph_module.training and "folded in training mode" not in mistakes
    rule = "folded a written buffer" if node.op == "get_attr" else "folded what is written"
    if effects.value & written and rule not in mistakes:
        return False
    if node in returned and "returned the constant itself" not in mistakes:
        return False
    if node.op == "get_attr":
        parameter = isinstance(fx.Interpreter(graph_module).fetch_attr(str(node.target)), nn.Parameter)
        spared = (parameter and "spared parameters" in mistakes) or (
            graph_module.training and "spared buffers" in mistakes
        )
        return not spared and not (training and parameter)
    if not node.op.startswith("call") or not node.all_input_nodes or effects.acts:
        return False
    if node.op == "call_module" and (training or "spared modules" in mistakes):
        return False
    if "stopped halfway" in mistakes and any(source.op != "get_attr" for source in node.all_input_nodes):
        return False
    return all(source in found for source in node.all_input_nodes)


def _state(graph_module: fx.GraphModule) -> list[torch.Tensor]:
    return [*graph_module.parameters(), *graph_module.buffers()]


def solved(case: Case, *mistakes: str) -> fx.GraphModule:
    """The case's graph, folded by the judge, with these mistakes."""
    known = constants(case, *mistakes)
    copied = copy.deepcopy(original_of(case).graph_module)
    twins = dict(zip(original_of(case).graph_module.graph.nodes, copied.graph.nodes, strict=True))
    for number, (node, value) in enumerate(known.items()):
        if node.op == "get_attr" or not isinstance(value, torch.Tensor):
            continue
        name = f"folded_{number}_by_the_judge"
        copied.register_buffer(name, value.detach())
        with copied.graph.inserting_before(twins[node]):
            twins[node].replace_all_uses_with(copied.graph.get_attr(name))
    for node in reversed([twins[node] for node in known]):
        if not node.users:
            copied.graph.erase_node(node)
    copied.graph.lint()
    copied.recompile()
    return copied


Counted = Counter[tuple[str, Any]]


def _counted(graph_module: fx.GraphModule) -> Counted:
    return Counter((node.op, node.target) for node in all_nodes(graph_module) if is_operation(node))


def _left(case: Case, *mistakes: str) -> Counted:
    """What a folding leaves that folds every tensor, and nothing that is computed from sizes and other values."""
    known = constants(case, *mistakes)
    plain: set[fx.Node] = set()
    for node, value in known.items():
        if isinstance(value, torch.Tensor) and all(source in plain for source in node.all_input_nodes):
            plain.add(node)
    nodes = original_of(case).graph_module.graph.nodes
    return Counter((node.op, node.target) for node in nodes if is_operation(node) and node not in plain)


@once_a_case
def _most(case: Case) -> Counted:
    return _left(case)


@once_a_case
def _too_little(case: Case) -> dict[str, Counted]:
    """What is left by the mistakes that fold too little, where it is more than needed."""
    left = {name: _left(case, name) for name in TOO_LITTLE}
    return {name: found for name, found in left.items() if found != _most(case)}


@once_a_case
def _stored(case: Case) -> int:
    """How many constants are read in the end."""
    return sum("by_the_judge" in str(node.target) for node in solved(case).graph.nodes)


def _trained(case: Case, graph_module: fx.GraphModule) -> dict[str, Any]:
    calls = original_of(case).calls
    return own_behaviour(trained(graph_module), type(calls)(calls.inputs[:1]))


@once_a_case
def _after_training(case: Case) -> dict[str, Any]:
    return _trained(case, original_of(case).graph_module)


@once_a_case
def _too_much(case: Case) -> dict[str, dict[str, Any]]:
    """What a caller sees of what the other mistakes make, where it is something else."""
    original = original_of(case)
    seen = {name: own_behaviour(solved(case, name), original.calls) for name in WRONG}
    for found in seen.values():
        for call in found["calls"]:
            # How an answer calls its constants is its own affair, written or not.
            call["state"] = {name: value for name, value in call["state"].items() if "by_the_judge" not in name}
    return {name: found for name, found in seen.items() if _differs(original.behaviour, found)}


@once_a_case
def _shows(case: Case) -> bool:
    """Whether the mistake that the case is there for makes a difference in it."""
    name, right = BY_TRAP.get(case.parameters["trap"]), original_of(case)
    return name is not None and bool(_differs(right.behaviour, own_behaviour(solved(case, name), right.calls)))


def _differs(wanted: dict[str, Any], found: dict[str, Any]) -> Any:
    """The first difference; gradients count with respect to inputs: parameters in evaluation need none."""
    return first_difference(_of_inputs(wanted), _of_inputs(found))


def _of_inputs(seen: dict[str, Any]) -> dict[str, Any]:
    gradients = seen["gradients"]
    if "gradients" in gradients:
        of_inputs = {name: value for name, value in gradients["gradients"].items() if name.startswith("input ")}
        gradients = {"trained": [], "gradients": of_inputs}
    return seen | {"gradients": gradients}


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What must not have been folded, then what should have been, then how constants are stored."""
    if problem := unusable(evidence):
        yield problem
        return
    original, theirs = original_of(case), decode(evidence.graphs["graph"])
    size, counted = len(original.graph_module.graph.nodes), _counted(theirs)
    acting = {node: seen for node, seen in _seen(case).items() if seen.acts}
    if missing := Counter((node.op, node.target) for node in acting) - counted:
        kinds = {seen.kind for node, seen in acting.items() if (node.op, node.target) in missing}
        gone = ", ".join(operation_name(node) for node in acting if (node.op, node.target) in missing)
        yield ("froze a draw" if kinds == {"draw"} else "folded an effect"), f"(expected to stay: {gone})"
        return
    if evidence.values.get("overwritten"):
        yield "overwrote a buffer", f"({evidence.values['overwritten']})"
        return
    after = trained(theirs)
    found = behaviour(theirs, original.calls)
    if different := _differs(original.behaviour, found):
        new = [str(node.target) for node in all_nodes(theirs) if node.op == "get_attr"]
        new = [name for name in new if name not in dict(original.graph_module.named_buffers(remove_duplicate=False))]
        new = [name for name in new if name not in dict(original.graph_module.named_parameters())]
        if len(new) > 1 and len(set(new)) == 1 and _stored(case) > 1:
            yield "one name for two constants", f"({new[0]}, {different})"
            return
        fits = tuple(name for name, seen in _too_much(case).items() if not _differs(seen, found))
        yield Deviation("something else", fits, f"({different})", size)
        return
    if case.parameters["training"] and (
        different := first_difference(_after_training(case), _trained_there(case, after))
    ):
        yield "folded in training mode", f"(after a training step {different})"
        return
    if _shows(case):
        yield Agreement("something else", (BY_TRAP[case.parameters["trap"]],))
    left = counted.total()
    if left > _most(case).total():
        fits = tuple(name for name, other in _too_little(case).items() if other == counted)
        figures = f"({left} operations left, {_most(case).total()} are needed)"
        yield Deviation("folded too little", fits, figures, size)
        return
    yield Agreement("folded too little", tuple(_too_little(case)))
    yield from _storing(evidence, original.graph_module, theirs)
    if problem := stale(evidence, theirs):
        yield problem


def _trained_there(case: Case, theirs: fx.GraphModule) -> dict[str, Any]:
    calls = original_of(case).calls
    return behaviour(theirs, type(calls)(calls.inputs[:1]))


def _storing(evidence: Evidence, original: fx.GraphModule, theirs: fx.GraphModule) -> Iterator[tuple[str, str]]:
    """What is wrong with the way in which constants are stored."""
    if changed := changed_modules(original, theirs):
        yield ("stored a parameter" if changed.kind == "parameters" else "changed the model"), f"({changed})"
        return
    known = {str(node.target) for node in all_nodes(original) if node.op == "get_attr"}
    buffers = dict(theirs.named_buffers(remove_duplicate=False))
    new = {str(node.target) for node in all_nodes(theirs) if node.op == "get_attr"} - known
    parameters = dict(theirs.named_parameters(remove_duplicate=False))
    if plain := new - set(buffers) - set(parameters):
        yield "stored no buffer", f"({', '.join(sorted(plain))})"
    elif kept := evidence.values.get("in autograd"):
        yield "kept the gradients", f"({', '.join(map(str, kept))})"
    elif inference := evidence.values.get("inference"):
        yield "stored an inference tensor", f"({', '.join(map(str, inference))})"
