"""no product

Returns value and product.
"""

import torch


class Dual:
    """A tensor with its derivative in one direction."""

    def __init__(self, value, tangent):
        self.value, self.tangent = value, tangent

    def __add__(self, other):
        other = self.lift(other)
        return Dual(self.value + other.value, self.tangent + other.tangent)

    def __neg__(self):
        return Dual(-self.value, -self.tangent)

    def __sub__(self, other):
        other = self.lift(other)
        return Dual(self.value - other.value, self.tangent - other.tangent)

    def __mul__(self, other):
        other = self.lift(other)
        return Dual(self.value * other.value, self.tangent * other.value + self.value * other.tangent)

    def __truediv__(self, other):
        other = self.lift(other)
        quotient = self.value / other.value
        return Dual(quotient, (self.tangent - quotient * other.tangent) / other.value)

    def __matmul__(self, other):
        other = self.lift(other)
        return Dual(self.value @ other.value, self.tangent @ other.value + self.value @ other.tangent)

    # What Python calls when a constant stands on the left.
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
        """The exponent is a whole number."""
        if not exponent:
            return self.chain(self.value**exponent, torch.zeros_like(self.value))
        return self.chain(self.value**exponent, exponent * self.value ** (exponent - 1))

    def exp(self):
        return self.chain(self.value.exp(), self.value.exp())

    def sin(self):
        return self.chain(self.value.sin(), self.value.cos())

    def tanh(self):
        return self.chain(self.value.tanh(), 1 - self.value.tanh() ** 2)

    def relu(self):
        return self.chain(self.value.relu(), (self.value > 0).to(self.value.dtype))

    def sum(self):
        """Of all numbers."""
        return Dual(self.value.sum(), self.tangent.sum())

    def lift(self, other):
        """A dual number as it is; a constant (a tensor or a Python number) as a dual number."""
        if isinstance(other, Dual):
            return other
        constant = torch.as_tensor(other, dtype=torch.result_type(self.value, other))
        return Dual(constant, torch.zeros_like(constant))

    # Further methods of your own go here.
    def chain(self, value, derivative):
        """The chain rule: what a function makes of this number."""
        return Dual(value, derivative * self.tangent)


def jvp_by_two_backward_passes(function, x: torch.Tensor, tangent: torch.Tensor) -> torch.Tensor:
    """The Jacobian of function at x, times tangent."""
    x = x.detach().requires_grad_()
    y = function(x)
    if not y.requires_grad:
        return torch.zeros_like(y)
    w = torch.zeros_like(y, requires_grad=True)
    (backward,) = torch.autograd.grad(y, x, w, create_graph=True, allow_unused=True)
    if backward is None or not backward.requires_grad:
        return torch.zeros_like(y)
    return y, torch.autograd.grad(backward, w, tangent)[0]
    ### END SOLUTION
