"""The mirror of the build: what it makes of entries, formulas and kernels, and what it refuses."""

from __future__ import annotations

import sys

import pytest
import torch
import yaml

from fxopt_workbench.internals.formulas import DEEPEST, FUNCTIONS, LONGEST, METHODS, FormulaError, evaluate
from fxopt_workbench.internals.mirror import BuildError, Structured, build, read_derivatives, read_operators
from fxopt_workbench.torch_sources import installed

ENTRIES = """
- func: twice(Tensor self, Tensor other) -> Tensor
  structured_delegate: twice.out
  variants: function, method

- func: twice_(Tensor(a!) self, Tensor other) -> Tensor(a!)
  structured_delegate: twice.out

- func: twice.out(Tensor self, Tensor other, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  structured_inherits: TensorIteratorBase
  dispatch:
    CPU, CUDA: twice_out
"""

FORMULAS = """
- name: twice(Tensor self, Tensor other) -> Tensor
  self: 2 * grad * other
  other: 2 * grad * self
"""

SPACE = "fxopt_test_mirror"


def twice_out(x: torch.Tensor, other: torch.Tensor, out: torch.Tensor) -> None:
    out.copy_(2 * x * other)


def test_one_kernel_serves_all_variants_with_a_derivative() -> None:
    with torch.library._scoped_library(SPACE, "DEF") as library:
        found = build(library, read_operators(ENTRIES), {"twice_out": twice_out}, FORMULAS)
        assert (found["twice"].node, set(found["twice"].saved)) == ("TwiceBackward0", {"self", "other"})
        twice, in_place = (getattr(getattr(torch.ops, SPACE), name) for name in ("twice", "twice_"))
        x, row = torch.arange(6.0).view(2, 3), torch.ones(3)
        assert torch.equal(twice(x, row), 2 * x)
        assert torch.equal(in_place(x.clone(), row), 2 * x)
        assert torch.equal(twice.out(x, row, out=torch.empty(0)), 2 * x)
        assert twice(torch.arange(3), torch.arange(3)).dtype == torch.float32
        assert twice(x.to("meta"), row.to("meta")).shape == (2, 3)
        with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
            in_place(row.clone(), x)
        with pytest.raises(RuntimeError, match="can't be cast"):
            twice.out(x, row, out=torch.empty(0, dtype=torch.int64))
        doubles = x.double().requires_grad_(), row.double().requires_grad_()
        assert torch.autograd.gradcheck(twice, doubles)
        assert torch.autograd.gradgradcheck(twice, doubles)
        with pytest.raises(RuntimeError, match="the mirror has no gradients for variants that write"):
            in_place(x.requires_grad_(), row)
        torch.library.opcheck(twice.default, (x, row))


def test_an_operator_without_a_formula_has_no_derivative() -> None:
    with torch.library._scoped_library(SPACE, "DEF") as library:
        build(library, read_operators(ENTRIES), {"twice_out": twice_out})
        x = torch.ones(2, requires_grad=True)
        with pytest.raises(NotImplementedError, match=f"derivative for {SPACE}::twice is not implemented"):
            getattr(torch.ops, SPACE).twice(x, x).sum().backward()


def test_kernels_of_their_own_and_composite_operators_are_built_as_well() -> None:
    entries = """
- func: alone(Tensor self) -> Tensor
  dispatch:
    CPU: alone_cpu

- func: open(Tensor self) -> Tensor
"""
    with torch.library._scoped_library(SPACE, "DEF") as library:
        build(library, read_operators(entries), {"alone_cpu": torch.neg, "open": lambda x: x * 3})
        space = getattr(torch.ops, SPACE)
        x = torch.ones(2, requires_grad=True)
        assert torch.equal(space.alone(x.detach()), -torch.ones(2))
        space.open(x).sum().backward()
        assert torch.equal(x.grad, torch.full((2,), 3.0))  # type: ignore[arg-type]


