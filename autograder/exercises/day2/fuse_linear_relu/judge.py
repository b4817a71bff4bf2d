"""What a right fusion is: one operator for each legal pair, for every batch, and after every training step."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes, module_of
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import Composer, calls_of, once_a_case, written_cases
from autograder.exercises.day2.fuse_linear_relu.visible import as_recorded
from autograder.exercises.day2.programs import build, inputs_of, program
from autograder.exercises.graph_comparison import (
    COMMON,
    behaviour,
    changed_modules,
    first_difference,
    own_behaviour,
    same,
    stale,
    unusable,
)
from fxopt_core.graphs import operation_name

FUSED = torch.ops.aten._addmm_activation.default
LAYERS, ACTIVATIONS = ("Linear", "linear"), ("relu", "ReLU")
SPELLINGS = (*ACTIVATIONS, "relu_", "method:relu", "method:relu_")
"""Of a ReLU, those that need not be fused included."""

MISCONCEPTIONS = COMMON | {
    "fused what another reads": (
        "You fused a layer whose result another node still reads, or which is returned: that one now gets the value "
        "after the ReLU, or nothing."
    ),
    "computed the layer twice": (
        "You fused a layer whose result somebody else reads. That reader still needs the layer, so it is now computed "
        "twice: leave this layer alone."
    ),
    "three dimensions": (
        "You fused a layer whose input is no matrix there: `_addmm_activation` multiplies matrices only. How many "
        "dimensions there are can change inside the graph; the example inputs tell it of each value."
    ),
    "another activation": "You fused an activation that is no ReLU: the operator would compute another function.",
    "hard-coded a shape": (
        "With another batch size your graph fails, or computes something else: a size of the example got into it."
    ),
    "froze the weights": (
        "After a training step your graph still computes with the old weights: it must read the parameters of the "
        "layer, not copies."
    ),
    "fused without a bias": (
        "You fused a layer that has no bias. The operator adds one, which is more work, not less: leave this layer "
        "alone."
    ),
    "lost the bias": "Without the bias the layer is another one: it is the first argument of the operator.",
    "weights not transposed": (
        "A linear layer multiplies with its weight transposed: `x @ weight.t() + bias`. With a square weight nothing "
        "fails, and the result is wrong."
    ),
    "read the input too late": (
        "Your operator stands where the ReLU was, and between the layer and the ReLU the layer's input was written: it "
        "now reads other values. Put it where the layer is."
    ),
    "ran the model itself": (
        "To learn the dimensions you ran the graph module itself: its buffers are no longer what they were. Run a copy "
        "(`copy.deepcopy`)."
    ),
    "only one form": "A ReLU can be a function or a module; one of the two is still there behind its layer.",
    "second of a row": (
        "Of two layers in a row, each with its ReLU, only the first became one operator: the second reads a node that "
        "you made, and you know no dimensions of it. Keep what you learnt of the ReLU that stood there."
    ),
    "first paths only": (
        "You left a layer or a ReLU whose module lies at two paths. `named_modules()` names each module once, by the "
        "first of its paths. `graph_module.get_submodule(node.target)` finds it by either."
    ),
    "nothing fused": "A layer with a ReLU behind it, which could be fused, is still two nodes.",
    "left the old nodes": "The operator is there, but so are the nodes that it stands for: erase them.",
    "something else": "The fused graph computes something else than the original.",
}

UNNAMED = ("something else", "nothing fused")

LINEAR = {"one": "nn.Linear(4, 4)", "two": "nn.Linear(4, 4)", "act": "nn.ReLU()"}

FIXED = """
== keywords: plain
h = torch.relu(input=self.one(input=x))
return self.act(input=self.two(h)).sum(dim=0)

== a leaky ReLU: others
h = self.leaky(self.one(x))
g = F.leaky_relu(self.two(h), 0.0)
return torch.relu(self.one(g)) - self.six(self.two(g))

== misleading names: others
return self.relu(self.one(x)) + self.linear(self.two(x)) - torch.relu(self.identity(x))

== a ReLU behind something else: others
a = torch.relu(torch.sin(x)) + self.act(x.neg()) - torch.relu(self.still(x))
return self.act(self.norm(a)), torch.relu(self.one(a))

== an input called like a layer: others
return torch.relu(one) - torch.relu(self.one(x))

