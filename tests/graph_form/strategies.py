"""Hypothesis strategies: literals, small graphs that run, and mutations of documents."""

from __future__ import annotations

import copy
import math
import operator
import random
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from hypothesis import strategies as st
from torch import fx, nn

from autograder.exchange.graph_form.targets import functions, methods, operators

NUMBERS = (
    st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=True, allow_infinity=True)
    | st.booleans()
    | st.sampled_from([0, 0.0, -0.0, False, 1, 1.0, True, math.nan, math.inf, -math.inf])
    | st.complex_numbers()
)
_CONSTANTS = st.sampled_from([
    None, ..., torch.float16, torch.int64, torch.complex64, torch.bool, torch.device("cpu"), torch.device("cuda:1"),
    torch.strided, torch.channels_last, torch.contiguous_format,
])  # fmt: skip
_TEXT = st.text(max_size=20).filter(lambda text: "# COUNTER:" not in text)
_KEYS = st.none() | st.booleans() | st.integers(-9, 9) | _TEXT | st.floats(allow_nan=False, allow_infinity=False)

LITERALS = st.recursive(
    NUMBERS | _TEXT | _CONSTANTS | st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 3)),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(_KEYS, inner, max_size=3)
        | st.builds(slice, inner, inner, inner)
    ),
    max_leaves=8,
)

FACTORS = st.sampled_from([0, 0.0, -0.0, 1, 1.0, True, 2, 0.5, -1.5, math.inf, math.nan])

# Each keeps a 4 x 4 tensor of floats a 4 x 4 tensor of floats: name of the op, target, arguments after the tensor.
_UNARY: list[tuple[str, Any, tuple[Any, ...], dict[str, Any]]] = [
    ("call_function", torch.relu, (), {}),
    ("call_function", F.relu, (), {"inplace": False}),
    ("call_function", torch.softmax, (-1,), {"dtype": None}),
    ("call_function", F.layer_norm, ((4,),), {}),
    ("call_function", F.dropout, (0.5, False), {}),
    ("call_function", torch.ops.aten.tanh.default, (), {}),
    ("call_function", torch.ops.aten.clamp.default, (-1, 1.0), {}),
    ("call_function", torch.ops.prims.neg.default, (), {}),
    ("call_function", operator.neg, (), {}),
    ("call_function", operator.getitem, ((..., slice(None, None, 1)),), {}),
    ("call_function", getattr, ("T",), {}),
    ("call_method", "transpose", (0, 1), {}),
    ("call_method", "reshape", (4, -1), {}),
    ("call_method", "add_", (1,), {"alpha": 2}),
    ("call_method", "to", (torch.float32,), {}),
    ("call_method", "contiguous", (), {"memory_format": torch.contiguous_format}),
    ("call_module", "linear", (), {}),
    ("call_module", "block.0", (), {}),
]
_BINARY: list[Any] = [torch.add, torch.mul, operator.sub, operator.matmul, torch.ops.aten.maximum.default, torch.where]


@st.composite
def graph_modules(draw: Callable[..., Any]) -> fx.GraphModule:
    """A graph of up to ten operations on two 4 x 4 inputs, with random literals among arguments and outputs."""
    graph = fx.Graph()
    values = [graph.placeholder("x"), graph.placeholder("y")]
    if draw(st.booleans()):
        values.append(graph.get_attr("linear.weight"))
    if draw(st.booleans()):
        values.append(graph.get_attr("scale"))
    for _ in range(draw(st.integers(1, 10))):
        value = draw(st.sampled_from(values))
        choice = draw(st.integers(0, 2))
        if choice == 0:
            op, target, args, kwargs = draw(st.sampled_from(_UNARY))
            if target == "add_":  # no write to a parameter that requires gradients
                value = graph.call_method("clone", (value,))
            values.append(graph.create_node(op, target, (value, *args), kwargs))
        elif choice == 1:
            target = draw(st.sampled_from(_BINARY))
            other = draw(st.sampled_from(values))
            args = (
                (graph.call_function(operator.gt, (other, 0)), value, other)
                if target is torch.where
                else (value, other)
            )
            values.append(graph.call_function(target, args))
        else:
            values.append(graph.call_function(draw(st.sampled_from([torch.mul, operator.add])), (value, draw(FACTORS))))
    graph.output({"value": values[-1], "rest": (draw(st.sampled_from(values)), [draw(LITERALS)])})
    root = nn.Module()
    root.linear = nn.Linear(4, 4)
    root.block = nn.Sequential(nn.Softshrink(0.25))
    root.register_buffer("scale", torch.rand(4, 4))
    return fx.GraphModule(root, graph)


