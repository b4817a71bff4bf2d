"""other sign

Turns the sign around.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - (result / cap).square())
  cap: grad * (self / cap * (1 - (result / cap).square()) - result / cap)
"""
