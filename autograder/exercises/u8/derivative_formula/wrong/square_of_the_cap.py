"""a square vanishes

Divides squares instead of squaring the quotient: the square of a tiny cap is 0.
"""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - result.square() / cap.square())
  cap: grad * (result / cap - self / cap * (1 - (result / cap).square()))
"""
