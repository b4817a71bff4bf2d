"""nothing written

Gives out new memory instead of writing into the memory that it has.
"""

import torch

ENTRIES = """
- func: softcap.out(Tensor self, Tensor cap, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  structured_inherits: TensorIteratorBase
  dispatch:
    CPU, CUDA: softcap_out

- func: softcap(Tensor self, Tensor cap) -> Tensor
  structured_delegate: softcap.out
  variants: function, method
  tags: pointwise

- func: softcap_(Tensor(a!) self, Tensor cap) -> Tensor(a!)
  structured_delegate: softcap.out
  variants: function, method
"""


def entries():
    return ENTRIES


def softcap_out(self, cap, out):
    """Always calculates in a dtype of at least single precision, with exp of the negative size only."""
    wide = torch.promote_types(out.dtype, torch.float32)
    y = self.to(wide) / cap.to(wide)
    shrinks = torch.expm1(-2 * y.abs())
    result = cap.to(wide) * torch.copysign(-shrinks / (2 + shrinks), y)
    out.data = torch.where(torch.isnan(y), y, result).to(out.dtype)
