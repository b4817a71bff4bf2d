"""The demonstration of unit 1: the stack is sorted into layers, the entrances add, and it runs without Jupyter."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fxopt_workbench.internals import native_stack as module
from fxopt_workbench.internals.native_stack import LAYERS, NoNativeStackError, as_table, frames_of, native_stack
from fxopt_workbench.internals.u1_architecture import FAILS_INSIDE, compare, entrances, sizes

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="PyTorch names its C++ functions on Linux only")


@LINUX
def test_one_addition_goes_through_every_layer_from_python_to_tensoriterator() -> None:
    frames = native_stack(FAILS_INSIDE)
    met = list(dict.fromkeys(frame.layer for frame in frames))
    assert met == [name for name, _ in LAYERS]
    functions = [frame.function for frame in frames]
    assert functions[0] == "torch::autograd::THPVariable_add"
    order = ["at::_ops::add_Tensor::call", "torch::autograd::VariableType::add_Tensor"]
    order += ["at::_ops::add_Tensor::redispatch", "at::wrapper_CPU_add_Tensor", "at::TensorIteratorBase::build"]
    assert [functions.index(name) for name in order] == sorted(functions.index(name) for name in order)
    assert len(as_table(frames).rows) == len(frames)


def test_frames_are_read_from_a_message_and_others_are_left_out() -> None:
    message = """It does not fit
Exception raised from somewhere (most recent call first):
#4 c10::Error::Error(int) from /a/libc10.so:1
#5 at::TensorIteratorBase::build(at::TensorIteratorConfig&) from /a/libtorch_cpu.so:2
#6 at::_ops::relu::call(at::Tensor const&) from /a/libtorch_cpu.so:3
#7 torch::autograd::THPVariable_relu(_object*, _object*) from /a/libtorch_python.so:4
"""
    assert [(frame.layer, frame.function) for frame in frames_of(message)] == [
        ("Python binding", "torch::autograd::THPVariable_relu"),
        ("dispatcher", "at::_ops::relu::call"),
        ("TensorIterator", "at::TensorIteratorBase::build"),
    ]


def test_what_has_no_stack_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([("", 0, ""), ("a message without frames", 0, ""), ("", 1, "NameError: nothing")])

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        output, code, errors = next(answers)
        return subprocess.CompletedProcess("", code, output, errors)

    monkeypatch.setattr(module.subprocess, "run", run)
    with pytest.raises(ValueError, match="does not fail, so there is no stack"):
        native_stack("torch.ones(2)")
    with pytest.raises(NoNativeStackError, match="It says: a message without frames"):
        native_stack("torch.ones(2)")
    with pytest.raises(ValueError, match="did not get as far as PyTorch: NameError"):
        native_stack("nothing")


def test_every_entrance_is_timed_and_sizes_too() -> None:
    chosen = entrances(2)
    table = compare(chosen, 2, repeats=1)
    assert [row[0] for row in table.rows] == [one.name for one in chosen]
    assert [row[0] for row in sizes(2, (1, 1000), repeats=1).rows] == ["1", "1,000"]
    for calls, elements in ((0, 1), (1, 0)):
        with pytest.raises(ValueError, match="must be at least 1"):
            entrances(calls, elements)


def test_it_runs_without_jupyter_and_prints_its_profile() -> None:
    command = [sys.executable, "-m", "fxopt_workbench.internals.u1_architecture", "--calls", "3", "--repeats", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    for name in ("a + b", "torch.add(a, b)", "inference_mode", "out= given"):
        assert f"entrance: {name}" in done.stdout, "no range of the profile has this name"
    assert "When the layers stop mattering" in done.stdout
    assert "Self CPU" in done.stdout
    assert "aten::add" in done.stdout
