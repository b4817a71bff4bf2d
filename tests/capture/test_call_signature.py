"""A captured graph answers the calls that it was captured for, and refuses every other one by name."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from contextlib import nullcontext, suppress
from enum import Enum
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from fxopt_core.capture import CaptureError, RefusedInputError, capture
from fxopt_core.capture.call_signature import signature_of
from fxopt_core.capture.dimensions import NOTHING_DYNAMIC
from fxopt_core.capture.methods.exporting import capture_with_export

METHODS = ["export", "symbolic_trace", "auto"]
TRACED = ["export", "auto"]
"""Methods that follow Python's questions about the example; symbolic_trace fails at them."""


def ones(*shape: int, **options: Any) -> torch.Tensor:
    return torch.ones(*shape, **options)


# One tensor given twice, and tensors that overlap.


class Siamese(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.branch = nn.Linear(4, 4)

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return (self.branch(one) - self.branch(other)).square().sum(-1)


class Nested(nn.Module):
    def forward(self, pair: list[torch.Tensor], more: dict[str, torch.Tensor]) -> torch.Tensor:
        return pair[0] * 2 + pair[1] * 3 + more["bias"] * 5


@pytest.mark.parametrize("method", METHODS)
def test_one_tensor_given_twice_is_two_inputs(method: str) -> None:
    torch.manual_seed(0)
    model, same = Siamese(), torch.randn(3, 4)
    captured = capture(model, (same, same), method)
    one, other = torch.randn(3, 4), torch.randn(3, 4)
    torch.testing.assert_close(captured.run(one, other), model(one, other))
    assert captured.run(one, other).min() > 0
    assert captured.run(one, one).count_nonzero() == 0


@pytest.mark.parametrize("method", TRACED)
def test_one_tensor_in_two_containers_is_two_inputs(method: str) -> None:
    same = torch.ones(3)
    captured = capture(Nested(), ([same, same], {"bias": same}), method)
    assert captured.run([ones(3), ones(3) * 0], {"bias": ones(3) * 0}).tolist() == [2.0] * 3
    assert captured.run([ones(3) * 0, ones(3)], {"bias": ones(3) * 0}).tolist() == [3.0] * 3
    assert captured.run([ones(3) * 0, ones(3) * 0], {"bias": ones(3)}).tolist() == [5.0] * 3


@pytest.mark.parametrize("method", METHODS)
def test_views_of_one_another_are_two_inputs(method: str) -> None:
    base = torch.arange(6.0)
    captured = capture(lambda x, y: x * 2 + y, (base[:4], base[2:]), method)
    assert captured.run(ones(4), ones(4) * 0).tolist() == [2.0] * 4
    assert captured.run(base[:4], base[2:]).tolist() == (base[:4] * 2 + base[2:]).tolist()


@pytest.mark.parametrize("method", METHODS)
def test_an_input_that_is_a_parameter_of_the_model_is_an_input(method: str) -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 + self.scale * 3

    model = Scaled()
    captured = capture(model, (model.scale,), method)
    assert captured.run(ones(3, requires_grad=True) * 0).tolist() == [3.0] * 3


@pytest.mark.parametrize("method", METHODS)
def test_inputs_that_overlap_otherwise_than_the_examples_are_refused(method: str) -> None:
    def writes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x + y

    captured = capture(writes, (ones(3), ones(3)), method)
    memory = torch.zeros(5)
    for one, other in ((memory[:3], memory[:3]), (memory[:3], memory[1:4])):
        with pytest.raises(RefusedInputError, match="the memory of y: expected memory of its own"):
            captured.run(one, other)
    same = torch.zeros(3)
    with pytest.raises(RefusedInputError, match="got the same tensor as x"):
        captured.run(same, same)
    assert captured.run(memory[:2].new_zeros(3), torch.zeros(3)).tolist() == [1.0] * 3
    assert memory.count_nonzero() == 0


def test_two_tensors_over_one_array_overlap() -> None:
    def writes(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x + y

    captured, array = capture(writes, (ones(3), ones(3)), "export"), np.zeros(3, dtype=np.float32)
    with pytest.raises(RefusedInputError, match="the memory of y: expected memory of its own"):
        captured.run(torch.from_numpy(array), torch.from_numpy(array))
    assert not array.any()


def test_inputs_may_overlap_less_than_the_examples() -> None:
    same, other = ones(3), ones(3) * 5
    captured = capture(lambda x, y, z: x + y * 2 + z * 3, (same, same, same), "export")
    assert captured.run(same, same, other).tolist() == [18.0] * 3
    with pytest.raises(RefusedInputError, match="the memory of z: expected tensors that overlap as those"):
        captured.run(same, other, other)


def test_pieces_of_one_tensor_that_do_not_overlap_are_taken() -> None:
    captured = capture(lambda x, y: x - y, (ones(2, 3), ones(2, 3) * 2), "export")
    one, other = torch.arange(12.0).reshape(4, 3).split(2)
    torch.testing.assert_close(captured.run(one, other), one - other)


# Facts of the example.


def with_scale(scale: int) -> torch.Tensor:
    tensor: Any = ones(3)
    tensor.scale = scale
    return tensor  # type: ignore[no-any-return]


FACTS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...], str]] = {
    "a branch on the dtype": (
        lambda x: x / 2 if x.is_floating_point() else x // 2,
        (ones(3),),
        (ones(3, dtype=torch.int64),),
        "the dtype of x: expected torch.float32, as at capture; got torch.int64",
    ),
    "another float": (
        lambda x: x.sin(),
        (ones(3),),
        (ones(3, dtype=torch.float64),),
        r"the dtype of x: .*Convert it with \.to\(torch\.float32\)",
    ),
    "a branch on the size": (
        lambda x: x.sum() if x.shape[0] > 2 else x.prod(),
        (ones(3),),
        (ones(2),),
        r"the size of x in dimension 0: expected 3, as at capture; got 2\. Capture with dynamic=True",
    ),
    "a branch on the number of dimensions": (
        lambda x: x.sum(0) if x.dim() > 1 else x,
        (ones(3, 2),),
        (ones(3),),
        "the number of dimensions of x",
    ),
    "a copy that was none": (
        lambda x: x.contiguous().add_(1),
        (ones(3, 3),),
        (ones(3, 3).t(),),
        r"the memory layout of x: expected contiguous, as at capture; got strides \[1, 3\]",
    ),
    "a memory format": (
        lambda x: x.is_contiguous(memory_format=torch.channels_last) + x,
        (ones(2, 3, 4, 4),),
        (ones(2, 3, 4, 4).to(memory_format=torch.channels_last),),
        "the memory layout of x: expected contiguous, as at capture; got channels_last",
    ),
    "repeated elements": (
        lambda x: x.clone().mul_(2),
        (ones(4, 3),),
        (ones(3).expand(4, 3),),
        r"the memory layout of x: .*strides \[0, 1\]",
    ),
    "a number": (lambda x, times: x * times, (ones(3), 2), (ones(3), 3), "times: expected 2, as at capture; got 3"),
    "a number of another type": (lambda x, times: x * times, (ones(3), 1), (ones(3), 1.0), "times: expected 1, .*1.0"),
    "a truth": (lambda x, up: x + 1 if up else x - 1, (ones(3), True), (ones(3), False), "up: expected True"),
    "a text": (lambda x, kind: getattr(x, kind)(), (ones(3), "sin"), (ones(3), "cos"), "kind: expected 'sin'"),
    "none": (
        lambda x, mask: x if mask is None else x * mask,
        (ones(3), None),
        (ones(3), ones(3)),
        "mask: expected None, as at capture; got a tensor of shape",
    ),
    "a tensor that is none": (
        lambda x, mask: x if mask is None else x * mask,
        (ones(3), ones(3)),
        (ones(3), None),
        "mask: expected a tensor, as at capture; got None",
    ),
    "a longer list": (lambda xs: sum(xs), ([ones(3)] * 2,), ([ones(3)] * 3,), r"xs\[2\]: expected arguments nested"),
    "another key": (
        lambda batch: sum(batch.values()),
        ({"a": ones(3)},),
        ({"b": ones(3)},),
        r"batch\['a'\]: expected arguments nested as in the example",
    ),
    "keys in another order": (
        lambda batch: torch.cat([*batch.values()]),
        ({"a": ones(3), "b": torch.zeros(3)},),
        ({"b": torch.zeros(3), "a": ones(3)},),
        "the arguments: .*got 2 values in other containers, or in another order. Pass .* keys in its order",
    ),
    "a parameter": (
        lambda x: x * 2 if isinstance(x, nn.Parameter) else x * 3,
        (ones(3),),
        (nn.Parameter(ones(3)),),
        "the class of x: expected .*Tensor.*, as at capture; got .*Parameter",
    ),
    "an attribute": (
        lambda x: x * getattr(x, "scale", 2),
        (ones(3),),
        (with_scale(3),),
        "the attributes from Python of x: .*'scale', '3'",
    ),
    "an attribute of another value": (
        lambda x: x * getattr(x, "scale", 2),
        (with_scale(2),),
        (with_scale(3),),
        "the attributes from Python of x: .*'scale', '3'",
    ),
    "an argument that the example left out": (
        lambda x, scale=2.0: x * scale,
        (ones(3),),
        (ones(3), 3.0),
        "scale: expected to be left out, as in the example, as at capture; got 3.0",
    ),
}


