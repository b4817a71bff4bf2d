"""Calculates in double precision, and lists the entries in another order."""

import torch


def entries() -> str:
    """What to add to native_functions.yaml."""
    return """
- func: softcap(Tensor self, Tensor cap) -> Tensor
  structured_delegate: softcap.out
  variants: method, function
  tags: pointwise

- func: softcap_(Tensor(a!) self, Tensor cap) -> Tensor(a!)
  structured_delegate: softcap.out
  variants: method, function
  tags: pointwise

- func: softcap.out(Tensor self, Tensor cap, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  structured_inherits: TensorIteratorBase
  dispatch:
    CPU: softcap_out
    CUDA: softcap_out
  tags: pointwise
"""


def softcap_out(self: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    """Write cap * tanh(self / cap) into out."""
    x, c = self.double(), cap.double()
    result = torch.tanh(torch.div(x, c)).mul(c)
    out.copy_(result)
