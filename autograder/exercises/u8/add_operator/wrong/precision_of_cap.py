"""precision of one argument

Works out the precision from `cap` alone.
"""

import torch


def entries() -> str:
    return """
- func: softcap(Tensor self, Tensor cap) -> Tensor
  variants: function, method
  structured_delegate: softcap.out
  tags: pointwise

- func: softcap_(Tensor(a!) self, Tensor cap) -> Tensor(a!)
  variants: function, method
  structured_delegate: softcap.out

- func: softcap.out(Tensor self, Tensor cap, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  structured_inherits: TensorIteratorBase
  dispatch:
    CPU, CUDA: softcap_out
"""


def softcap_out(self: torch.Tensor, cap: torch.Tensor, out: torch.Tensor) -> None:
    wide = torch.promote_types(cap.dtype, torch.float32)
    cap = cap.to(wide)
    out.copy_(torch.tanh((self.to(wide) / cap)) * cap)
