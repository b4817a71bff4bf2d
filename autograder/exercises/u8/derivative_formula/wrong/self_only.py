"""no formula

Thinks of the cap as a constant.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - (result / cap).square())
"""