@pytest.mark.parametrize("name", FACTS)
def test_a_call_of_another_form_is_refused_by_name(name: str) -> None:
    function, example, other, message = FACTS[name]
    captured = capture(function, example, "export")
    expected = function(*example)
    torch.testing.assert_close(captured.run(*example), expected)
    with pytest.raises(RefusedInputError, match=message):
        captured.run(*other)


@pytest.mark.parametrize("name", ["another float", "a copy that was none", "a number", "repeated elements"])
def test_symbolic_trace_refuses_it_too(name: str) -> None:
    function, example, other, message = FACTS[name]
    with pytest.raises(RefusedInputError, match=message):
        capture(function, example, "symbolic_trace").run(*other)


def test_the_callers_tensor_is_not_overwritten_by_a_call_that_is_refused() -> None:
    captured = capture(lambda x: x.contiguous().add_(1), (ones(3, 3),), "export")
    transposed = torch.zeros(3, 3).t()
    with pytest.raises(RefusedInputError):
        captured.run(transposed)
    assert transposed.count_nonzero() == 0


def test_an_example_that_is_not_contiguous_is_captured_as_it_is() -> None:
    for example in (ones(4, 3).t(), ones(4, 6)[:, ::2], ones(3).expand(4, 3), ones(2, 3, 4, 4).mT):
        captured = capture(lambda x: x.reshape(-1) * 2, (example,), "auto")
        assert captured.specialised == ()
        assert all(one.agrees for one in captured.agreements), captured.agreements
        with pytest.raises(RefusedInputError, match="the memory layout of x"):
            captured.run(example.contiguous())


