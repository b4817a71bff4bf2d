"""One comment and further properties for each entry, and a stable form with exponentials."""

import torch


def entries() -> str:
    """What to add to native_functions.yaml."""
    return """
- func: softcap(Tensor self, Tensor cap) -> Tensor
  structured_delegate: softcap.out
  variants: function, method
  tags: [pointwise]

- func: softcap_(Tensor(a!) self, Tensor cap) -> Tensor(a!)
  structured_delegate: softcap.out
  variants: function, method
  tags: [pointwise]

- func: softcap.out(Tensor self, Tensor cap, *, Tensor(a!) out) -> Tensor(a!)
  device_check: NoCheck   # TensorIterator
  structured: True
  structured_inherits: TensorIteratorBase
  dispatch:
    CPU, CUDA, MPS: softcap_out
  tags: [pointwise]
"""


def softcap_out(self: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    """Write cap * tanh(self / cap) into out."""
    wide = torch.promote_types(out.dtype, torch.float32)
    x, c = self.to(wide), cap.to(wide)
    y = x / c
    small = torch.exp(-2 * y.abs())
    # For small y the difference 1 - small would lose its digits.
    t = -torch.expm1(-2 * y.abs()) / (1 + small)
    out.copy_(c * t * torch.sign(y))