HOSTILE = [
    "x; import os", "__import__('os').system('true')", "__globals__", "__class__.__base__", "os.system",
    "torch.load", "torch.hub.load", "builtins.eval", "builtins.exec", "builtins.open", "builtins.getattr",
    "operator.attrgetter", "operator.methodcaller", "torch.ops.aten.from_file.default",
    "torch.ops.aten.add.Tensor", "..", "self", "forward", "_parameters", "numpy", "a\nimport os", "'''", '"""',
    "ｓｅｌｆ", "\ud800", "", "0", "lambda: 0", "output", "x", "# COUNTER: 1",
]  # fmt: skip
REPLACEMENTS = [
    *HOSTILE, None, True, False, 0, 1, -1, 2, 10**6, 2**63, 10**30, 0.0, -1.5, float("inf"), float("nan"), [], {},
    [[]], [{}], {"tuple": []}, {"node": "x"}, {"node": "nowhere"}, {"float": "7ff8000000000000"},
    {"dtype": "float32"}, {"eval": "1"}, {"kind": "graph"}, {"shape": [1], "dtype": "float32"}, [1, 2, 3], [0],
    ["x"],
]  # fmt: skip


def mutate(document: Any, source: random.Random) -> Any:
    """A copy of a JSON document with one to three entries replaced, removed, doubled, renamed or swapped."""
    document = copy.deepcopy(document)
    for _ in range(source.randint(1, 3)):
        places = list(_places(document))
        owner, key = source.choice(places)
        action = source.randrange(6)
        if action == 0:
            del owner[key]
        elif action == 1:
            other, other_key = source.choice(places)
            owner[key], other[other_key] = copy.deepcopy(other[other_key]), copy.deepcopy(owner[key])
        elif action == 2 and isinstance(owner, list):
            owner.insert(source.randint(0, len(owner)), copy.deepcopy(owner[key]))
        elif action == 2:
            owner[source.choice(HOSTILE)] = owner.pop(key)
        elif action == 3 and isinstance(owner[key], str):
            owner[key] = owner[key] + source.choice(HOSTILE)
        else:
            owner[key] = copy.deepcopy(source.choice(REPLACEMENTS))
    return document


def misuse(document: Any, source: random.Random) -> Any:
    """A copy of a document in which up to four calls call something else that is allowed, with other arguments."""
    document = copy.deepcopy(document)
    nodes = document["modules"][-1]["nodes"]
    for _ in range(source.randint(1, 4)):
        index = source.randrange(1, len(nodes) - 1)
        if nodes[index]["op"] not in ("call_function", "call_method"):
            continue
        earlier = [{"node": node["name"]} for node in nodes[:index]]
        arguments = [source.choice([*earlier, *earlier, *SMALL]) for _ in range(source.randint(0, 3))]
        if source.random() < 0.3:
            nodes[index].update(op="call_method", target=source.choice(sorted(methods())))
            arguments.insert(0, source.choice(earlier))
        else:
            nodes[index].update(op="call_function", target=source.choice(TARGETS))
            if source.random() < 0.3:
                arguments.insert(0, source.choice(earlier))
        nodes[index].update(args=arguments, kwargs={})
    return document


SMALL = [0, 1, 2, -1, 0.5, True, None, [2, 2], {"tuple": [0]}, {"dtype": "int64"}, {"slice": [0, 1, None]}, "sum", [1]]
TARGETS = sorted(functions()) + [
    f"torch.ops.{name.replace('::', '.')}" + ("" if "." in name else ".default") for name in sorted(operators())
]


def _places(value: Any) -> Any:
    if isinstance(value, dict):
        for key in value:
            yield value, key
            yield from _places(value[key])
    elif isinstance(value, list):
        for index, element in enumerate(value):
            yield value, index
            yield from _places(element)