@pytest.mark.parametrize(
    ("example", "larger", "otherwise"),
    [
        (ones(4, 3), ones(6, 3), ones(3, 6).t()),
        (ones(3, 4).t(), ones(3, 6).t(), ones(6, 3)),
        (ones(4, 6)[:, ::2], ones(6, 6)[:, ::2], ones(6, 3)),
        (
            ones(4, 3, 2, 2).to(memory_format=torch.channels_last),
            ones(6, 3, 2, 2).to(memory_format=torch.channels_last),
            ones(6, 3, 2, 2),
        ),
    ],
)
def test_open_sizes_keep_the_order_in_memory(
    example: torch.Tensor, larger: torch.Tensor, otherwise: torch.Tensor
) -> None:
    captured = capture(lambda x: x.contiguous().mul(2), (example,), "export", dynamic={"x": {0: ("n", 2, 9)}})
    assert all(one.agrees for one in captured.agreements), captured.agreements
    assert torch.equal(captured.run(larger), larger * 2)
    with pytest.raises(RefusedInputError, match="the memory layout of x"):
        captured.run(otherwise)


# Gradients and modes.


@pytest.mark.parametrize("method", TRACED)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + 1 if x.requires_grad else x - 1,
        lambda x: x + 1 if torch.is_grad_enabled() and (x * 2).requires_grad else x - 1,
        lambda x: x + 1 if x.is_leaf and x.requires_grad else x - 1,
        lambda x: x + 1 if (x * 2).grad_fn is not None else x - 1,
    ],
)
def test_a_branch_on_gradients_is_refused(method: str, function: Callable[..., torch.Tensor]) -> None:
    captured = capture(function, (ones(3),), method)
    assert captured.run(ones(3)).tolist() == [0.0] * 3
    with pytest.raises(RuntimeError, match=r"(requires_grad|is_leaf|grad_fn) of x: expected|another graph"):
        captured.run(ones(3, requires_grad=True))


