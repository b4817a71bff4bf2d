"""A captured graph answers the calls that it was captured for, and refuses every other one by name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import pytest
import torch
from capture_models import METHODS, TRACED, ones
from torch import nn

from fxopt_core.capture import CaptureError, RefusedInputError, capture
from fxopt_core.capture.call_signature import signature_of
from fxopt_core.capture.dimensions import NOTHING_DYNAMIC

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


@pytest.mark.parametrize("method", METHODS)
def test_the_default_device_is_part_of_the_call(method: str) -> None:
    captured = capture(lambda x: x + torch.zeros(3, device="cpu"), (ones(3),), method)
    with torch.device("meta"), pytest.raises(RefusedInputError, match="default device: expected cpu, as at capture"):
        captured.run(torch.ones(3, device="cpu"))
    assert captured.run(ones(3)).tolist() == [1.0] * 3


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