== other activations, as methods: others
h = self.one(x).tanh()
g = self.two(h).sigmoid()
return torch.relu(self.one(g)) - self.two(g).abs()

== other activations, as functions: others
h = self.one(x).tanh()
g = self.two(h).sigmoid()
return torch.relu(self.one(g)) - self.two(g).abs()

== a layer that nobody reads: others
self.one(x)
return torch.relu(self.two(x))

== fewer dimensions inside: dimensions
h = x.reshape(-1, 4)
return torch.relu(self.one(h)), torch.relu(self.two(x))

== more dimensions inside: dimensions
h = self.act(self.one(x))
return torch.relu(self.two(h[None])), torch.relu(self.two(h)), torch.relu(self.two(h[0]))

== one dimension: dimensions
return torch.relu(self.one(x))

== the input is written in between: written
h = x * 2
g = self.one(h)
h.mul_(3.0)
return torch.relu(g) - h

== the input is written through a view: written
h = x * 2
g = self.two(h)
h.t()[1].zero_()
return self.act(g) - h

== the layer is written: read twice
g = self.one(x)
g.add_(1.0)
return torch.relu(g)

== the layer is read in a list: read twice
g = self.one(x)
return torch.relu(g), torch.cat([g, g]), {"g": [torch.relu(self.two(x))]}

== one layer, read by two ReLUs: read twice
g = self.one(x)
return torch.relu(g) * 2 - self.act(g), torch.relu(self.two(x))

== a ReLU that several read: plain
g = torch.relu(self.one(x))
return g, g.sum(), self.act(self.two(g)) + g

== a layer called in both ways: shared
a = torch.relu(self.one(x))
b = torch.tanh(self.one(a))
return a, b, self.act(self.one(b))

== tied weights: plain
return torch.relu(self.one(x)) - self.act(self.same(x * 2))

== one layer at two paths: plain
return torch.relu(self.one(x)) - torch.relu(self.one(x * 2))

== one ReLU at two paths: plain
return self.act(self.one(x)) - self.act(self.two(x))

== layers in blocks: plain
return self.block[1](self.block[0](x)) - self.block[3](self.block[2](x))

== state that looking would change: state
self.calls.add_(1.0)
h = self.norm(x * self.calls)
return torch.relu(self.one(h)) - self.calls

== a draw beside it: plain
h = F.dropout(x, 0.5, True)
return torch.relu(self.one(h)) + torch.rand_like(x)

== training, no bias: others
return torch.relu(self.bare(x)) - torch.relu(self.one(x))

== double precision: plain
return torch.relu(self.wide(x))

== one column: plain
return torch.relu(self.thin(x)) - torch.relu(self.flat(x))

== other spellings: optional
return F.relu(self.one(x)) + self.two(x).relu() + torch.relu_(self.one(x)) + torch.relu(self.two(x))

== no activation: others
return self.two(self.one(x)), torch.relu(x)

