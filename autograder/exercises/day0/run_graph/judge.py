"""What a graph computes: run by PyTorch's interpreter, in the judge, rightly and with every known mistake."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate, map_arg

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import once_a_case
from autograder.exercises.day0.run_graph.cases import composed, hidden_cases
from autograder.exercises.day0.run_graph.visible import CALLS, build, failure, observed
from autograder.exercises.explaining import OnDemand
from autograder.exercises.graph_comparison import same, shown

__all__ = ["MISCONCEPTIONS", "UNNAMED", "composed", "hidden_cases", "judge"]

MISCONCEPTIONS = {
    "asked PyTorch": (
        "`torch.fx.Interpreter` does what this task asks for. Write it yourself, as a loop over "
        "`graph_module.graph.nodes`."
    ),
    "called the module": (
        "You called the graph module. That runs the *code* that was written from its graph some time ago, and this "
        "graph has changed since. Walk through `graph_module.graph.nodes`."
    ),
    "wrote the code anew": (
        "You had code written from the graph, by `recompile()` or in a fresh `GraphModule`. This graph has a constant "
        "that no code can hold. Compute the nodes themselves, one by one."
    ),
    "nodes instead of values": (
        "An operation got nodes where it needs values. Arguments are nodes, also within lists, slices and keywords: "
        "look each one up. `torch.fx.node.map_arg(node.args, function)` reaches all of them."
    ),
    "path taken for a name": (
        "A target such as `block.scale` is a path, and `getattr` takes one name. Follow the parts between the dots."
    ),
    "attributes read at another time": (
        "You read what lies in the module before the run, or once for several nodes. A submodule may put another "
        "tensor there when it is called: read it when the node has its turn."
    ),
    "keywords dropped": "You left out `node.kwargs`: functions, methods and modules get their keyword arguments, too.",
    "method without its arguments": (
        "A method gets the first argument as its object, and all the others as arguments: you left those out."
    ),
    "last value returned": (
        "You returned the value of the last operation. What a graph returns stands in the arguments of its output node."
    ),
    "only one result": "The output node may hold several values: return all of them, nested as they are there.",
    "method of a tensor": (
        "A method belongs to its first argument, which need not be a tensor: a shape has methods, too. Ask the value "
        "that came, `getattr(value, node.target)`."
    ),
    "inputs mixed up": "Placeholders take the inputs in the order in which they stand in the graph.",
    "forward called": (
        "You called the submodule's `forward`. Call the submodule itself: then its hooks run, too, as they do when the "
        "model runs."
    ),
    "skipped what nobody reads": (
        "You left out nodes whose value nobody reads. They may write into a tensor, draw random numbers or switch a "
        "mode: every node has its turn, in the order of the graph."
    ),
    "one value for a target": (
        "You keep values by what a node calls. Two nodes may call the same function or module with other arguments: "
        "keep one value for each *node*."
    ),
    "lists turned into tuples": (
        "A list among the arguments reached the operation as a tuple. `x[[0, 1]]` takes two rows, `x[0, 1]` one "
        "element: keep the kind of each container."
    ),
    "cut from autograd": (
        "Your values are right, but no gradient flows back through them: you ran the graph under `no_grad`, or you "
        "detach. A graph is run so that what comes out can be trained, as when the model runs."
    ),
    "no tensors": "Your function must return what the graph returns: a tensor, or tensors nested in some way.",
    "wrong values": "Your function does not do what the graph does, node by node: something comes out otherwise.",
}

UNNAMED = ("wrong values",)

Run = Callable[..., Any]


class _Variant(fx.Interpreter):
    """PyTorch's interpreter, to be overridden in one thing."""

    def __init__(self, graph_module: fx.GraphModule) -> None:
        super().__init__(graph_module, garbage_collect_values=False)
        self.extra_traceback = False  # or errors would say more than they do in a learner's loop


class _Recording(_Variant):
    last: Any = None

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n.op == "output":
            return self.last
        self.last = value
        return value


