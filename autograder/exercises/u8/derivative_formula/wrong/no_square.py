"""square forgotten

Forgets the square in the derivative of tanh.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - result / cap)
  cap: grad * (result / cap - self / cap * (1 - (result / cap).square()))
"""
