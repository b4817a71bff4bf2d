"""Computes the tanh again and saves no result."""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad.mul(1 - tanh(self / cap).pow(2))
  cap: grad * (tanh(self / cap) - self / cap * (1 - tanh(self / cap).pow(2)))
"""
