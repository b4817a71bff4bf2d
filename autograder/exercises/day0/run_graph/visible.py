"""The learner's side: programs whose graphs have every kind of node, the probe and what the check shows."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch import fx, nn
from torch.nn import functional
from torch.utils._pytree import tree_flatten

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.creations import NodesOfCreations
from autograder.learner_side.withheld import WithheldImportError


class Factor:
    """A constant that has no form in code: a module's code, written anew from such a graph, does not know its name."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __repr__(self) -> str:
        return "<a factor>"  # whoever writes code from this knows neither its name nor its value


def times(x: torch.Tensor, factor: Factor) -> torch.Tensor:
    """Any shape to the same."""
    return x * factor.value


class Scaled(nn.Module):
    """A layer that takes keyword arguments, and a second tensor if it is given one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor, other: torch.Tensor | None = None, *, by: float = 1.0) -> torch.Tensor:
        """(…, width) to the same."""
        return x * self.weight * by if other is None else x * self.weight * by + other


class Picked(nn.Module):
    """A layer that takes its tensors in a dictionary, by position and by keyword."""

    def forward(
        self, parts: dict[str, Any], *, named: dict[str, torch.Tensor] | None = None, rows: slice = slice(None)
    ) -> torch.Tensor:
        """Three tensors of one shape, of which rows are taken, to those rows."""
        first, second = parts["others"]
        total = parts["first"] + first * second
        return (total if named is None else total - named["less"])[rows]


class Counting(nn.Module):
    """A layer that counts its calls, each time in a new tensor."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Any shape to the same."""
        self.count = self.count + 1.0
        return x * 2.0


def program(
    name: str,
    body: str,
    *,
    state: dict[str, str] | None = None,
    shapes: tuple[tuple[int, ...] | None, ...] = ((2, 4), (2, 4)),
    seed: int = 0,
    hooked: tuple[str, ...] = (),
    training: bool = False,
    late: bool = False,
) -> Case:
    """A case that holds a program.

    Args:
        name: of the case.
        body: the lines of `forward`, which takes as many of x, y and z as there are shapes; they come from the course,
            and never from a learner.
        state: what lies in `self.block`, by name, each as the expression that makes it, or the name of a module there.
        shapes: of the inputs, one to three; `None` for a number.
        seed: of all values.
        hooked: paths of modules with a hook that doubles what they return.
        training: whether the module is in training.
        late: whether the placeholder of y stands before its first reader, behind other nodes.
    """
    given = {"body": body, "state": state or {}, "shapes": [shape and list(shape) for shape in shapes], "seed": seed}
    return Case(name, given | {"hooked": list(hooked), "training": training, "late": late})


LAYER = {"layer": "nn.Linear(4, 4)", "scale": "nn.Parameter(torch.randn(4))"}


def visible_cases() -> list[Case]:
    """A short chain, what needs care with arguments, and a graph that returns something from its middle."""
    return [
        program("a chain", "return self.block.layer(torch.tanh(x).abs())", state=LAYER),
        program(
            "keywords, lists, weights",
            "a = torch.softmax(input=x, dim=0)\nb = torch.cat([a, a * self.block.scale], dim=1)\nreturn b.sum(dim=1)",
            state=LAYER,
            seed=1,
        ),
        program(
            "two inputs, two results",
            "a = torch.sub(y, x)\nb = F.leaky_relu(a, negative_slope=0.5)\n"
            "return self.block.layer(b), b.transpose(0, 1)",
            state=LAYER,
            seed=2,
        ),
        program(
            "a write that nobody reads",
            "self.block.count.add_(1.0)\na = torch.sin(x)\nb = a.view(-1)\nb.mul_(2.0)\nreturn a + y, self.block.count",
            state={"count": "torch.zeros(1)"},
            seed=3,
        ),
    ]


READS_NOTHING = frozenset({torch.arange, torch.ones, torch.zeros, torch.full, torch._C._set_grad_enabled})


