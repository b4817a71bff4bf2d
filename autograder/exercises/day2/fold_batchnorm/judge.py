"""What a right folding is: the algebra, the same values, one operation less, and nothing folded that must not be."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exchange.graph_form import decode
from autograder.exchange.graph_form.nodes import all_nodes, module_of
from autograder.exercises.composed import written_cases
from autograder.exercises.day2.fold_batchnorm.visible import convolution_weights, weights_of
from autograder.exercises.day2.programs import build, inputs_of, program
from autograder.exercises.graph_comparison import COMMON, difference, operations, stale, unusable

MISCONCEPTIONS = COMMON | {
    "not two tensors": "`folded_weights` must return two tensors: the new weight and the new bias.",
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
        "copy the convolution (`copy.deepcopy`), and change the copy."
    ),
    "nothing folded": "A BatchNorm that could be folded is still there.",
    "more operations": "The BatchNorm is gone, but other operations came in its place: fold it into weight and bias.",
    "something else": "The folded graph computes something else than the original.",
}

BY_TRAP = {
    "plain": "wrong algebra",
    "missing weights": "missing weights",
    "training": "folded in training mode",
    "statistics": "folded without statistics",
    "read twice": "fused what another reads",
    "branches": "took the previous node",
    "shared": "changed a shared convolution",
    "in between": "looked past an activation",
    "transposed": "folded a transposed convolution",
    "written input": "moved the convolution",
}


PAIR = {"conv": "nn.Conv2d(4, 4, 3)", "norm": "nn.BatchNorm2d(4, eps=0.1)", "act": "nn.ReLU()"}

FIXED = """
== double precision: plain
return self.norm(self.conv(x))

== two pairs, one norm: plain
return self.norm(self.other(self.act(self.norm(self.conv(x)))))

== the norm evaluates, the graph trains: plain
return self.norm(self.conv(x))

== the norm trains, the graph evaluates: training
return self.norm(self.conv(x))

== returned before the norm: read twice
h = self.conv(x)
return self.norm(h), [h]

== the result is written in between: read twice
h = self.conv(x)
h.mul_(2.0)
return self.norm(h)

== a norm without a convolution: in between
return self.norm(x) + self.norm(self.act(x))