@pytest.mark.parametrize(
    "function", [lambda x: x + 1 if x.is_leaf else x - 1, lambda x: x + 1 if x.grad_fn is None else x - 1]
)
def test_a_question_that_dynamo_does_not_guard_is_part_of_the_call(function: Callable[..., torch.Tensor]) -> None:
    leaf = ones(3, requires_grad=True)
    captured = capture(function, (leaf,), "dynamo")
    assert captured.run(leaf).tolist() == [2.0] * 3
    with pytest.raises(RefusedInputError, match=r"(is_leaf|grad_fn) of x: expected"):
        captured.run(leaf * 1)


@pytest.mark.parametrize("method", TRACED)
def test_a_branch_on_the_grad_mode_is_right_or_refused(method: str) -> None:
    captured = capture(lambda x: x + 1 if torch.is_grad_enabled() else x - 1, (ones(3),), method)
    assert captured.run(ones(3)).tolist() == [2.0] * 3
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"is_grad_enabled|another graph|disagree|differs"):
        captured.run(ones(3))


@pytest.mark.parametrize("method", METHODS)
def test_a_model_that_does_not_ask_runs_with_gradients_and_without(method: str) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Dropout(), nn.GELU()).eval()
    captured = capture(model, (ones(2, 3),), method)
    for wanted in (False, True):
        x = torch.randn(2, 3, requires_grad=wanted)
        torch.testing.assert_close(captured.run(x), model(x))
        with torch.no_grad():
            torch.testing.assert_close(captured.run(x), model(x))


@pytest.mark.parametrize("method", METHODS)
def test_autocast_and_the_default_dtype_are_part_of_the_call(method: str) -> None:
    captured = capture(nn.Linear(3, 3), (ones(2, 3),), method)
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(RefusedInputError, match=r"autocast on cpu: expected off, as at capture; got torch.bfloat16"),
    ):
        captured.run(ones(2, 3))
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(RefusedInputError, match="default dtype"):
            captured.run(ones(2, 3, dtype=torch.float32))
    finally:
        torch.set_default_dtype(torch.float32)


# How the call is written.


class Arguments(nn.Module):
    def forward(
        self, x: torch.Tensor, y: torch.Tensor | None = None, *, scale: float = 2.0, **others: torch.Tensor
    ) -> torch.Tensor:
        result = x * scale if y is None else x * scale + y
        return sum(others.values(), start=result)


@pytest.mark.parametrize("method", ["export", "auto"])
def test_a_call_may_be_written_otherwise_than_the_example(method: str) -> None:
    x, y, z = ones(3), ones(3) * 10, ones(3) * 100
    captured = capture(Arguments(), {"x": x, "y": y, "more": z}, method)
    for args, kwargs in (((x, y), {"more": z}), ((x,), {"more": z, "y": y}), ((), {"more": z, "y": y, "x": x})):
        assert captured.run(*args, **kwargs).tolist() == [112.0] * 3
    assert captured.run(x, y, scale=2.0, more=z).tolist() == [112.0] * 3
    with pytest.raises(RefusedInputError, match="scale: expected to be left out"):
        captured.run(x, y, scale=3.0, more=z)
    with pytest.raises(RefusedInputError, match="other: expected to be left out"):
        captured.run(x, y, more=z, other=z)
    with pytest.raises(RefusedInputError, match="the arguments: expected"):
        captured.run(x, y)
    with pytest.raises(RefusedInputError, match="y: expected a tensor, as at capture; got None"):
        captured.run(x, more=z)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        captured.run(y=y, more=z)


