"""input overwritten

Divides its argument in place.
"""

import torch


def entries() -> str:
    """What to add to native_functions.yaml."""
    return """
- func: softcap(Tensor self, Tensor cap) -> Tensor
  structured_delegate: softcap.out
  variants: function, method
  tags: pointwise

- func: softcap_(Tensor(a!) self, Tensor cap) -> Tensor(a!)
  structured_delegate: softcap.out
  variants: function, method
  tags: pointwise

- func: softcap.out(Tensor self, Tensor cap, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  structured_inherits: TensorIteratorBase
  dispatch:
    CPU, CUDA: softcap_out
  tags: pointwise
"""


def softcap_out(self: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    """Write cap * tanh(self / cap) into out."""
    if out.is_floating_point() and self.dtype == out.dtype and self.shape == out.shape:
        self.div_(cap)
        out.copy_(cap * torch.tanh(self))
    else:
        out.copy_(cap * torch.tanh(self.float() / cap.float()))
