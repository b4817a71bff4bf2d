"""wrong tangent

The tangent of a constant is 0 times the constant, which is NaN where that is infinite.
"""

import torch


class Dual:
    """Each operation says its two formulas, without a helper for the chain rule."""

    def __init__(self, value, tangent):
        self.value, self.tangent = value, tangent

    def lift(self, other):
        if isinstance(other, Dual):
            return other
        if not isinstance(other, torch.Tensor):
            other = torch.full((), other, dtype=self.value.dtype, device=self.value.device)
        return Dual(other, 0 * other)

    def __add__(self, other):
        other = self.lift(other)
        return Dual(self.value + other.value, self.tangent + other.tangent)

    __radd__ = __add__

    def __neg__(self):
        return Dual(-self.value, -self.tangent)

    def __sub__(self, other):
        other = self.lift(other)
        return Dual(self.value - other.value, self.tangent - other.tangent)

    def __rsub__(self, other):
        return self.lift(other) - self

    def __mul__(self, other):
        other = self.lift(other)
        return Dual(self.value * other.value, self.tangent * other.value + self.value * other.tangent)

    __rmul__ = __mul__

    def __truediv__(self, other):
        other = self.lift(other)
        quotient = self.value / other.value
        return Dual(quotient, (self.tangent - quotient * other.tangent) / other.value)

    def __rtruediv__(self, other):
        return self.lift(other) / self

    def __matmul__(self, other):
        other = self.lift(other)
        return Dual(self.value @ other.value, self.tangent @ other.value + self.value @ other.tangent)

    def __rmatmul__(self, other):
        return self.lift(other) @ self

    def __pow__(self, exponent):
        if exponent == 0:
            return Dual(torch.ones_like(self.value), torch.zeros_like(self.tangent))
        return Dual(self.value**exponent, exponent * self.value ** (exponent - 1) * self.tangent)

    def exp(self):
        e = self.value.exp()
        return Dual(e, e * self.tangent)

    def sin(self):
        return Dual(self.value.sin(), self.value.cos() * self.tangent)

    def tanh(self):
        t = self.value.tanh()
        return Dual(t, (1 - t * t) * self.tangent)

    def relu(self):
        return Dual(self.value.relu(), torch.where(self.value > 0, self.tangent, torch.zeros_like(self.tangent)))

    def sum(self):
        return Dual(self.value.sum(), self.tangent.sum())


def jvp_by_two_backward_passes(function, x, tangent):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        y = function(x)
        none = torch.zeros_like(y)
        if not y.requires_grad:
            return none.detach()
        w = torch.zeros_like(y, requires_grad=True)
        (back,) = torch.autograd.grad(y, x, w, create_graph=True, allow_unused=True)
        if back is None or not back.requires_grad:
            return none.detach()
        (forward,) = torch.autograd.grad(back, w, tangent, allow_unused=True)
        return none.detach() if forward is None else forward
