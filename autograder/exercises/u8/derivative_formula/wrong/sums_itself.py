"""summed by hand

Sums over what was broadcast.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - (result / cap).square())
  cap: (grad * (result / cap - self / cap * (1 - (result / cap).square()))).sum()
"""
