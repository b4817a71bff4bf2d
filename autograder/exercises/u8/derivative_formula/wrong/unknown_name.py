"""cannot be read

Calls the result output.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - (output / cap).square())
  cap: grad * (result / cap - self / cap * (1 - (result / cap).square()))
"""
