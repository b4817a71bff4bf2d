"""adds a number

Adds a small number in the formula of the cap only, and only in one of its quotients.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - (result / cap).square())
  cap: grad * (result / cap - self / (cap + 1e-14) * (1 - (result / cap).square()))
"""
