"""cap forgotten

Takes the result for the tanh.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - result.square())
  cap: grad * (result / cap - self / cap * (1 - (result / cap).square()))
"""