def test_any_number_of_positional_arguments() -> None:
    captured = capture(lambda *xs: sum(xs), (ones(3), ones(3)), "export")
    assert captured.run(ones(3), ones(3)).tolist() == [2.0] * 3
    with pytest.raises(RefusedInputError, match="the arguments"):
        captured.run(ones(3), ones(3), ones(3))


def test_fewer_of_any_number_of_arguments_are_refused() -> None:
    captured = capture(lambda x, *more: x * 2 + sum(more), (ones(3), ones(3)), "export")
    assert captured.run(ones(3), ones(3)).tolist() == [3.0] * 3
    for others in ((), (ones(3), ones(3))):
        with pytest.raises(RefusedInputError, match="the arguments: expected 2 by position"):
            captured.run(ones(3), *others)


def in_their_order(**features: torch.Tensor) -> torch.Tensor:
    return torch.cat([one * number for number, one in enumerate(features.values(), start=1)])


@pytest.mark.parametrize("method", TRACED)
def test_what_comes_as_keywords_of_any_name_keeps_its_order(method: str) -> None:
    captured = capture(in_their_order, {"a": ones(1), "b": ones(1) * 10}, method)
    assert captured.run(a=ones(1), b=ones(1) * 10).tolist() == [1.0, 20.0]
    with pytest.raises(
        RefusedInputError, match=r"the arguments: expected \['a', 'b'\], as at capture; got \['b', 'a'\]"
    ):
        captured.run(b=ones(1) * 10, a=ones(1))


@pytest.mark.parametrize("method", TRACED)
def test_a_size_is_taken_as_an_argument(method: str) -> None:
    captured = capture(lambda x, size: x.reshape(size) + 1, (ones(6), torch.Size([2, 3])), method)
    assert captured.run(ones(6), torch.Size([2, 3])).tolist() == [[2.0] * 3] * 2
    with pytest.raises(RefusedInputError, match=r"size\[0\]: expected 2, as at capture; got 3"):
        captured.run(ones(6), torch.Size([3, 2]))


class Mode(Enum):
    DOUBLE = 2
    TRIPLE = 3


def test_a_refused_choice_is_told_by_its_name() -> None:
    captured = capture(lambda x, mode: x * mode.value, (ones(3), Mode.DOUBLE), "export")
    with pytest.raises(
        RefusedInputError, match=r"mode: expected <Mode\.DOUBLE: 2>, as at capture; got <Mode\.TRIPLE: 3>"
    ):
        captured.run(ones(3), Mode.TRIPLE)


def test_an_argument_that_cannot_be_compared_is_said_to_be_one() -> None:
    with pytest.raises(CaptureError, match=r"ndarray are the same is not known\. Take and return tensors"):
        capture(lambda x, other: x + torch.as_tensor(other), (ones(3), np.ones(3, "f")), "auto")


def test_a_lazy_module_is_to_be_called_first() -> None:
    model = nn.Sequential(nn.LazyLinear(4))
    with pytest.raises(
        CaptureError, match=r"self\.0\.weight has no shape yet.*call the model on the example inputs once"
    ):
        capture(model, (ones(2, 3),), "auto")
    model(ones(2, 3))
    assert capture(model, (ones(2, 3),), "auto").run(ones(2, 3)).equal(model(ones(2, 3)))


# What else a model asks.


OF_STEPS = {
    "one row": (ones(1, 4), ones(4, 1).t()),
    "one row of a wider tensor": (ones(1, 4), ones(1, 8)[:, :4]),
    "no element": (ones(0, 3), ones(3, 0).t()),
}


@pytest.mark.parametrize("method", TRACED)
@pytest.mark.parametrize("name", OF_STEPS)
def test_steps_that_nobody_takes_can_be_asked_for(name: str, method: str) -> None:
    example, other = OF_STEPS[name]
    assert example.stride() != other.stride()
    captured = capture(lambda x: x.sum() * 0 + x.stride(0) * 10 + x.stride(1), (example,), method)
    captured.run(example)
    with pytest.raises(RefusedInputError, match=r"the memory layout of x: expected .*strides"):
        captured.run(other)
    assert capture(lambda x: x * 2, (example,), method).run(other).shape == other.shape