== nothing: nothing
return x
"""
"""Name, trap and lines of a case for each class, the same for every seed."""

MORE: dict[str, dict[str, Any]] = {
    "a leaky ReLU": {"state": LINEAR | {"leaky": "nn.LeakyReLU(0.0)", "six": "nn.ReLU6()"}},
    "misleading names": {
        "state": LINEAR | {"relu": "nn.Tanh()", "linear": "nn.Identity()", "identity": "nn.Linear(4, 4, bias=False)"}
    },
    "a ReLU behind something else": {"state": LINEAR | {"still": "nn.Identity()", "norm": "nn.LayerNorm(4)"}},
    "an input called like a layer": {"arguments": "x, one", "inputs": ([4, 4], [4, 4])},
    "other activations, as methods": {"renamed": {"tanh": "relu"}},
    "other activations, as functions": {"as_functions": ["tanh", "sigmoid"]},
    "fewer dimensions inside": {"inputs": ([2, 3, 4],)},
    "one dimension": {"inputs": ([4],), "batches": []},
    "tied weights": {"state": LINEAR | {"same": "self.one"}},
    "one layer at two paths": {"paths": {"one_1": "again"}},
    "one ReLU at two paths": {"paths": {"act_1": "block.0"}},
    "layers in blocks": {
        "state": {"block": "nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.LeakyReLU(0.1))"}
    },
    "state that looking would change": {
        "state": LINEAR | {"calls": "torch.zeros(())", "norm": "nn.BatchNorm1d(4)"},
        "training": True,
        "batches": [5],
        "special": False,
    },
    "a draw beside it": {"training": True},
    "training, no bias": {"state": LINEAR | {"bare": "nn.Linear(4, 4, bias=False)"}, "training": True},
    "double precision": {"state": {"wide": "nn.Linear(4, 3).double()"}, "inputs": (([4, 4], "float64"),)},
    "one column": {"state": {"thin": "nn.Linear(4, 1)", "flat": "nn.Linear(4, 4)"}},
}
"""Further entries of these cases."""


def hidden_cases(random: Random) -> list[Case]:
    """A case for each class, then drawn ones, and programs in which pairs stand among what only looks like one."""
    names = [line.removeprefix("== ").rpartition(": ")[0] for line in FIXED.splitlines() if line.startswith("== ")]
    fixed = written_cases(FIXED, {name: {"state": LINEAR} | MORE.get(name, {}) for name in names})
    return [*drawn_cases(random), *fixed, *(composed(random, number) for number in range(3))]


FORMS = (
    "torch.relu(self.one({0}))", "self.act(self.two({0}))", "torch.relu(self.bare({0}))", "F.gelu(self.one({0}))",
    "self.leaky(self.two({0}))", "self.act(self.two({0} - {1}))", "torch.relu(self.one({0}[None]))[0]",
    "torch.relu(input=self.one({0}))", "torch.relu({0})", "self.two({0})",
)  # fmt: skip


def composed(random: Random, number: int = 0) -> Case:
    """A random program of layers and activations, fused ones and others, some of them read again."""
    composer = Composer(random)
    composer.state |= LINEAR | {"bare": "nn.Linear(4, 4, bias=False)", "leaky": "nn.LeakyReLU(0.2)"}
    for _ in range(random.randint(5, 8)):
        if random.random() < 0.7:
            composer.let(composer.fill(FORMS))
        elif random.random() < 0.5:
            layer = composer.let(f"self.one({composer.pick()})")
            composer.let(f"torch.relu({layer})")
        else:
            composer.let(composer.fill(("torch.sin({0})", "{0} - {1}", "torch.cat([{0}, {1}], dim=1)[:, :4]")))
    returned = ", ".join(random.sample(composer.values[1:], 2))
    return composer.case(f"hidden mixture {number}", f"{returned}, {' - '.join(composer.values[-5:])}", trap="mixture")


def drawn_cases(random: Random) -> list[Case]:
    """Random widths; each trap among layers that can be fused."""
    cases = []
    for trap in ("plain", "shared", "read twice", "dimensions"):
        width, last = random.randint(3, 8), random.randint(2, 6)
        state = {
            "one": f"nn.Linear(4, {width})",
            "two": f"nn.Linear({width}, {width})",
            "last": f"nn.Linear({width}, {last})",
            "act": "nn.ReLU()",
        }
        first, second = random.sample(["torch.relu({})", "self.act({})"], 2)
        body = f"h = {first.format('self.one(x)')}\n"
        if trap == "shared":
            body += f"g = {second.format('self.two(h)')}\nreturn self.last({first.format('self.two(g)')})"
        elif trap == "read twice":
            body += f"g = self.two(h)\nreturn self.last({second.format('g')}), g.sum()"
        elif trap == "dimensions":
            body += f"return {second.format('self.last(h)')}"
        else:
            body += f"return F.silu(self.last({second.format('self.two(h)')}))"
        shape = (2, 3, 4) if trap == "dimensions" else (3, 4)
        seed = random.randrange(2**31)
        cases.append(program(f"hidden {trap}", body, state=state, inputs=(shape,), trap=trap, seed=seed))
    return cases


@dataclass(frozen=True)
class Pair:
    """An activation that reads a layer, and why it must stay as it is.

    Attributes:
        layer: the layer's node.
        refused: the misconception of who fuses it; `""` where it must be fused, `None` where it may be.
        form: `call_function`, `call_module` or `call_method`.
        named: whether `named_modules()` has the paths of both, as it has the first path of each module.
    """

    layer: fx.Node
    refused: str | None
    form: str
    named: bool


@dataclass(frozen=True)
class Expected:
    """A case's graph, how it is called, what it does, also after a training step, and its pairs."""

    graph_module: fx.GraphModule
    calls: Any
    behaviour: dict[str, Any]
    trained: dict[str, Any]
    pairs: tuple[Pair, ...]


