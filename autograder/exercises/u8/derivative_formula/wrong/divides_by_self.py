"""not finite at zero

Gets the quotient from self * self / (self * cap).
"""


def derivatives() -> str:
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - (result / cap).square())
  cap: grad * (result / cap - self * self / (self * cap) * (1 - (result / cap).square()))
"""
