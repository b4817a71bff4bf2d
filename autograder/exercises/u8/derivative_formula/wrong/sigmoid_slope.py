"""wrong gradient of self

Uses the derivative of the sigmoid.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * result / cap * (1 - result / cap)
  cap: grad * (result / cap - self / cap * (1 - (result / cap).square()))
"""
