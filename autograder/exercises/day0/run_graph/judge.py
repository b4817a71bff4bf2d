"""What a graph computes: run by PyTorch's interpreter, in the judge, rightly and with every known mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate, map_arg

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.composed import once_a_case
from autograder.exercises.day0.run_graph.visible import CALLS, LAYER, build, failure, observed, program
from autograder.exercises.graph_comparison import same, shown

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

STATE = LAYER | {"scaled": "Scaled(4)", "count": "torch.zeros(1)", "picked": "Picked()"}
FORKS = "\n".join(f"a{i + 1} = torch.sin(a{i}) + torch.cos(a{i})" for i in range(24))

FIXED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    (
        "methods with arguments",
        "a = x.view(2, 2, 2).transpose(1, 2).reshape(2, -1)\nb = a.sum(dim=1, keepdim=True).expand(-1, 4)\n"
        "c = x.sub(y, alpha=2).clamp(min=-0.5)\nreturn c.mul(b).add(other=y), b.masked_fill(c > 0, 0.25)",
        {},
    ),
    (
        "slices and indices",
        "n = x.size(1)\na = x[:, : n - 1]\nb = x[[0, 1, 0]]\nc = x[0, 1]\nd = y[..., None].squeeze(-1)\n"
        "return a.sum() + c, b, d[:, n - 2], x[1:, ::2], y[[0, 1], [3, 2]]",
        {},
    ),
    (
        "nested arguments",
        "a = torch.cat([torch.stack((x, y)), torch.stack([y, x])], dim=2)\nb, c = torch.split(x, [1, 3], dim=1)\n"
        "d = torch.einsum('ij,kj->ik', [x, y])\nreturn a.sum(0), torch.where(x > 0, input=x, other=y), c + b, d",
        {},
    ),
    (
        "nested keywords",
        "n = x.size(1)\na = torch.cat(tensors=[x, y], dim=1)\nb = torch.einsum('ij,kj->ik', x, y)\n"
        "return a, torch.stack(tensors=(b, b.t()), dim=n - 4)",
        {},
    ),
    (
        "nested arguments of methods",
        "n = x.size(1)\na = x.reshape((n, -1))\nreturn a, x.index_put((y > 0,), y.sum()), x.sum(dim=(n - 3,))",
        {},
    ),
    (
        "nested keywords of methods",
        "n = x.size(1)\na = x.index_put(indices=[x > 0], values=y.sum())\n"
        "return a, y.sum(dim=[n - 4, n - 3]), x.permute(dims=(n - 3, 0))",
        {},
    ),
    (
        "nested arguments of modules",
        "a = self.block.picked({'first': x, 'others': [y, x * 2.0]})\n"
        "return a, self.block.picked({'first': a, 'others': (a, y)})",
        {},
    ),
    (
        "nested keywords of modules",
        "n = x.size(0)\na = self.block.picked(parts={'first': x, 'others': (y, y)}, named={'less': x * 0.5})\n"
        "b = self.block.picked(parts={'first': y, 'others': [x, a]}, named={'less': y}, rows=slice(n - 1, n))\n"
        "return a + y, b",
        {},
    ),
    (
        "methods of what is no tensor",
        "s = x.size()\nn = s.numel()\nreturn x * n + s.count(4), y.view(s)",
        {},
    ),
    ("an input that comes late", "a = torch.sin(x)\nb = self.block.scale * a\nreturn b + y, a - x", {"late": True}),
    (
        "modules with keywords, called twice",
        "a = self.block.scaled(x, by=2.0)\nb = self.block.scaled(y, other=a)\nc = self.block.scaled(a, b, by=-1.0)\n"
        "return c - a, self.block.layer(input=b), self.block.layer(c)",
        {},
    ),
    (
        "hooks",
        "a = self.block.layer(x)\nreturn self.block.layer(a + y), a",
        {"hooked": ("block.layer",)},
    ),
    (
        "writes that nobody reads",
        "x.t()[0].fill_(0.5)\ny[0].zero_()\nself.block.count.mul_(2.0).add_(3.0)\na = torch.exp(x)\nb = a\nb += 1.0\n"
        "return a + y",
        {},
    ),
    ("a write at the end", "a = x * 2.0\ny.mul_(0.5)\nreturn a", {}),
    ("slices of nodes", "n = y.size(0)\na = torch.cat([x, y])\nreturn a[n - 1 :: n], a[: n + 1 : n], a[n:]", {}),
    ("a write that two read", "c = self.block.count.add_(1.0)\nreturn x * c + c, c * 1.0, c.neg() * y", {}),
    (
        "names that mislead",
        "a = self.block.sin(x)\nb = torch.relu(self.block.x(y))\nc = self.block.output * a\nreturn torch.sin(b) - c",
        {
            "state": {
                "sin": "nn.Linear(4, 4)",
                "x": "nn.Tanh()",
                "output": "nn.Parameter(torch.randn(4))",
                "placeholder": "torch.zeros(1)",
            }
        },
    ),
    (
        "a module within a module, under two names",
        "a = getattr(self.block.deep, '1').weight * x\nb = self.block.deep(a) * getattr(self.block.again, '1').weight\n"
        "return b + getattr(self.block.deep, '0')(y) + getattr(self.block.again, '0')(x) * self.block.again(y)",
        {"state": {"deep": "nn.Sequential(nn.Linear(4, 4), Scaled(4))", "again": "deep"}},
    ),
    (
        "a buffer that a module replaces",
        "a = x + self.block.counting.count\nb = self.block.counting(y)\nc = self.block.counting.count * a\n"
        "return b + self.block.counting(c), self.block.counting.count",
        {"state": {"counting": "Counting()"}},
    ),
    ("a dictionary", "return {'a': [x * 2, (y, 1)], 'n': x.size(0), 'none': None, 'x': x}", {}),
    ("inputs returned", "return y, x, y", {}),
    ("the second input alone", "return y * 2.0", {}),
    ("creations", "a = torch.ones(4) * x\nb = torch.arange(4)\nreturn torch.full((4,), 0.5) + a * b, b", {}),
    (
        "dtypes",
        "a = x > 0\nb = a.long().cumsum(dim=0)\nreturn b, x.double() * y, a | (y > 0), y.int(), b.float() * x",
        {},
    ),
    (
        "draws",
        "a = torch.rand_like(x)\ntorch.rand_like(x)\nb = self.block.drop(y)\nc = torch.nn.functional.dropout(x, 0.5)\n"
        "return c * a, b, torch.rand_like(y)",
        {"state": {"drop": "nn.Dropout(0.5)"}, "training": True},
    ),
    (
        "draws in another order than they are read",
        "a = torch.rand_like(x)\nb = torch.rand_like(x)\nreturn b * 2.0, a * 3.0 + b",
        {},
    ),
    (
        "batch statistics",
        "self.block.norm(x)\nreturn self.block.norm(y) + x",
        {"state": {"norm": "nn.BatchNorm1d(4)"}, "training": True},
    ),
    (
        "switched gradients",
        "a = torch.sin(x)\ntorch._C._set_grad_enabled(False)\nb = torch.cos(x)\ntorch._C._set_grad_enabled(True)\n"
        "return a + b, torch.sin(y), b",
        {},
    ),
    ("many forks", f"a0 = x\n{FORKS}\nreturn a24 + y", {}),
    ("no rows", "a = torch.cat([x, y], dim=0)\nreturn a.sum(dim=0), self.block.layer(a)", {"shapes": ((0, 4), (0, 4))}),
)
"""Name, lines and further entries of a case for each class, the same for every seed but for their numbers."""

PURE = (
    "torch.tanh({0})", "{0}.abs()", "{0}.clamp(min=-0.5)", "torch.softmax(input={0}, dim=0)",
    "torch.sub({0}, other={1}, alpha=2)", "{0} * self.block.scale", "self.block.layer({0})", "{0}[[1, 0]]",
    "self.block.scaled({0}, by=0.5)", "self.block.scaled({0}, other={1})", "torch.cat([{0}, {1}], dim=1)[:, 1:5]",
    "torch.stack(({0}, {1})).mean(dim=0)", "{0}.transpose(0, 1).reshape(2, -1)", "{0}.sub({1}, alpha=0.5)",
    "{0}[:, : {1}.size(1)]", "torch.where({0} > 0, {0}, {1})", "{0} * torch.ones(4)", "{0}.flip((0, 1))",
)  # fmt: skip
"""Expressions of one or two matrices of 2 × 4, which give another one."""

WRITES = ("{0}.mul_(0.5)", "{0}[0].zero_()", "{0}.t()[1].fill_(0.25)", "self.block.count.add_({0}.sum().detach())")


def hidden_cases(random: Random) -> list[Case]:
    """A case for each class, then random programs in which operations of every kind are mixed with writes."""
    fixed = [
        program(f"hidden {name}", body, seed=random.randrange(2**31), **{"state": STATE} | more)
        for name, body, more in FIXED
    ]
    return fixed + [composed(random, number) for number in range(3)]


def composed(random: Random, number: int = 0) -> Case:
    """A random program."""
    lines, values = list[str](), ["x", "y"]
    for _ in range(random.randint(4, 9)):
        first, second = random.choice(values), random.choice([*values, *values[-2:]])
        if random.random() < 0.2:
            lines.append(f"w{len(lines)} = torch.sin({first})")
            lines.append(random.choice(WRITES).format(f"w{len(lines) - 1}"))
            values.append(f"w{len(lines) - 2}")
        else:
            values.append(f"v{len(lines)}")
            lines.append(f"{values[-1]} = {random.choice(PURE).format(first, second)}")
    returned = random.sample(values, random.randint(1, 3))
    lines.append(f"return {', '.join(returned)}")
    return program(f"hidden {number}", "\n".join(lines), state=STATE, seed=random.randrange(2**31))


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
    "cut from autograd": (_detached, _without_gradients),
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
def right_and_mistaken(case: Case) -> tuple[Seen, Mapping[str, list[Seen]]]:
    """What is right, and what comes of each mistake."""
    return seen(case, RIGHT), {name: [seen(case, run) for run in runs] for name, runs in MISTAKES.items()}


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """Whether all that was seen is right; if not, the mistakes under which just that would have been seen."""
    values = evidence.values
    if values["interpreted"]:
        yield "asked PyTorch", ""
        return
    if values["recompiled"]:
        yield "wrote the code anew", f"({values['failed']})" if values["failed"] else ""
        return
    right, mistaken = right_and_mistaken(case)
    found = Seen(values["calls"], evidence.tensors, str(values["failed"]))
    if not (difference := right.first_difference(found)):
        made = [name for name, ways in mistaken.items() if all(way.first_difference(right) for way in ways)]
        yield Agreement("wrong values", tuple(made))
        return
    fits = tuple(name for name, ways in mistaken.items() if not all(way.first_difference(found) for way in ways))
    if not fits and not found.failed and not any(name.startswith("result") for name in evidence.tensors):
        yield "no tensors", f"({difference})"
        return
    yield Deviation("wrong values", fits, f"({difference})", len(case.parameters["body"]))
