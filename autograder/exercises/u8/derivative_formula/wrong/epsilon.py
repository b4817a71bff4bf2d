"""adds a number

Adds a small number to the cap, for fear of dividing by 0.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - (result / (cap + 1e-12)).square())
  cap: grad * (result / (cap + 1e-12) - self / (cap + 1e-12) * (1 - (result / (cap + 1e-12)).square()))
"""