IN_WORDS = {
    "str": lambda x: x * 2 if "nan" in str(x) else x * 3,
    "repr": lambda x: x * 2 if "nan" in repr(x) else x * 3,
    "an f-string": lambda x: x * 2 if "nan" in f"{x}" else x * 3,
    "a key": lambda x: x * {"tensor([nan])": 2}.get(str(x), 3),
}


@pytest.mark.parametrize("way", ["export", "strict", "auto"])
@pytest.mark.parametrize("name", IN_WORDS)
def test_the_text_of_a_tensor_is_its_values(name: str, way: str) -> None:
    model, x = IN_WORDS[name], torch.tensor([float("nan")])
    if way == "auto":
        captured = capture(model, (ones(1),), way)
        assert captured.run(ones(1)).tolist() == [3.0]
        with suppress(CaptureError):  # refused, where what Python did in between is part of a graph
            torch.testing.assert_close(captured.run(x), model(x), equal_nan=True)
        return
    with pytest.raises(Exception, match="writes a tensor as text" if way == "export" else "text|Unsupported|graph"):
        capture_with_export(model, (ones(1),), {}, NOTHING_DYNAMIC, strict=way == "strict")


@pytest.mark.parametrize("name", ["_backward_hooks", "_post_accumulate_grad_hooks"])
def test_whether_a_tensor_has_hooks_can_be_asked(name: str) -> None:
    example = ones(3, requires_grad=True)
    captured = capture(lambda x: x * 2 if getattr(x, name) else x * 3, (example,), "export")
    assert captured.run(example).tolist() == [3.0] * 3
    register = "register_hook" if name == "_backward_hooks" else "register_post_accumulate_grad_hook"
    getattr(example, register)(lambda gradient: None)
    with pytest.raises(RefusedInputError, match=f"{name} of x: expected False, as at capture; got True"):
        captured.run(example)


def test_what_only_a_copy_answers_is_refused_with_words_that_help() -> None:
    captured = capture(lambda x: x * 2 if x.grad_fn is None else x * 3, (ones(3, requires_grad=True) * 2,), "export")
    with pytest.raises(RefusedInputError, match=r"grad_fn of x: .* a leaf of autograd.* Pass x\.detach\(\)\.clone\(\)"):
        captured.run(ones(3, requires_grad=True) * 2)
    assert captured.run(ones(3, requires_grad=True)).tolist() == [2.0] * 3


def part_of_a_larger_tensor() -> torch.Tensor:
    return ones(15)[3:].view(3, 4)


OF_MEMORY = {
    "storage_offset": lambda x: x * 2 if x.storage_offset() == 0 else x * 3,
    "_is_view": lambda x: x * 2 if not x._is_view() else x * 3,
    "_base": lambda x: x * 2 if x._base is None else x * 3,
    "untyped_storage": lambda x: x * 2 if x.untyped_storage().nbytes() == 48 else x * 3,
}


@pytest.mark.parametrize("method", TRACED)
@pytest.mark.parametrize("question", OF_MEMORY)
def test_what_a_model_asks_of_memory_is_part_of_the_call(question: str, method: str) -> None:
    captured = capture(OF_MEMORY[question], (ones(3, 4),), method)
    assert captured.run(ones(3, 4)).tolist() == [[2.0] * 4] * 3
    with pytest.raises(RefusedInputError, match=f"{question} of x"):
        captured.run(part_of_a_larger_tensor())


@pytest.mark.parametrize("method", METHODS)
def test_a_model_that_does_not_ask_takes_views_and_threads_as_they_come(method: str) -> None:
    captured = capture(lambda x: x * 2, (ones(3, 4),), method)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(threads + 1)
        with torch.inference_mode():
            assert captured.run(part_of_a_larger_tensor()).tolist() == [[2.0] * 4] * 3
    finally:
        torch.set_num_threads(threads)