class _RawArguments(_Variant):
    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        return super().fetch_args_kwargs_from_env(n) if n.op == "output" else (n.args, n.kwargs)


class _OneLevelDeep(_Variant):
    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        if n.op == "output":
            return super().fetch_args_kwargs_from_env(n)
        args = tuple(self.env[value] if isinstance(value, fx.Node) else value for value in n.args)
        return args, {key: self.env[v] if isinstance(v, fx.Node) else v for key, v in n.kwargs.items()}


class _OneLevelDeepInTheOutput(_OneLevelDeep):
    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return args[0]

    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        args = tuple(self.env[value] if isinstance(value, fx.Node) else value for value in n.args)
        return args, {key: self.env[v] if isinstance(v, fx.Node) else v for key, v in n.kwargs.items()}


class _OneLevelDeepInKeywords(_Variant):
    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        args, kwargs = super().fetch_args_kwargs_from_env(n)
        return args, kwargs if n.op == "output" else self._one_level(n.kwargs)

    def _one_level(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {key: self.env[v] if isinstance(v, fx.Node) else v for key, v in kwargs.items()}


class _OneLevelDeepInMethods(_OneLevelDeep):
    op = "call_method"

    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        if n.op == self.op:
            return super().fetch_args_kwargs_from_env(n)
        return _Variant.fetch_args_kwargs_from_env(self, n)


class _OneLevelDeepInModules(_OneLevelDeepInMethods):
    op = "call_module"


class _NotInSlices(_Variant):
    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        args, kwargs = self._looked_up(n.args), self._looked_up(n.kwargs)
        return args, kwargs

    def _looked_up(self, value: Any) -> Any:
        if isinstance(value, fx.Node):
            return self.env[value]
        if isinstance(value, (list, tuple)):
            return type(value)([self._looked_up(item) for item in value])
        return {key: self._looked_up(item) for key, item in value.items()} if isinstance(value, dict) else value


class _RawKeywords(_Variant):
    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        return super().fetch_args_kwargs_from_env(n)[0], n.kwargs


class _NoKeywords(_Variant):
    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        return super().fetch_args_kwargs_from_env(n)[0], {}


class _FunctionsWithoutKeywords(_Variant):
    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().call_function(target, args, {})


class _MethodsWithoutKeywords(_Variant):
    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().call_method(target, args, {})


class _ModulesWithoutKeywords(_Variant):
    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().call_module(target, args, {})


class _BareMethods(_Variant):
    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().call_method(target, args[:1], {})


class _MethodsWithKeywordsOnly(_Variant):
    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return super().call_method(target, args[:1], kwargs)


class _MethodsOfTensors(_Variant):
    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return getattr(torch.Tensor, target)(*args, **kwargs)


class _InputsByPlace(_Variant):
    def run(self, *args: Any, **options: Any) -> Any:
        self.given = args
        self.places = {node: place for place, node in enumerate(self.graph.nodes)}
        return super().run(*args, **options)

    def run_node(self, n: fx.Node) -> Any:
        return self.given[self.places[n]] if n.op == "placeholder" else super().run_node(n)


class _NamesForPaths(_Variant):
    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return getattr(self.module, target)


class _NamesForAllPaths(_NamesForPaths):
    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return getattr(self.module, target)(*args, **kwargs)


class _AttributesBeforehand(_Variant):
    def run(self, *args: Any, **options: Any) -> Any:
        paths = {n.target for n in self.graph.nodes if n.op == "get_attr"}
        self.early = {path: self.fetch_attr(str(path)) for path in paths}
        return super().run(*args, **options)

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.early[target]


class _AttributesOnce(_Variant):
    def run(self, *args: Any, **options: Any) -> Any:
        self.early: dict[Any, Any] = {}
        return super().run(*args, **options)

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target not in self.early:
            self.early[target] = super().get_attr(target, args, kwargs)
        return self.early[target]


class _Forward(_Variant):
    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.fetch_attr(target).forward(*args, **kwargs)


class _OnlyWhatIsRead(_Variant):
    def run_node(self, n: fx.Node) -> Any:
        return super().run_node(n) if n.users or n.op in ("placeholder", "output") else None


class _OnlyWhatIsNeeded(_Variant):
    def __init__(self, graph_module: fx.GraphModule) -> None:
        super().__init__(graph_module)
        pending = [graph_module.graph.output_node()]
        self.needed = set(pending)
        while pending:
            new = set(pending.pop().all_input_nodes) - self.needed
            self.needed |= new
            pending += new

    def run_node(self, n: fx.Node) -> Any:
        return super().run_node(n) if n in self.needed or n.op == "placeholder" else None


class _ByTarget(_Variant):
    def __init__(self, graph_module: fx.GraphModule) -> None:
        super().__init__(graph_module)
        self.known: dict[Any, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        if n.op not in ("call_module", "call_function", "call_method"):
            return super().run_node(n)
        if n.target not in self.known:
            self.known[n.target] = super().run_node(n)
        return self.known[n.target]


class _ModulesByTarget(_ByTarget):
    def run_node(self, n: fx.Node) -> Any:
        return super().run_node(n) if n.op == "call_module" else fx.Interpreter.run_node(self, n)


class _Tuples(_Variant):
    def fetch_args_kwargs_from_env(self, n: fx.Node) -> Any:
        return tuple(map(self._plain, n.args)), {key: self._plain(value) for key, value in n.kwargs.items()}

    def _plain(self, value: Any) -> Any:
        """The values of nodes, which stay what they are: a shape is a tuple with methods of its own."""
        if isinstance(value, (list, tuple)):
            return tuple(map(self._plain, value))
        return map_arg(value, self.env.__getitem__)


def _detached(graph_module: fx.GraphModule, *inputs: Any) -> Any:
    found = fx.Interpreter(graph_module).run(*inputs)
    return map_aggregate(found, lambda value: value.detach() if isinstance(value, torch.Tensor) else value)


def _without_gradients(graph_module: fx.GraphModule, *inputs: Any) -> Any:
    with torch.no_grad():
        return fx.Interpreter(graph_module).run(*inputs)


def _detached_inputs(graph_module: fx.GraphModule, *inputs: Any) -> Any:
    cut = map_aggregate(inputs, lambda value: value.detach() if isinstance(value, torch.Tensor) else value)
    return fx.Interpreter(graph_module).run(*cut)


def _first_result(graph_module: fx.GraphModule, *inputs: Any) -> Any:
    found = fx.Interpreter(graph_module).run(*inputs)
    return found[0] if isinstance(found, (list, tuple)) else found


def by(kind: type[fx.Interpreter]) -> Run:
    """An interpreter as a function like the learner's."""
    return lambda graph_module, *inputs: kind(graph_module).run(*inputs)


RIGHT = by(fx.Interpreter)

MISTAKES: dict[str, tuple[Run, ...]] = {
    "called the module": (lambda graph_module, *inputs: graph_module(*inputs),),
    "nodes instead of values": tuple(
        map(
            by,
            (
                _RawArguments,
                _OneLevelDeep,
                _OneLevelDeepInTheOutput,
                _OneLevelDeepInKeywords,
                _OneLevelDeepInMethods,
                _OneLevelDeepInModules,
                _NotInSlices,
                _RawKeywords,
            ),
        )
    ),
    "method of a tensor": (by(_MethodsOfTensors),),
    "path taken for a name": tuple(map(by, (_NamesForPaths, _NamesForAllPaths))),
    "attributes read at another time": tuple(map(by, (_AttributesBeforehand, _AttributesOnce))),
    "keywords dropped": tuple(
        map(by, (_NoKeywords, _FunctionsWithoutKeywords, _MethodsWithoutKeywords, _ModulesWithoutKeywords))
    ),
    "method without its arguments": tuple(map(by, (_BareMethods, _MethodsWithKeywordsOnly))),
    "last value returned": (by(_Recording),),
    "only one result": (_first_result,),
    "inputs mixed up": (
        lambda graph_module, *inputs: fx.Interpreter(graph_module).run(*inputs[::-1]),
        by(_InputsByPlace),
    ),
    "forward called": (by(_Forward),),
    "skipped what nobody reads": tuple(map(by, (_OnlyWhatIsRead, _OnlyWhatIsNeeded))),
    "one value for a target": (by(_ByTarget), by(_ModulesByTarget)),
    "lists turned into tuples": (by(_Tuples),),
    "cut from autograd": (_detached, _without_gradients, _detached_inputs),
}
"""Each mistake, once for each way to make it."""


@dataclass(frozen=True)
class Seen:
    """What one way to run a case's graph comes to.

    Attributes:
        calls: how the results of each call are nested, and those that are no tensors.
        tensors: all tensors, named as in the evidence.
        failed: what was raised, or `""`.
    """

    calls: list[dict[str, Any]]
    tensors: dict[str, torch.Tensor]
    failed: str = ""

    def first_difference(self, other: Seen) -> str:
        """The first thing in which another way differs from this one, in words; `""` for nothing."""
        if self.failed != other.failed:
            return f"expected {self.failed or 'no error'}, came {other.failed or 'no error'}"
        if self.calls != other.calls:
            return f"expected results {self.calls[0]}, found {other.calls[0] if other.calls else 'none'}"
        for name, value in self.tensors.items():
            if not same(other.tensors.get(name), value, 1e-5, 1e-6):
                wanted, found = shown(value, other.tensors.get(name))
                return f"{name}: expected {wanted}, found {found}"
        extra = sorted(set(other.tensors) - set(self.tensors))
        return f"{extra[0]}: expected none" if extra else ""


def seen(case: Case, run: Run) -> Seen:
    """What running the case's graph in some way comes to."""
    graph_module = build(case)
    calls: list[dict[str, Any]] = []
    tensors: dict[str, torch.Tensor] = {}
    stream = torch.get_rng_state()
    try:
        for call in range(CALLS):
            found = observed(graph_module, case, call, run)
            tensors |= {f"{name} of call {call + 1}": value for name, value in found["tensors"].items()}
            calls.append({key: value for key, value in found.items() if key != "tensors"})
    except Exception as error:  # whatever an operation raises that gets what it cannot take
        return Seen(calls, tensors, failure(error))
    finally:
        torch.set_rng_state(stream)
    return Seen(calls, tensors)


@once_a_case
def right(case: Case) -> Seen:
    """What is right."""
    return seen(case, RIGHT)


@once_a_case
def mistaken(case: Case) -> Mapping[str, list[Seen]]:
    """What comes of each mistake."""
    return OnDemand(MISTAKES, lambda name: [seen(case, run) for run in MISTAKES[name]])


def shown_by(case: Case, names: Collection[str]) -> list[str]:
    """Which of some mistakes show in a case."""
    wanted, known = right(case), mistaken(case)
    return [name for name in names if all(way.first_difference(wanted) for way in known[name])]


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """Whether all that was seen is right; if not, the mistakes under which just that would have been seen."""
    values = evidence.values
    if values["interpreted"]:
        yield "asked PyTorch", ""
        return
    if values["recompiled"]:
        yield "wrote the code anew", f"({values['failed']})" if values["failed"] else ""
        return
    wanted = right(case)
    found = Seen(values["calls"], evidence.tensors, str(values["failed"]))
    if wanted.failed and found.failed:  # a check in the graph fails, and what an answer says of it is its own
        return
    if not (difference := wanted.first_difference(found)):
        yield Agreement("wrong values", partial(shown_by, case))
        return
    fits = tuple(name for name, ways in mistaken(case).items() if not all(way.first_difference(found) for way in ways))
    if not fits and not found.failed and not any(name.startswith("result") for name in evidence.tensors):
        yield "no tensors", f"({difference})"
        return
    yield Deviation("wrong values", fits, f"({difference})", len(case.parameters["body"]))
