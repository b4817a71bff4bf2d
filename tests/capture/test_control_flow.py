"""What each method makes of Python that a graph has no words for: a table, checked on inputs that go another way."""

import re

import pytest
import torch
from torch import nn

from fxopt_core.capture import CaptureError, capture, capture_methods


@torch.library.custom_op("fxopt_test::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


@scaled.register_fake
def _(x, factor):
    return torch.empty_like(x)


class Branch(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x - 1


class Loop(nn.Module):
    def forward(self, x):
        for _ in range(int(x.abs().max())):
            x = x * 2
        return x


class Counted(nn.Module):
    def forward(self, x, times):
        for _ in range(int(times.item())):
            x = x * 2
        return x


class Dictionary(nn.Module):
    def forward(self, batch):
        return {"sum": batch["a"] + batch["b"], "twice": batch["a"] * 2}


class Keywords(nn.Module):
    def forward(self, x, **named):
        return x * named["scale"] + named["offset"]


class CustomOperator(nn.Module):
    def forward(self, x):
        return torch.ops.fxopt_test.scaled(x, 3.0) + 1


class TransformersCache(nn.Module):
    def forward(self, x, cache):
        keys, values = cache.update(x, x * 2, 0)
        return keys.sum(-2) + values.sum(-2)


class Entries:
    """A plain Python object that the model changes."""

    def __init__(self) -> None:
        self.entries: list[torch.Tensor] = []


class PlainCache(nn.Module):
    def forward(self, x, cache):
        cache.entries.append(x * 2)
        return sum(cache.entries) + 1


@pytest.fixture(autouse=True)
def _caches_as_transformers_leaves_them(monkeypatch):
    """Its exporter, which other tests call, makes its caches known to `torch.export` for the whole process."""
    transformers = pytest.importorskip("transformers")
    monkeypatch.delitem(torch.utils._pytree.SUPPORTED_NODES, transformers.DynamicCache, raising=False)


def filled_cache():
    transformers = pytest.importorskip("transformers")
    cache = transformers.DynamicCache()
    cache.update(torch.ones(1, 2, 3, 4), torch.ones(1, 2, 3, 4), 0)
    return cache


def x():
    return torch.arange(1.0, 5.0)


CASES = {
    "if on data": (Branch, lambda: (x(),), lambda: (-x(),)),
    "loop over data": (Loop, lambda: (x(),), lambda: (x() * 2,)),
    "loop counted by an input": (Counted, lambda: (x(), torch.tensor(2)), lambda: (x(), torch.tensor(3))),
    "dictionary": (Dictionary, lambda: ({"a": x(), "b": x() + 1},), lambda: ({"a": -x(), "b": x()},)),
    "**kwargs": (
        Keywords,
        lambda: {"x": x(), "scale": x() + 2, "offset": x() + 3},
        lambda: {"x": -x(), "scale": x(), "offset": x() * 3},
    ),
    "custom operator": (CustomOperator, lambda: (x(),), lambda: (-x(),)),
    "DynamicCache": (
        TransformersCache,
        lambda: (torch.ones(1, 2, 1, 4), filled_cache()),
        lambda: (torch.full((1, 2, 1, 4), 2.0), filled_cache()),
    ),
    "plain cache": (PlainCache, lambda: (x(), Entries()), lambda: (-x(), Entries())),
}
"""Model, example inputs, and inputs that go another way where there is one."""

TABLE = {
    "if on data": {
        "auto": "1 graph, refuses the other",
        "dynamo": "2 graphs, refuses the other",
        "symbolic_trace": "refused: cannot be used as inputs to control flow",
        "export": "refused: data-dependent expression",
        "aot": "2 graphs",
        "jit.trace": "1 graph, WRONG on the other",
        "jit.script": "1 graph, right",
    },
    "loop over data": {
        "auto": "2 graphs, refuses the other",
        "dynamo": "2 graphs, refuses the other",
        "symbolic_trace": "refused: not 'Proxy'",
        "export": "refused: data-dependent expression",
        "aot": "2 graphs",
        "jit.trace": "1 graph, WRONG on the other",
        "jit.script": "1 graph, right",
    },
    "loop counted by an input": {
        # Dynamo fixes the count and guards it.
        "auto": "1 graph, refuses the other",
        "dynamo": "1 graph, refuses the other",
        "symbolic_trace": "refused: not 'Proxy'",
        "export": "refused: data-dependent expression",
        "aot": "1 graph",
        "jit.trace": "1 graph, WRONG on the other",
        "jit.script": "1 graph, right",
    },
    "dictionary": {
        "auto": "1 graph, right",
        "dynamo": "1 graph, right",
        "symbolic_trace": "1 graph, right",
        "export": "1 graph, right",
        "aot": "1 graph",
        "jit.trace": "1 graph, right",
        "jit.script": "refused: indexing tensor with unsupported index type 'str'",
    },
    "**kwargs": {
        "auto": "1 graph, right",
        "dynamo": "1 graph, right",
        "symbolic_trace": "refused: takes **named",
        "export": "1 graph, right",
        "aot": "1 graph",
        "jit.trace": "refused: is not in forward() method's arguments",
        "jit.script": "refused: can't take variable number of arguments",
    },
    "custom operator": {
        "auto": "1 graph, right",
        "dynamo": "1 graph, right",
        "symbolic_trace": "1 graph, right",
        "export": "1 graph, right",
        "aot": "1 graph",
        "jit.trace": "1 graph, right",
        "jit.script": "1 graph, right",
    },
    "DynamicCache": {
        "auto": "1 graph, right",
        "dynamo": "1 graph, right",
        # The graph calls the cache's own method, with a cache as its input.
        "symbolic_trace": "1 graph, right",
        "export": "refused: Unsupported input type",
        "aot": "1 graph",
        "jit.trace": "refused: cannot infer type",
        "jit.script": "refused: no attribute or method 'update'",
    },
    "plain cache": {
        "auto": "1 graph, right",
        "dynamo": "1 graph, right",
        "symbolic_trace": "refused: cannot be iterated",
        "export": "refused: Unsupported input type",
        "aot": "1 graph",
        "jit.trace": "refused: cannot be traced",
        "jit.script": "refused: no attribute or method 'entries'",
    },
}


def split(inputs):
    return ((), inputs) if isinstance(inputs, dict) else (inputs, {})


def contents(value):
    """A result, and what was left in a cache, as nested lists."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, dict):
        return {name: contents(one) for name, one in value.items()}
    if isinstance(value, Entries):
        return [contents(one) for one in value.entries]
    if isinstance(value, (tuple, list)):
        return [contents(one) for one in value]
    return [contents(layer.keys) for layer in value.layers]


def outcome(model, example, other, method):
    try:
        captured = capture(model, example, method)
    except CaptureError as error:
        return f"refused: {error.failure}"
    number = len([one for one in captured.partitions if one.role == "forward"])
    graphs = f"{number} graph{'s' * (number != 1)}"
    if captured.runner is None:
        return graphs
    args, kwargs = split(other())
    expected = contents((model(*args, **kwargs), args, kwargs))
    args, kwargs = split(other())
    try:
        result = captured.run(*args, **kwargs)
    except (CaptureError, AssertionError) as error:
        if not re.search("another graph|the value that the model reads from", str(error)):
            raise
        return f"{graphs}, refuses the other"
    return f"{graphs}, {'right' if contents((result, args, kwargs)) == expected else 'WRONG on the other'}"


def test_the_table_is_full():
    assert TABLE.keys() == CASES.keys()
    assert all(set(row) == set(capture_methods()) for row in TABLE.values())


@pytest.mark.parametrize("method", capture_methods())
@pytest.mark.parametrize("case", CASES)
def test_what_becomes_of_control_flow(case, method):
    build, example, other = CASES[case]
    found, expected = outcome(build(), example(), other, method), TABLE[case][method]
    if expected.startswith("refused: "):
        assert found.startswith("refused: ")
        assert expected.removeprefix("refused: ") in found
    else:
        assert found == expected


@pytest.mark.parametrize("case", ["if on data", "loop over data", "loop counted by an input"])
def test_where_a_recorded_call_is_wrong_the_result_says_so(case):
    build, example, _ = CASES[case]
    captured = capture(build(), example(), "jit.trace")
    assert any("Fixed at" in caveat and "test_control_flow.py" in caveat for caveat in captured.caveats)
    if case != "if on data":
        # All of this example's values are positive, and so is every value drawn from them.
        assert any("the graph is wrong" in caveat for caveat in captured.caveats)
        assert any(not one.agrees for one in captured.agreements)


@pytest.mark.parametrize("method", ["export", "auto"])
def test_two_inputs_that_are_one_tensor_are_two_inputs_of_the_graph(method):
    """torch.export takes them for one, without a guard, and ignores the other."""
    same = x()
    captured = capture(Keywords(), {"x": same, "scale": x() + 2, "offset": same}, method)
    assert captured.specialised == ()
    for inputs in ({"x": x(), "scale": x() + 2, "offset": x() * 5}, {"x": same, "scale": x() + 2, "offset": same}):
        torch.testing.assert_close(captured.run(**inputs), Keywords()(**inputs))