OF_TORCH = {
    "is_inference_mode_enabled": (torch.inference_mode, None),
    "are_deterministic_algorithms_enabled": (
        lambda: torch.use_deterministic_algorithms(True),
        lambda: torch.use_deterministic_algorithms(False),
    ),
    "get_float32_matmul_precision": (
        lambda: torch.set_float32_matmul_precision("medium"),
        lambda: torch.set_float32_matmul_precision("highest"),
    ),
    "get_num_threads": (
        lambda: torch.set_num_threads(torch.get_num_threads() + 1),
        lambda: torch.set_num_threads(torch.get_num_threads() - 1),
    ),
}


@pytest.mark.parametrize(
    ("question", "way"),
    [*((question, way) for question in OF_TORCH for way in TRACED), ("are_deterministic_algorithms_enabled", "strict")],
)
def test_what_a_model_asks_of_torch_is_part_of_the_call(question: str, way: str) -> None:
    answer = getattr(torch, question)()

    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if getattr(torch, question)() == answer else x * 3

    if way == "strict":
        captured = capture_with_export(model, (ones(3),), {}, NOTHING_DYNAMIC, strict=True)
    else:
        captured = capture(model, (ones(3),), way)
    assert captured.run(ones(3)).tolist() == [2.0] * 3
    switch, back = OF_TORCH[question]
    with torch.inference_mode() if back is None else nullcontext():
        if back is not None:
            switch()
        try:
            with pytest.raises(RefusedInputError, match=question):
                captured.run(ones(3))
        finally:
            if back is not None:
                back()


SETTINGS = {
    "torch.get_autocast_dtype()": (
        lambda: torch.get_autocast_dtype("cpu") == torch.bfloat16,
        lambda: torch.autocast("cpu", torch.float16, enabled=False),
    ),
    "torch.is_autocast_cache_enabled()": (
        lambda: torch.is_autocast_cache_enabled(),
        lambda: torch.autocast("cpu", enabled=False, cache_enabled=False),
    ),
    "torch.backends.cuda.flash_sdp_enabled()": (
        lambda: torch.backends.cuda.flash_sdp_enabled(),
        lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
    ),
    "torch.backends.cudnn.deterministic": (
        lambda: not torch.backends.cudnn.deterministic,
        lambda: torch.backends.cudnn.flags(deterministic=True),
    ),
}


@pytest.mark.parametrize(
    ("question", "way"),
    # While it exports, torch itself switches the cache off.
    [(question, way) for question in SETTINGS for way in TRACED if "cache" not in question or way == "auto"],
)
def test_settings_for_which_a_model_asks_are_part_of_the_call(question: str, way: str) -> None:
    ask, other = SETTINGS[question]

    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if ask() else x * 3

    captured = capture(model, (ones(3),), way)
    assert captured.run(ones(3)).tolist() == [2.0] * 3
    with other(), pytest.raises(RefusedInputError, match=re.escape(question)):
        captured.run(ones(3))
    with other():  # who doesn't ask does not care
        assert capture(lambda x: x * 2, (ones(3),), "export").run(ones(3)).tolist() == [2.0] * 3


def test_what_torch_asks_for_itself_is_not_part_of_the_call() -> None:
    model = nn.Sequential(nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)).eval()
    captured, x = capture(model, (ones(1, 1, 2, 2),), "export"), ones(1, 1, 2, 2)
    with torch.backends.cudnn.flags(enabled=False, deterministic=True):
        assert captured.run(x).equal(model(x))
    names = ("enabled", "deterministic", "benchmark", "allow_tf32")
    assert all(isinstance(vars(type(torch.backends.cudnn))[name], torch.backends.ContextProp) for name in names)


@pytest.mark.parametrize("method", METHODS)
def test_the_default_device_is_part_of_the_call(method: str) -> None:
    captured = capture(lambda x: x + torch.zeros(3, device="cpu"), (ones(3),), method)
    with torch.device("meta"), pytest.raises(RefusedInputError, match="default device: expected cpu, as at capture"):
        captured.run(torch.ones(3, device="cpu"))
    assert captured.run(ones(3)).tolist() == [1.0] * 3


# Values that Python takes for equal.


