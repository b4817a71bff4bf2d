"""wrong second derivative

Uses 1 / cosh², whose own derivative is infinity times zero.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad / (self / cap).cosh().square()
  cap: grad * (result / cap - self / cap * (1 - (result / cap).square()))
"""
