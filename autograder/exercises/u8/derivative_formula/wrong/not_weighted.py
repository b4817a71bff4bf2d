"""gradient not weighted

Writes the slope, and forgets the gradient that comes in.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: 1 - (result / cap).square()
  cap: grad * (result / cap - self / cap * (1 - (result / cap).square()))
"""