def test_what_a_kernel_does_not_write_is_not_a_number() -> None:
    assert Structured(lambda x, out: None).functional(torch.ones(2)).isnan().all()


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        ("func: one(Tensor self) -> Tensor", "is a list of entries; each begins with a dash"),
        ("- func: [", "native_functions.yaml is not YAML"),
        ("- func: &a one(Tensor self) -> Tensor", "has an anchor or an alias"),
        ("- func: one(Tensor self) -> Tensr", "torchgen refuses native_functions.yaml: unrecognized type Tensr"),
        ("- func: one(Tensor self) -> Tensor\n  structured_delegate: one.out", "one.out is missing"),
        ("- func: one(Tensor self) -> Tensor\n  tags: no_such_tag", "illegal tag no_such_tag"),
        ("- name: one", "torchgen refuses native_functions.yaml: Missed 'func'"),
        ("[" * 19_000, "more brackets than the mirror reads"),
        ("x" * 30_000, "has 30000 characters; the mirror reads 20000 at most"),
    ],
)
def test_entries_that_are_wrong_are_refused(entries: str, says: str) -> None:
    with pytest.raises(BuildError) as caught:
        read_operators(entries)
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("formulas", "says"),
    [
        ("- self: grad", "has no `name:`"),
        ("- name: twice\n  self: grad", "torchgen refuses derivatives.yaml"),
        ("- name: none(Tensor self) -> Tensor\n  self: grad", "could not find ATen function"),
        ("- name: twice(Tensor self, Tensor other) -> Tensor\n  self: [grad]", "is no formula"),
    ],
)
def test_formulas_that_belong_to_nothing_are_refused(formulas: str, says: str) -> None:
    with pytest.raises(BuildError) as caught:
        read_derivatives(formulas, read_operators(ENTRIES))
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("entries", "kernels", "says"),
    [
        (ENTRIES, {}, "the linker finds no kernel twice_out; there are: none"),
        (ENTRIES.replace("  structured_inherits: TensorIteratorBase\n", ""), {}, "inherits nothing"),
        (ENTRIES.replace("CPU, CUDA", "CUDA"), {}, "twice.out has no kernel for CPU"),
        ("- func: one(Tensor self) -> Tensor\n  dispatch:\n    CUDA: one", {}, "one has no kernel for CPU"),
    ],
)
def test_what_the_mirror_cannot_build_is_refused(entries: str, kernels: dict[str, object], says: str) -> None:
    with torch.library._scoped_library(SPACE, "DEF") as library, pytest.raises(BuildError) as caught:
        build(library, read_operators(entries), kernels)  # type: ignore[arg-type]
    assert says in str(caught.value)


def test_entries_of_pytorch_itself_are_read() -> None:
    text = installed("aten/src/ATen/native/native_functions.yaml").read_text()
    wanted = ["hardshrink.out", "hardshrink", "tanh", "tanh_", "tanh.out"]
    chosen = [one for one in yaml.safe_load(text) if one["func"].split("(")[0] in wanted]
    operators = read_operators(yaml.safe_dump(chosen))
    assert sorted(str(one.func.name) for one in operators.functions) == sorted(wanted)
    assert "structured_hardshrink_out" in operators.declarations("CPU")
    assert operators.function("tanh").structured_delegate is not None
    with pytest.raises(BuildError, match=r"has no entry for cosh; there are: "):
        operators.function("cosh")
    with pytest.raises(BuildError, match="'CPUU' is no dispatch key"):
        operators.declarations("CPUU")


X = torch.tensor([0.5, -2.0])


@pytest.mark.parametrize(
    ("formula", "wanted"),
    [
        ("grad * (1 - x.square())", 3 * (1 - X * X)),
        ("-x / 2", -X / 2),
        ("where(x > 0, x, 0.0)", X.clamp(min=0)),
        ("tanh_backward(grad, tanh(x))", 3 * (1 - X.tanh() ** 2)),
        ("x.pow(3).neg() + 1 / x", -(X**3) + 1 / X),
        ("grad * at::tanh(x)", 3 * X.tanh()),
    ],
)
def test_a_formula_is_evaluated(formula: str, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(evaluate(formula, {"x": X, "grad": torch.tensor(3.0)}), wanted)


@pytest.mark.parametrize(
    ("formula", "says"),
    [
        ("x ** 2", "C++ has no operator **"),
        ("1 / 2 * x", "1 / 2 is a division of whole numbers in C++: write 1.0 / 2"),
        ("y * 2", "nothing is called 'y' here; there are x"),
        ("x.sum(dim=0)", "no keyword arguments"),
        ("x.backward()", "does not know the function `x.backward`"),
        ("x.numpy()", "does not know the function `x.numpy`"),
        ("open('a')", "does not know"),
        ("x.__class__", "does not know what to make of"),
        ("(lambda: x)()", "does not know"),
        ("'text'", "does not know what to make of"),
        ("x if x else x", "does not know what to make of"),
        ("a ? b : c", "not an expression that C++ and Python share"),
        ("2.0", "is no tensor"),
        ("x * ones_like(x.t().sum(5))", "cannot be computed"),
        ("-" * (LONGEST - 1) + "x", "nested too deeply"),
        ("x" * (LONGEST + 1), "characters; the mirror reads"),
    ],
)
def test_what_is_no_formula_is_refused(formula: str, says: str) -> None:
    with pytest.raises(FormulaError) as caught:
        evaluate(formula, {"x": X})
    assert says in str(caught.value)


def test_how_deep_a_formula_may_be_does_not_depend_on_python() -> None:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(10 * limit)  # Inductor raises it, too
    try:
        with pytest.raises(FormulaError, match="nested too deeply"):
            evaluate("-" * DEEPEST + "x", {"x": X})
    finally:
        sys.setrecursionlimit(limit)
    assert torch.equal(evaluate("+".join("x" * DEEPEST), {"x": torch.ones(2)}), torch.full((2,), float(DEEPEST)))


def test_no_function_of_a_formula_writes() -> None:
    """Whatever may be called leaves its arguments as they are: a name with _ at its end would not."""
    assert not any(name.endswith("_") for name in {*METHODS, *FUNCTIONS})
