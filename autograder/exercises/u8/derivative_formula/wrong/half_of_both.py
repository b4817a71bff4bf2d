"""wrong gradient of cap

Adds both terms instead of subtracting.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - (result / cap).square())
  cap: grad * (result / cap + self / cap * (1 - (result / cap).square()))
"""
