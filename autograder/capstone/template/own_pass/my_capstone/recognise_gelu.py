"""GELU that is written out in single steps becomes the one operator that it is."""

import math

import torch
from torch.nn import functional

from fxopt_core.graphs.matching import Match
from fxopt_core.passes import register_pass
from fxopt_core.passes.pattern_pass import PatternPass, RewriteRule
from fxopt_core.verification import Tolerance

aten = torch.ops.aten
ROOT = math.sqrt(2.0 / math.pi)


def is_float(match: Match) -> str | None:
    """In half precision each step is rounded, and the one operator rounds once: the results differ too much."""
    example = match.example("x")
    if example is None:
        return "the dtype of x is not known"
    if example.dtype not in (torch.float32, torch.float64):
        return f"x is {example.dtype}; single steps and the one operator agree in float32 and float64 only"
    return None


def with_functions(x: torch.Tensor) -> torch.Tensor:
    """As the published code of GPT-2 writes it."""
    return 0.5 * x * (1.0 + torch.tanh(ROOT * (x + 0.044715 * torch.pow(x, 3.0))))


def with_power(x: torch.Tensor) -> torch.Tensor:
    """With the operator for powers."""
    return 0.5 * x * (1.0 + torch.tanh(ROOT * (x + 0.044715 * x**3)))


def in_aten(x: torch.Tensor) -> torch.Tensor:
    """As `torch.export` gives both."""
    inner = aten.add.Tensor(x, aten.mul.Tensor(aten.pow.Tensor_Scalar(x, 3.0), 0.044715))
    return aten.mul.Tensor(
        aten.mul.Tensor(x, 0.5), aten.add.Tensor(aten.tanh.default(aten.mul.Tensor(inner, ROOT)), 1.0)
    )


def gelu(x: torch.Tensor) -> torch.Tensor:
    """The operator at torch level."""
    return functional.gelu(x, approximate="tanh")


def gelu_in_aten(x: torch.Tensor) -> torch.Tensor:
    """The operator at ATen level."""
    return aten.gelu.default(x, approximate="tanh")


@register_pass("recognise_gelu")
class RecogniseGelu(PatternPass):
    """Eight operators become one.

        0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³)))    becomes    gelu(x, approximate="tanh")

    (Hendrycks and Gimpel, "Gaussian error linear units", 2016.) Legal where nobody else reads what is in between, and
    x is float32 or float64. Seven values less go to memory and back.

    Exactness: the operator multiplies in another order, 1e-6 of the largest magnitude. For x = -inf the steps give
    NaN, and the operator may not.
    """

    rules = (
        RewriteRule("torch", (with_functions, with_power), gelu, checks=(is_float,)),
        RewriteRule("ATen", in_aten, gelu_in_aten, checks=(is_float,)),
    )
    tolerance = Tolerance(relative=1e-5)
