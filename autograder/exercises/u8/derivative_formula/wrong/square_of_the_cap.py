"""squares lost

Divides a square by a square.
"""


def derivatives() -> str:
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: grad * (1 - result.square() / cap.square())
  cap: grad * ((self / cap).tanh() - self / cap * (1 - (self / cap).tanh().square()))
"""
