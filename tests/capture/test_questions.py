"""What a model asks about its inputs and about torch is part of every call of its graph.

Whether a tensor wants gradients, how it lies in memory, its text; and torch's modes and settings.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext, suppress

import pytest
import torch
from capture_models import METHODS, TRACED, ones
from torch import nn

from fxopt_core.capture import CaptureError, RefusedInputError, capture
from fxopt_core.capture.dimensions import NOTHING_DYNAMIC
from fxopt_core.capture.methods.exporting import capture_with_export

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


# Memory, hooks and text; then torch itself.


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