class _Path:
    """What a program sees of a module: reading an attribute and calling make nodes.

    While a notebook is graded tracers are hollow, so the graph is made with proxies and this.
    """

    def __init__(self, tracer: fx.proxy.GraphAppendingTracer, module: nn.Module, path: str = "") -> None:
        self._tracer, self._module, self._path = tracer, module, path

    def __getattr__(self, name: str) -> Any:
        path, value = f"{self._path}.{name}".lstrip("."), getattr(self._module, name)
        if isinstance(value, nn.Module):
            return _Path(self._tracer, value, path)
        return self._tracer.create_proxy("get_attr", path, (), {})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._tracer.create_proxy("call_module", self._path, args, kwargs)


def build(case: Case) -> fx.GraphModule:
    """The case's graph, whose module's code is stale on purpose: it was written before the graph got one step more.

    It cannot be written anew, for that step has a `Factor` among its arguments.
    """
    given = case.parameters
    lines = "\n".join(f"    {line}" for line in given["body"].splitlines())
    names: dict[str, Any] = {"torch": torch, "nn": nn, "F": functional, "operator": operator}
    names |= {"Scaled": Scaled, "Picked": Picked, "Counting": Counting}
    arguments = "xyz"[: len(given["shapes"])]
    exec(compile(f"def forward(self, {', '.join(arguments)}):\n{lines}\n", "<program>", "exec"), names)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(given["seed"])
        root: Any = nn.Module()
        root.block = nn.Module()
        for name, expression in given["state"].items():
            value = eval(expression, names | dict(root.block.named_children()))
            if type(value) is torch.Tensor:
                root.block.register_buffer(name, value)
            else:
                setattr(root.block, name, value)
    root.train(given["training"])
    graph = fx.Graph()
    tracer = fx.proxy.GraphAppendingTracer(graph)
    inputs = [fx.Proxy(graph.placeholder(name), tracer) for name in arguments]
    with NodesOfCreations(tracer, READS_NOTHING):
        graph.output(tracer.create_arg(names["forward"](_Path(tracer, root), *inputs)))
    if given["late"]:
        late = inputs[1].node
        next(node for node in graph.nodes if node in late.users).prepend(late)
    graph_module = fx.GraphModule(root, graph)
    for path in given["hooked"]:
        graph_module.get_submodule(path).register_forward_hook(lambda module, args, output: output * 2)
    output = next(iter(reversed(graph.nodes)))
    first = next(node for node in output.all_input_nodes)
    with graph.inserting_after(first if first.op != "placeholder" else output.prev):
        # A graph takes any object for an argument, though its annotations do not say so.
        factor: Any = Factor(-1.0)
        last = graph.call_function(times, (first, factor))
    output.replace_input_with(first, last)
    return graph_module


CALLS = 2
"""How often a graph is run, on other inputs each time; buffers keep what it writes."""


def inputs_of(case: Case, call: int) -> list[Any]:
    """The inputs of one call: leaves of autograd, and numbers."""
    generator = torch.Generator().manual_seed(case.parameters["seed"] * 8 + call)
    shapes = case.parameters["shapes"]
    return [0.5 + call if s is None else torch.randn(s, generator=generator).requires_grad_() for s in shapes]


def observed(graph_module: fx.GraphModule, case: Case, call: int, run: Callable[..., Any]) -> dict[str, Any]:
    """One call of `run(graph_module, *inputs)`: what comes out, what is written, and the gradients.

    Returns:
        `shape` (how the results are nested; lists and tuples are alike), `values` (those that are no tensors, as text),
        `gradients` (whether autograd was left switched on), and `tensors` by name: results, inputs, buffers and what is
        drawn next afterwards, and gradients of all results together.
    """
    leaves = inputs_of(case, call)
    given = [leaf * 1.0 for leaf in leaves]  # a leaf of autograd may not be written, which a graph might do
    torch.random.default_generator.manual_seed(call)
    before = torch.is_grad_enabled()
    try:
        torch.set_grad_enabled(True)
        found = run(graph_module, *given)
        left_on = torch.is_grad_enabled()
        torch.set_grad_enabled(True)
        drawn = torch.rand(1)
        seen = _seen(found, given, leaves, graph_module)
        return seen | {"gradients": left_on, "tensors": seen["tensors"] | {"draw afterwards": drawn}}
    finally:
        torch.set_grad_enabled(before)


