"""With the formula that tanh has itself."""


def derivatives() -> str:
    """What to add to derivatives.yaml."""
    return """
- name: softcap(Tensor self, Tensor cap) -> Tensor
  self: tanh_backward(grad, result / cap)
  cap: (grad * result - self * tanh_backward(grad, result / cap)) / cap
"""
