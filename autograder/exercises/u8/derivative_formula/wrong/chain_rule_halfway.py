"""inner derivative doubled

Applies the chain rule and forgets the factor in front.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - (result / cap).square()) / cap
  cap: grad * (result / cap - self / cap * (1 - (result / cap).square()))
"""
