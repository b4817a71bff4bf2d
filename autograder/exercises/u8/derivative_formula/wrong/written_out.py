"""swallowed far beyond

Multiplies the product out.
"""


def derivatives() -> str:
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: tanh_backward(grad, (self / cap).tanh())
  cap: grad * (result / cap - self / cap + self / cap * (result / cap).square())
"""