class _Dimensions(fx.Interpreter):
    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        self.found[n.name] = value.dim() if isinstance(value, torch.Tensor) else None
        return value


@once_a_case
def expected(case: Case) -> Expected:
    """What is expected of the case. The operator has no derivative, so that gradients are not asked for."""
    given, graph_module = case.parameters, as_recorded(case, build(case))
    calls = calls_of(case, batches=given.get("batches", [5, 1]), special=given.get("special", True), trained=False)
    looked = _Dimensions(copy.deepcopy(graph_module))
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        looked.run(*inputs_of(case, 11))
    pairs, named = [], dict(graph_module.named_modules())
    for node in graph_module.graph.nodes:
        source = node.args[0] if node.args else node.kwargs.get("input")
        if not isinstance(source, fx.Node) or not isinstance(module_of(source), nn.Linear):
            continue
        if not node.op.startswith("call") or source.op != "call_module":
            continue
        both = all(call.op != "call_module" or call.target in named for call in (source, node))
        pairs.append(Pair(source, _refused(node, source, looked.found[source.name]), node.op, both))
    return Expected(
        graph_module,
        calls,
        own_behaviour(graph_module, calls),
        own_behaviour(trained(graph_module, graph_module), calls),
        tuple(pairs),
    )


def _refused(node: fx.Node, layer: fx.Node, dimensions: int) -> str | None:
    module = module_of(node) if node.op == "call_module" else None
    must = node.target is torch.relu or (type(module) is nn.ReLU and not module.inplace)
    may = must or type(module) is nn.ReLU
    may = may or node.target in (functional.relu, functional.relu_, torch.relu_, "relu", "relu_")
    linear = module_of(layer)
    if not may:
        return "another activation"
    if isinstance(linear, nn.Linear) and linear.bias is None:
        return "fused without a bias"
    if len(layer.users) > 1:
        return "fused what another reads"
    if dimensions != 2:
        return "three dimensions"
    return "" if must else None


def trained(graph_module: fx.GraphModule, original: fx.GraphModule) -> fx.GraphModule:
    """A copy after what might be a training step: the parameters that the original has have other values."""
    copied = copy.deepcopy(graph_module)
    new = {name: value.detach() + 0.5 for name, value in original.named_parameters(remove_duplicate=False)}
    with torch.no_grad():
        for name, parameter in copied.named_parameters(remove_duplicate=False):
            if name in new and new[name].shape == parameter.shape:
                parameter.copy_(new[name])
    return copied


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """What was fused that must not be; the values, with other batches and weights; then how much was fused."""
    if problem := unusable(evidence):
        yield problem
        return
    known, theirs = expected(case), decode(evidence.graphs["graph"])
    original, tolerance = known.graph_module, {"relative": 1e-4, "absolute": 1e-5}
    state = dict(original.named_buffers(remove_duplicate=False))
    for name, value in theirs.named_buffers(remove_duplicate=False):
        if name in state and not same(value, state[name]):
            yield "ran the model itself", f"({name} has changed)"
            return
    if wrong := _wrongly_fused(known, theirs):
        yield wrong
        return
    after = trained(theirs, original)
    found = behaviour(theirs, known.calls)
    if different := first_difference(known.behaviour, found, **tolerance):
        yield _explain(case, known, theirs, found, len(known.calls.inputs)), f"({different})"
        return
    if different := first_difference(known.trained, behaviour(after, known.calls), **tolerance):
        yield "froze the weights", f"(after a training step {different})"
        return
    if changed := changed_modules(original, theirs):
        yield ("froze the weights" if changed.kind == "parameters" else "changed the model"), f"({changed})"
        return
    fused = sum(node.target is FUSED for node in all_nodes(theirs))
    wanted = sum(pair.refused == "" for pair in known.pairs)
    forms = {form: _forms(known.graph_module, form) - _forms(theirs, form) for form in ("call_function", "call_module")}
    need = {form: sum(pair.refused == "" and pair.form == form for pair in known.pairs) for form in forms}
    in_rows = _fused_without_second(known.pairs)
    at_first = sum(pair.refused == "" and pair.named for pair in known.pairs)
    if fused < wanted:
        missed = [form for form in need if need[form] and not forms[form]]
        one_form = len(missed) == 1 and all(forms[form] >= need[form] for form in need if form not in missed)
        fits = ("only one form",) * one_form + ("second of a row",) * (fused == in_rows)
        fits += ("first paths only",) * (fused == at_first)
        yield Deviation("nothing fused", fits, f"({fused} of {wanted})", wanted)
        return
    shown = ("only one form",) * all(need.values()) + ("second of a row",) * (in_rows < wanted)
    shown += ("first paths only",) * (at_first < wanted)
    yield Agreement("nothing fused", shown)
    if any(_count(theirs, names) > _count(original, names) - fused for names in (LAYERS, SPELLINGS)):
        yield "left the old nodes", ""
        return
    # The code of such a case, traced anew, has the methods that `F.tanh` and the like call.
    if "as_functions" not in case.parameters and (problem := stale(evidence, theirs)):
        yield problem


