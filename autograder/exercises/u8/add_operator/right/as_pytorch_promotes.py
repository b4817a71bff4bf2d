"""Leaves the dtype to PyTorch, except in half precision."""

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
    if out.dtype in (torch.float16, torch.bfloat16) or self.dtype != cap.dtype:
        self, cap = (one.to(torch.promote_types(out.dtype, torch.float32)) for one in (self, cap))
    out.copy_(cap * torch.tanh(self / cap))
