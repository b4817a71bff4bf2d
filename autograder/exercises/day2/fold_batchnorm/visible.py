"""The learner's side: convolutions with a BatchNorm behind them, some of which must not be folded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.day2.programs import build, program, rewrite_evidence, show_rewrite

IMAGE = ((2, 4, 5, 5),)
TWO_IMAGES = ((2, 4, 5, 5), (2, 4, 5, 5))


HALF = "half precision, neither bias nor gamma"
"""The weights of `weights_of` that come in half precision."""


def visible_cases() -> list[Case]:
    """The kinds of convolution first, then the places that must be left alone."""
    return [
        program(
            "a convolution and its BatchNorm",
            "return torch.relu(self.norm(self.conv(x)))",
            state={"conv": "nn.Conv2d(4, 4, 3, padding=1)", "norm": "nn.BatchNorm2d(4, eps=0.1)"},
            inputs=IMAGE,
            trap="plain",
        ),
        program(
            "without a bias, in groups, and without weights of the BatchNorm",
            "return self.norm(self.conv(x))",
            state={
                "conv": "nn.Conv2d(4, 6, 3, groups=2, bias=False)",
                "norm": "nn.BatchNorm2d(6, eps=0.1, affine=False)",
            },
            inputs=IMAGE,
            trap="missing weights",
        ),
        program(
            "in training",
            "return self.norm(self.conv(x))",
            state={"conv": "nn.Conv2d(4, 4, 3)", "norm": "nn.BatchNorm2d(4, eps=0.1)"},
            inputs=IMAGE,
            training=True,
            trap="training",
        ),
        program(
            "without running statistics",
            "return self.norm(self.conv(x))",
            state={"conv": "nn.Conv2d(4, 4, 3)", "norm": "nn.BatchNorm2d(4, track_running_stats=False)"},
            inputs=IMAGE,
            trap="statistics",
        ),
        program(
            "a convolution that another node reads, too",
            "h = self.conv(x)\nreturn self.norm(h) + torch.relu(h)",
            state={"conv": "nn.Conv2d(4, 4, 3)", "norm": "nn.BatchNorm2d(4, eps=0.1)"},
            inputs=IMAGE,
            trap="read twice",
        ),
        program(
            "two branches",
            "a = self.one(x)\nb = self.other(x)\nreturn self.norm(a) - b",
            state={"one": "nn.Conv2d(4, 4, 3)", "other": "nn.Conv2d(4, 4, 3)", "norm": "nn.BatchNorm2d(4, eps=0.1)"},
            inputs=IMAGE,
            trap="branches",
        ),
        program(
            "one convolution, called twice",
            "return self.first(self.conv(x)) + self.second(self.conv(y))",
            arguments="x, y",
            state={
                "conv": "nn.Conv2d(4, 4, 3)",
                "first": "nn.BatchNorm2d(4, eps=0.1)",
                "second": "nn.BatchNorm2d(4, eps=0.2)",
            },
            inputs=TWO_IMAGES,
            trap="shared",
        ),
        program(
            "an activation in between",
            "return self.norm(torch.relu(self.conv(x)))",
            state={"conv": "nn.Conv2d(4, 4, 3)", "norm": "nn.BatchNorm2d(4, eps=0.1)"},
            inputs=IMAGE,
            trap="in between",
        ),
        program(
            "a transposed convolution",
            "return self.norm(self.conv(x))",
            state={"conv": "nn.ConvTranspose2d(4, 4, 3)", "norm": "nn.BatchNorm2d(4, eps=0.1)"},
            inputs=IMAGE,
            trap="transposed",
        ),
        program(
            "a write into the input in between",
            "h = self.conv(x)\nx.mul_(3)\nreturn self.norm(h) + x.sum()",
            state={"conv": "nn.Conv2d(4, 4, 3)", "norm": "nn.BatchNorm2d(4, eps=0.1)"},
            inputs=IMAGE,
            trap="written input",
        ),
    ]


def weights_of(case: Case) -> dict[str, dict[str, Any]]:
    """What `folded_weights` is asked, by name: with everything there, in groups, and without what may be missing."""
    generator = torch.Generator().manual_seed(case.parameters["seed"] % 10_000 + 5)

    def given(out: int, into: int, size: int, eps: float, dtype: torch.dtype) -> dict[str, Any]:
        found: dict[str, Any] = {"weight": torch.randn(out, into, size, size, generator=generator).to(dtype)}
        for name in ("bias", "mean", "variance", "gamma", "beta"):
            found[name] = (torch.rand(out, generator=generator) + 0.5).to(dtype)
        return found | {"eps": eps, "mean": found["mean"] - 1.0}

    return {
        "everything": given(4, 4, 3, 0.1, torch.float32),
        "groups, in double precision": given(6, 2, 1, 0.5, torch.float64),
        "no bias": given(4, 3, 2, 0.1, torch.float32) | {"bias": None},
        "no gamma": given(3, 3, 3, 1e-3, torch.float32) | {"gamma": None},
        "no beta": given(3, 3, 3, 1e-3, torch.float32) | {"beta": None},
        HALF: given(2, 2, 1, 0.1, torch.bfloat16) | {"bias": None, "gamma": None},
    }


def probe(case: Case, folded_weights: Any, fold_batchnorm: Any) -> Evidence:
    """The algebra on weights, the rewrite of the case's graph, and what became of the weights that were there.

    The case's `at_new_names` lists modules that are to be in the way: the function runs once for each before, to learn
    the name that it gives a new convolution, and in the graph the module lies there.
    """
    folded: dict[str, torch.Tensor] = {}
    raised: dict[str, str] = {}
    for name, given in weights_of(case).items():
        try:
            pair = folded_weights(**given)
        except (RuntimeError, TypeError, ValueError, AttributeError) as error:
            if name == "everything":
                raise
            raised[name] = f"{type(error).__name__}: {error}"[:200]
            continue
        for what, value in zip(("weight", "bias"), pair, strict=False):
            if isinstance(value, torch.Tensor):
                folded[f"{what} {name}"] = value
    parts: dict[str, nn.Module] = {}

    moved: dict[str, str] = {}
    overwritten: list[str] = []
    in_autograd: list[str] = []

    def watched(graph_module: fx.GraphModule) -> Any:
        if parts:
            return fold_batchnorm(graph_module)
        parts.update((name, part) for name, part in graph_module.named_modules() if name)
        _move(graph_module, moved)
        result = fold_batchnorm(graph_module)
        if isinstance(result, fx.GraphModule):
            overwritten.extend(path for name, path in moved.items() if not _alike(parts[name], result, path))
            tensors = (*result.named_parameters(), *result.named_buffers())
            in_autograd.extend(path for path, value in tensors if value.grad_fn is not None)
        return result

    if not raised:
        for name in case.parameters.get("at_new_names", ()):
            graph_module = build(case)
            _move(graph_module, moved)
            if (path := _new_name(graph_module, fold_batchnorm)) is not None:
                moved[name] = path
    evidence = rewrite_evidence(case, watched) if not raised else Evidence()
    evidence.values["raised"] = raised
    evidence.values["overwritten"] = overwritten[:1]
    evidence.values["in autograd"] = in_autograd
    evidence.tensors = folded
    evidence.tensors |= {f"kept {name}": value for name, value in weights_in(parts).items()}
    evidence.values["held"] = held_by(parts)
    return evidence


def _new_name(graph_module: fx.GraphModule, fold_batchnorm: Any) -> str | None:
    """A name that the graph module has been given by the function, for a module or a tensor that its graph uses."""
    before = {*graph_module._modules, *graph_module._parameters, *graph_module._buffers}
    folded = fold_batchnorm(graph_module)
    if not isinstance(folded, fx.GraphModule):
        return None
    used = (str(node.target) for node in folded.graph.nodes if node.op in ("call_module", "get_attr"))
    names = (target.partition(".")[0] for target in used)
    return next((name for name in names if name not in before and name.isidentifier()), None)


def _move(graph_module: fx.GraphModule, moved: Mapping[str, str]) -> None:
    """Let modules of the graph module lie under other names."""
    for name, path in moved.items():
        module = graph_module.get_submodule(name)
        graph_module.delete_submodule(name)
        graph_module.add_submodule(path, module)
        for node in graph_module.graph.nodes:
            if node.op == "call_module" and node.target == name:
                node.target = path
    graph_module.recompile()


def _alike(module: nn.Module, graph_module: fx.GraphModule, path: str) -> bool:
    """Whether at a path of a graph module there is such a module with such a weight."""
    there = getattr(graph_module, path, None)
    if type(there) is not type(module):
        return False
    assert isinstance(there, nn.Module)
    return torch.equal(there.get_parameter("weight"), module.get_parameter("weight"))


def weights_in(parts: Mapping[str, nn.Module]) -> dict[str, torch.Tensor]:
    """The weights of convolutions and normalisations by path; those within other modules as these have them now."""
    found: dict[str, torch.Tensor] = {}
    for path, part in parts.items():
        holder, _, name = path.rpartition(".")
        now = getattr(parts[holder], name, None) if holder in parts else part
        if isinstance(now, nn.Module) and (hasattr(part, "transposed") or hasattr(part, "running_mean")):
            values = (*now.named_parameters(prefix=path), *now.named_buffers(prefix=path))
            found |= {key: value.detach() for key, value in values if value.is_floating_point()}
    return found


def held_by(parts: Mapping[str, nn.Module]) -> dict[str, list[str]]:
    """The names of what each of these modules holds, by path."""
    return {path: held for path, part in parts.items() if (held := [name for name, _ in part.named_children()])}


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph before and after, and how many values of the convolution's weights are new."""
    return show_rewrite(case, evidence)


def parts_of(case: Case) -> dict[str, nn.Module]:
    """The modules of the case's graph, by path."""
    return {name: part for name, part in build(case).named_modules() if name}
