"""Quotations of PyTorch's source come from what is installed, and say so where it is gone."""

from __future__ import annotations

import re

import pytest
import torch

from fxopt_workbench.torch_sources import SourceNotFoundError, installed, source

VERSION = torch.__version__.split("+")[0]


@pytest.mark.parametrize(
    ("file", "symbol", "says"),
    [
        ("c10/core/TensorImpl.h", "storage_offset_", "int64_t storage_offset_ = 0;"),
        ("c10/core/TensorImpl.h", "TensorImpl", "struct C10_API TensorImpl : public"),
        ("c10/core/TensorImpl.h", "storage_offset", "return storage_offset_;"),
        ("c10/core/TensorImpl.h", "VariableVersion", "struct C10_API VariableVersion {"),
        ("c10/core/DispatchKeySet.h", "highestPriorityTypeId", "highestFunctionalityKey()"),
        ("c10/core/impl/LocalDispatchKeySet.h", "LocalDispatchKeySet", "DispatchKeySet excluded_;"),
        ("aten/src/ATen/native/native_functions.yaml", "add.Tensor", "structured_delegate: add.out"),
        ("aten/src/ATen/native/tags.yaml", "pointwise", "Pointwise operators"),
        ("tools/autograd/derivatives.yaml", "mul.Tensor", "other: mul_tensor_backward(grad, self"),
        ("aten/src/ATen/core/dispatch/Dispatcher.h", "call", "TypedOperatorHandle<Return(Args...)>& op"),
        ("torch/csrc/autograd/saved_variable.h", "SavedVariable", "class TORCH_API SavedVariable {"),
        ("torch/library.h", "TORCH_LIBRARY", "#define TORCH_LIBRARY("),
        ("torch/nn/modules/module.py", "Module.register_buffer", "persistent: bool = True"),
        ("torchgen/model.py", "DispatchKey", "class DispatchKey(Enum):"),
    ],
)
def test_a_symbol_is_quoted_where_it_is_defined(file: str, symbol: str, says: str) -> None:
    found = source(file, symbol, most=10_000)
    assert says in found.text
    lines = installed(file).read_text().splitlines()
    assert lines[found.first - 1 : found.last] == found.text.splitlines()
    assert found.link == f"https://github.com/pytorch/pytorch/blob/v{VERSION}/{file}#L{found.first}-L{found.last}"
    assert found.where in str(found)
    assert str(found.link) in found._repr_markdown_()


def test_a_name_with_underscores_is_no_bold_print() -> None:
    shown = source("torch/cuda/__init__.py", "set_sync_debug_mode", most=1)._repr_markdown_()
    assert shown.startswith(r"[torch/cuda/\_\_init\_\_.py, line")


def test_a_class_ends_where_its_braces_close() -> None:
    found = source("c10/core/TensorImpl.h", "VariableVersion", most=10_000)
    assert found.text.rstrip().endswith("};")
    assert found.text.count("{") == found.text.count("}")
    assert "struct C10_API TensorImpl" not in found.text


def test_a_class_that_begins_twice_for_two_systems_ends_once() -> None:
    found = source("torch/csrc/autograd/generated/Functions.h", "AddBackward0", most=10_000)
    assert found.text.startswith("#ifdef")
    assert found.text.rstrip().endswith("};")
    assert "at::Scalar alpha;" in found.text
    assert "AddBackward1" not in found.text


def test_a_comment_between_arguments_hides_no_bracket() -> None:
    found = source("torch/csrc/autograd/custom_function.h", "CppNode", most=10_000)
    assert found.text.rstrip().endswith("};")
    assert "struct ExtractVariables" not in found.text


def test_what_is_long_is_cut_and_says_so() -> None:
    found = source("c10/core/TensorImpl.h", "TensorImpl", most=5)
    assert found.last - found.first == 4
    assert found.cut > 1000
    assert f"({found.cut} more lines are not shown.)" in str(found)


def test_a_place_can_be_chosen() -> None:
    lines = installed("c10/core/TensorImpl.h").read_text().splitlines()
    first, second = (source("c10/core/TensorImpl.h", "storage_offset_", occurrence=number) for number in (1, 2))
    assert first.first < second.first
    assert [lines[found.last - 1].count("storage_offset_") for found in (first, second)] == [1, 1]
    with pytest.raises(
        SourceNotFoundError, match=r"mentions 'storage_offset_' in \d+ lines; there is no occurrence 999"
    ):
        source("c10/core/TensorImpl.h", "storage_offset_", occurrence=999)


def test_what_the_build_makes_has_no_link() -> None:
    found = source("aten/src/ATen/ops/add.h", "add")
    assert found.link is None
    assert "The build makes this file" in str(found)
    assert source("torch/csrc/autograd/generated/Functions.h", "AddBackward0", most=1).link is None
    assert "](" not in found._repr_markdown_().splitlines()[0]


@pytest.mark.parametrize(
    ("file", "symbol", "says"),
    [
        ("c10/core/TensorImp.h", "x", r"brings no c10/core/TensorImp\.h\. Near it lie c10/core/TensorImpl\.h"),
        ("c10/core/TensorImpl.h", "storage_ofset_", "does not define 'storage_ofset_'. It mentions storage_offset_"),
        ("aten/src/ATen/native/BinaryOps.cpp", "add", r"Near it lie aten/src/ATen/native/BinaryOps\.h.*headers"),
        ("aten/src/ATen/native/native_functions.yaml", "add.Tensr", "It mentions add.Tensor"),
        (
            "torch/csrc/autograd/function.h",
            "Node",
            r"'Node'\. It mentions it in \d+ lines?; `occurrence=1` quotes",
        ),
        ("torch/nn/modules/module.py", "Module.no_such_method", "does not define"),
        # What one operator has in common with others is no mention of it.
        (
            "aten/src/ATen/native/native_functions.yaml",
            "nosuch.Tensor",
            r"'nosuch\.Tensor'\. (?!It mentions it)",
        ),
        ("somewhere/else.h", "x", "is no path in PyTorch's repository of which the wheel brings anything"),
        ("c10/../../secret.h", "x", "brings no"),
    ],
)
def test_what_is_gone_is_an_error_that_says_what_comes_near(file: str, symbol: str, says: str) -> None:
    with pytest.raises(SourceNotFoundError, match=says if re.search(r"\\", says) else re.escape(says)):
        source(file, symbol)
