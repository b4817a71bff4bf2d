"""cannot be read

Writes a power as Python does.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - (result / cap) ** 2)
  cap: grad * (result / cap - self / cap * (1 - (result / cap).square()))
"""