def _seen(found: Any, given: list[Any], leaves: list[Any], graph_module: fx.GraphModule) -> dict[str, Any]:
    flat, spec = tree_flatten(_plain(found))
    results = [value for value in flat if isinstance(value, torch.Tensor)]
    tensors = {f"result {i}": value.detach() for i, value in enumerate(results)}
    pairs = [(f"input {i}", value, leaf) for i, (value, leaf) in enumerate(zip(given, leaves, strict=True))]
    tensors |= {f"{name} afterwards": value.detach() for name, value, _ in pairs if isinstance(value, torch.Tensor)}
    tensors |= {f"buffer {name} afterwards": value.detach() for name, value in graph_module.named_buffers()}
    trained = [value for value in results if value.requires_grad]
    sources: dict[str, torch.Tensor] = dict(graph_module.named_parameters())
    sources |= {name: leaf for name, _, leaf in pairs if isinstance(leaf, torch.Tensor)}
    if trained:
        loss = sum((value.float() * (i + 1)).sin().sum() for i, value in enumerate(trained))
        # The graph of autograd is kept: an answer that keeps values between runs is told by its values.
        gradients = torch.autograd.grad(loss, [*sources.values()], retain_graph=True, allow_unused=True)  # type: ignore[arg-type]
        found_for = zip(sources, gradients, strict=True)
        tensors |= {f"gradient of {name}": value for name, value in found_for if value is not None}
    others = [str(value)[:80] for value in flat if not isinstance(value, torch.Tensor)]
    copies = {name: value.detach().clone() for name, value in tensors.items()}
    return {"shape": str(spec)[:2000], "values": others, "tensors": copies}


def _plain(found: Any) -> Any:
    """Nested results with tuples for lists, so that either may come."""
    if isinstance(found, (list, tuple)):
        return tuple(map(_plain, found))
    return {key: _plain(value) for key, value in found.items()} if isinstance(found, dict) else found


def probe(case: Case, run_graph: Any) -> Evidence:
    """Let the learner's function compute the graph, twice, and note who else did."""
    if not callable(run_graph):
        raise TypeError("run_graph is no function")
    graph_module = build(case)
    evidence = Evidence({"interpreted": False, "recompiled": False, "failed": "", "calls": []})
    run, recompile = fx.Interpreter.run, fx.GraphModule.recompile

    def noting(self: Any, *arguments: Any, **options: Any) -> Any:
        evidence.values["interpreted"] = True
        return run(self, *arguments, **options)

    def writing(self: Any) -> Any:
        evidence.values["recompiled"] = True
        return recompile(self)

    try:
        with patch.object(fx.Interpreter, "run", noting), patch.object(fx.GraphModule, "recompile", writing):
            for call in range(CALLS):
                seen = observed(graph_module, case, call, run_graph)
                evidence.tensors |= {f"{name} of call {call + 1}": value for name, value in seen["tensors"].items()}
                evidence.values["calls"].append({key: value for key, value in seen.items() if key != "tensors"})
    except WithheldImportError:  # while graded, the interpreter is hollow
        evidence.values["interpreted"] = True
    except NotImplementedError:
        raise
    except Exception as error:  # whatever an operation raises that gets what it cannot take
        evidence.values["failed"] = failure(error)
    return evidence


def failure(error: Exception) -> str:
    """What an exception says, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:400]


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The graph in text, and what the learner's function came to."""
    graph_module = build(case)
    results = {name: tuple(value.shape) for name, value in evidence.tensors.items() if name.startswith("result")}
    return [
        f"{case.name}\n{graph_module.graph}\n\nyour results: {results or evidence.values['failed'] or 'no tensors'}"
    ]
