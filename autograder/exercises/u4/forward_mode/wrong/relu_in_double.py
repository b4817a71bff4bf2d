"""tangent of another dtype

The tangent loses the dtype in relu.
"""

import torch


class Dual:
    """A tensor with its derivative in one direction."""

    def __init__(self, value, tangent):
        self.value, self.tangent = value, tangent

    def lift(self, other):
        if isinstance(other, Dual):
            return other
        other = torch.as_tensor(other, dtype=None if isinstance(other, torch.Tensor) else self.value.dtype)
        return Dual(other, torch.zeros_like(other))

    def bilinear(self, operation, other):
        """The product rule, for each bilinear operation."""
        other = self.lift(other)
        return Dual(
            operation(self.value, other.value),
            operation(self.tangent, other.value) + operation(self.value, other.tangent),
        )

    def __add__(self, other):
        other = self.lift(other)
        return Dual(self.value + other.value, self.tangent + other.tangent)

    def __neg__(self):
        return Dual(-self.value, -self.tangent)

    def __sub__(self, other):
        other = self.lift(other)
        return Dual(self.value - other.value, self.tangent - other.tangent)

    def __mul__(self, other):
        return self.bilinear(torch.mul, other)

    def __truediv__(self, other):
        other = self.lift(other)
        quotient = self.value / other.value
        return Dual(quotient, (self.tangent - quotient * other.tangent) / other.value)

    def __matmul__(self, other):
        return self.bilinear(torch.matmul, other)

    def __radd__(self, other):
        return self.lift(other) + self

    def __rsub__(self, other):
        return self.lift(other) - self

    def __rmul__(self, other):
        return self.lift(other) * self

    def __rtruediv__(self, other):
        return self.lift(other) / self

    def __rmatmul__(self, other):
        return self.lift(other) @ self

    def __pow__(self, exponent):
        """By squaring, with nothing but products."""
        if exponent < 0:
            return 1 / self**-exponent
        result, factor = self.lift(torch.ones_like(self.value)), self
        while exponent:
            if exponent % 2:
                result = result * factor
            exponent //= 2
            if exponent:
                factor = factor * factor
        return result

    def chain(self, value, derivative):
        return Dual(value, derivative * self.tangent)

    def exp(self):
        value = self.value.exp()
        return self.chain(value, value)

    def sin(self):
        return self.chain(self.value.sin(), self.value.cos())

    def tanh(self):
        value = self.value.tanh()
        return self.chain(value, 1 - value * value)

    def relu(self):
        return self.chain(self.value.relu(), (self.value > 0).double())

    def sum(self):
        return Dual(self.value.sum(), self.tangent.sum())


def jvp_by_two_backward_passes(function, x: torch.Tensor, tangent: torch.Tensor) -> torch.Tensor:
    """The Jacobian of function at x, times tangent."""
    with torch.enable_grad():
        point = x.detach().clone().requires_grad_()
        result = function(point)
        if not result.requires_grad:
            return torch.zeros_like(result)
        weight = torch.ones_like(result, requires_grad=True)
        (back,) = torch.autograd.grad(result, point, weight, create_graph=True, allow_unused=True)
        if back is None or not back.requires_grad:
            return torch.zeros_like(result)
        (product,) = torch.autograd.grad(back, weight, tangent, allow_unused=True)
    return torch.zeros_like(result) if product is None else product.detach()