@pytest.mark.parametrize(
    ("method", "example", "other"),
    [
        *((method, *zeros) for method in [*METHODS, "dynamo"] for zeros in ((0.0, -0.0), (-0.0, 0.0))),
        *((method, 0j, other) for method in METHODS[1:] for other in (complex(-0.0, 0.0), complex(0.0, -0.0))),
    ],
)
def test_zeros_of_another_sign_are_another_value(method: str, example: complex, other: complex) -> None:
    captured = capture(lambda x, scale: x * scale, (ones(3), example), method)
    captured.run(ones(3), example)
    with pytest.raises(RuntimeError, match=r"scale: expected|another graph"):
        captured.run(ones(3), other)


def test_numbers_of_numpy_and_sets_are_compared_to_the_last_bit() -> None:
    for example, other in (
        (np.float64(0.0), np.float64(-0.0)),
        (np.float32(0.0), np.float32(-0.0)),
        (np.zeros(2), -np.zeros(2)),
        (frozenset({0.0}), frozenset({-0.0})),
        (torch.float64, torch.float16),
        (torch.relu, torch.sigmoid),
        (torch.channels_last, torch.contiguous_format),
    ):
        signature = signature_of(lambda x, value: x, (ones(1), example), {}, NOTHING_DYNAMIC)
        signature.accept((ones(1), copy.deepcopy(example)), {})
        with pytest.raises(RefusedInputError, match="value: expected"):
            signature.accept((ones(1), other), {})


def test_symbolic_trace_refuses_another_dtype_as_an_argument() -> None:
    captured = capture(lambda x, dtype: x.to(dtype), (ones(3), torch.float64), "symbolic_trace")
    assert captured.run(ones(3), torch.float64).dtype is torch.float64
    with pytest.raises(RefusedInputError, match=r"dtype: expected torch\.float64"):
        captured.run(ones(3), torch.float16)


# Sizes of 0 and 1.


def squeezed_where_one(x: torch.Tensor) -> torch.Tensor:
    return x.squeeze(0) if x.shape[0] == 1 else x


@pytest.mark.parametrize("method", METHODS[::2])
def test_a_size_of_one_is_taken_only_where_model_and_graph_agree(method: str) -> None:
    wrong = capture(squeezed_where_one, (ones(3, 4),), method, dynamic=True)
    assert wrong.run(ones(5, 4)).shape == (5, 4)
    with pytest.raises(RefusedInputError, match=r"size of x in dimension 0: expected 2 or more, .* got 1"):
        wrong.run(ones(1, 4))
    assert any("sizes of one: dimension 0 of x = 1" in caveat for caveat in wrong.caveats)
    assert not wrong.specialised

    right = capture(nn.Linear(4, 2), (ones(3, 4),), method, dynamic=True)
    assert right.run(ones(1, 4)).shape == (1, 2)
    assert not any("size" in caveat and "one" in caveat for caveat in right.caveats)


@pytest.mark.parametrize("method", METHODS[::2])
def test_sizes_that_were_not_compared_are_refused_by_name(method: str) -> None:
    captured = capture(lambda x, y: x.sum(0) + y.sum(0), (ones(3, 4), ones(3, 4)), method, dynamic=True)
    assert captured.run(ones(1, 4), ones(1, 4)).tolist() == [2.0] * 4
    for call in ((ones(0, 4), ones(0, 4)), (ones(1, 4), ones(3, 4))):
        with pytest.raises(RefusedInputError, match="size of x in dimension 0: expected 2 or more"):
            captured.run(*call)


@pytest.mark.parametrize("least", [0, 1])
def test_a_named_range_is_compared_at_each_of_its_small_sizes(least: int) -> None:
    with pytest.raises(CaptureError, match="rows = 1"):
        capture(squeezed_where_one, (ones(3, 4),), "export", dynamic={"x": {0: ("rows", least, 64)}})


def test_small_sizes_of_two_ranges_are_compared_in_every_company() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * 3 if x.shape[0] == 1 and x.shape[1] > 1 else x * 2

    with pytest.raises(CaptureError, match="rows = 1, columns = 4"):
        capture(model, (ones(3, 4),), "export", dynamic={"x": {0: ("rows", 1, 64), 1: ("columns", 1, 64)}})