def _fused_without_second(pairs: Sequence[Pair]) -> int:
    """How many pairs fuse where nobody knows the dimensions of what a fused one gives."""
    fused: set[fx.Node] = set()
    for pair in pairs:
        sources = {source for value in pair.layer.all_input_nodes for source in value.all_input_nodes}
        if pair.refused == "" and not sources & fused:  # a layer that is fused has one reader, its ReLU
            fused.add(pair.layer)
    return len(fused)


def _forms(graph_module: fx.GraphModule, form: str) -> int:
    """How many ReLUs are a function, or a module."""
    calls = (node for node in all_nodes(graph_module) if node.op == form)
    return sum(operation_name(node) in ACTIVATIONS for node in calls)


def _count(graph_module: fx.GraphModule, names: tuple[str, ...]) -> int:
    """How many nodes are operations of these names."""
    calls = (node for node in all_nodes(graph_module) if node.op.startswith("call"))
    return sum(operation_name(node) in names for node in calls)


def _weight(node: Any) -> fx.Node | None:
    """The node that reads the attribute of which `node` is a view, through one operation at most."""
    if isinstance(node, fx.Node) and node.op != "get_attr" and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node if isinstance(node, fx.Node) and node.op == "get_attr" else None


def _wrongly_fused(known: Expected, theirs: fx.GraphModule) -> tuple[str, str] | None:
    """A layer that is fused more often than it may be, and the one reason why it may not, if there is one."""
    fused: Counter[str] = Counter()
    for node in all_nodes(theirs):
        if node.target is FUSED and len(node.args) > 2 and (weight := _weight(node.args[2])) is not None:
            fused[str(weight.target).removesuffix(".weight")] += 1
    for path, count in fused.items():
        pairs = [pair for pair in known.pairs if pair.layer.target == path]
        reasons = {pair.refused for pair in pairs if pair.refused}
        if len(reasons) > 1:  # of a layer that others read, too, it is the ReLU that was fused
            reasons -= {"another activation"}
        if count <= sum(not pair.refused for pair in pairs) or len(reasons) != 1:
            continue
        (reason,) = reasons
        kept = sum(node.op == "call_module" and node.target == path for node in all_nodes(theirs))
        before = sum(node.op == "call_module" and node.target == path for node in known.graph_module.graph.nodes)
        if reason == "fused what another reads" and kept > before - count:
            reason = "computed the layer twice"
        return str(reason), f"(the layer {path!r})"
    return None


def _explain(case: Case, known: Expected, theirs: fx.GraphModule, found: dict[str, Any], calls: int) -> str:
    """The mistake that gives these values: what the operators are given, and where they stand."""
    for node in all_nodes(theirs):
        if node.target is FUSED and len(node.args) > 2:
            bias, _, weight = node.args[:3]
            if isinstance(bias, fx.Node) and not (bias.op == "get_attr" and str(bias.target).endswith("bias")):
                reads = _weight(bias)
                return "hard-coded a shape" if reads is not None and "bias" in str(reads.target) else "lost the bias"
            if isinstance(weight, fx.Node) and weight.op == "get_attr" and str(weight.target).endswith("weight"):
                return "weights not transposed"
    ours = {key: value[:2] if key == "calls" else value for key, value in known.behaviour.items()}
    those = {key: value[:2] if key == "calls" else value for key, value in found.items()}
    if not first_difference(ours, those, relative=1e-4, absolute=1e-5):
        return "hard-coded a shape"  # right for two inputs of the example's shape, and wrong for another one
    return "read the input too late" if case.parameters["trap"] == "written" else "something else"