== misleading names: in between
return self.norm2(self.conv2(x)) + self.norm(self.conv2(x))
"""
"""Name, trap and lines of a case for each class, the same for every seed."""

IMAGE = ([2, 4, 6, 6],)
MORE: dict[str, dict[str, Any]] = {
    "double precision": {
        "inputs": (([2, 4, 6, 6], "float64"),),
        "state": {"conv": "nn.Conv2d(4, 4, 3).double()", "norm": "nn.BatchNorm2d(4, eps=0.1).double()"},
    },
    "two pairs, one norm": {"state": PAIR | {"other": "nn.Conv2d(4, 4, 1, bias=False)"}},
    "the norm evaluates, the graph trains": {"training": True, "modes": {"norm": False, "conv": True}},
    "the norm trains, the graph evaluates": {"modes": {"norm": True}, "norms": 1},
    "returned before the norm": {"norms": 1},
    "the result is written in between": {"norms": 1},
    "a norm without a convolution": {"norms": 2},
    "misleading names": {
        "state": PAIR | {"norm2": "nn.Conv2d(4, 4, 1)", "conv2": "nn.AvgPool2d(1)"},
        "norms": 1,
    },
}
"""Further entries of these cases."""


def hidden_cases(random: Random) -> list[Case]:
    """A case for each class, then drawn ones."""
    names = [line.removeprefix("== ").rpartition(": ")[0] for line in FIXED.splitlines() if line.startswith("== ")]
    given = {"state": PAIR, "inputs": IMAGE, "norms": 0}
    return [*drawn_cases(random), *written_cases(FIXED, {name: given | MORE.get(name, {}) for name in names})]


def drawn_cases(random: Random) -> list[Case]:
    """Random widths, kernel sizes and eps in every kind of place."""
    cases = []
    for trap in ("plain", "missing weights", "training", "read twice", "branches", "shared", "written input"):
        width, eps = 2 * random.randint(2, 4), round(random.uniform(0.05, 0.3), 3)
        convolution = f"nn.Conv2d(4, {width}, {random.choice([1, 2, 3])}"
        convolution += (
            f", groups={random.choice([1, 2])}, bias={trap != 'missing weights'}, stride={random.choice([1, 2])})"
        )
        norm = f"nn.BatchNorm2d({width}, eps={eps})"
        state = {"conv": convolution, "norm": norm, "act": random.choice(["nn.ReLU()", "nn.GELU()", "nn.Sigmoid()"])}
        body = "return self.act(self.norm(self.conv(x)))"
        if trap == "read twice":
            body = "h = self.conv(x)\nreturn self.act(self.norm(h)), h.sum()"
        elif trap == "branches":
            state["other"] = convolution
            body = "a = self.conv(x)\nb = self.other(x)\nreturn self.act(a) + self.norm(b)"
        elif trap == "shared":
            body = "return self.act(self.norm(self.conv(x))) + self.conv(x * 2)"
        elif trap == "written input":
            factor = round(random.uniform(2, 4), 2)
            body = f"h = self.conv(x)\nx.mul_({factor})\nreturn self.act(self.norm(h)) + x.sum()"
        norms = {"training": 1, "read twice": 1, "shared": 1, "written input": 1}.get(trap, 0)
        seed = random.randrange(2**31)
        cases.append(
            program(
                f"hidden {trap}",
                body,
                state=state,
                inputs=((2, 4, 6, 6),),
                training=trap == "training",
                trap=trap,
                norms=norms,
                seed=seed,
            )
        )
    return cases


def algebra(case: Case) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """The folded weight and bias: the right ones first, then what each mistake gives."""
    given = weights_of(case)
    weight, bias, mean, variance = given["weight"], given["bias"], given["mean"], given["variance"]
    gamma, beta = given["gamma"], given["beta"]
    scale = gamma / (variance + 0.1).sqrt()
    plain, squared, bare = gamma / variance.sqrt(), gamma / (variance + 0.1), 1 / (variance + 0.1).sqrt()
    outside = gamma / (variance.sqrt() + 0.1)

    def by(factor: torch.Tensor) -> torch.Tensor:
        return weight * factor.reshape(-1, 1, 1, 1)

    right = (bias - mean) * scale + beta
    return {
        "": (by(scale), right),
        "forgot eps": (by(plain), (bias - mean) * plain + beta),
        "eps outside the root": (by(outside), (bias - mean) * outside + beta),
        "forgot the root": (by(squared), (bias - mean) * squared + beta),
        "forgot the mean": (by(scale), bias * scale + beta),
        "bias forgotten": (by(scale), beta - mean * scale),
        "bias not scaled": (by(scale), bias - mean * scale + beta),
        "gamma forgotten": (by(bare), (bias - mean) * bare + beta),
        "beta forgotten": (by(scale), (bias - mean) * scale),
        "scaled input channels": (weight * scale.reshape(1, -1, 1, 1), right),
    }


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The algebra, then what the rewritten graph computes, then its structure."""
    found = evidence.tensors.get("weight"), evidence.tensors.get("bias")
    if found[0] is None or found[1] is None:
        yield "not two tensors", ""
        return
    tried = algebra(case)
    explained = [
        name
        for name, pair in tried.items()
        if all(agrees(got, want, relative=1e-4, absolute=1e-5) for got, want in zip(found, pair, strict=True))
    ]
    if explained != [""]:
        named = zip(("weight", "bias"), found, tried[""], strict=True)
        compared = "; ".join(_compared(name, got, want) for name, got, want in named)
        yield (explained[0] if explained else "wrong algebra"), f"({compared})"
        return
    if problem := unusable(evidence):
        yield problem
        return
    original, theirs = build(case), decode(evidence.graphs["graph"])
    trap = case.parameters["trap"]
    kinds = (difference(original, theirs, inputs_of(case, s), relative=1e-3, absolute=1e-4) for s in (11, 12))
    # A folded convolution may stand at the path of the old one: then its weights are other state, and rightly so.
    different = next((kind for kind in kinds if kind not in (None, "state")), None)
    if different:
        yield BY_TRAP[trap], f"(what differs: {different})"
        return
    for name, weight in convolution_weights(case).items():
        if not agrees(evidence.tensors.get(f"kept {name}"), weight):
            yield "changed the model's weights", f"(those of {name!r})"
            return
    left = norms(theirs)
    if left > case.parameters["norms"]:
        yield "nothing folded", f"({left} left)"
        return
    if operations(theirs) > operations(original) - (norms(original) - left):
        yield "more operations", f"({operations(original)} before, {operations(theirs)} after)"
        return
    if problem := stale(evidence, theirs):
        yield problem


def _compared(name: str, found: Any, wanted: torch.Tensor) -> str:
    """In words how a folded weight or bias differs from the right one: found and expected at the worst place."""
    if agrees(found, wanted, relative=1e-4, absolute=1e-5):
        return f"the {name} is right"
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        described = [f"{tuple(value.shape)} of {value.dtype}" for value in (found, wanted)]
        return f"the {name} has shape {described[0]}, expected {described[1]}"
    distance = (found - wanted).abs().nan_to_num(nan=torch.inf)
    place = tuple(int(i) for i in torch.unravel_index(distance.argmax(), wanted.shape))
    where = f"channel {place[0]}" + (f", at {place}" if len(place) > 1 else "")
    return f"the {name} of {where}: found {found[place].item():.4f}, expected {wanted[place].item():.4f}"


def norms(graph_module: fx.GraphModule) -> int:
    """How many calls normalise a batch."""
    return sum(
        node.op == "call_module" and isinstance(module_of(node), nn.modules.batchnorm._BatchNorm)
        for node in all_nodes(graph_module)
    )
