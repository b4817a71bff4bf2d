"""digits lost near zero

tanh by exponentials, cut off where they would overflow: near zero all digits are gone.
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
    wide = torch.promote_types(out.dtype, torch.float32)
    cap = cap.to(wide)
    e = torch.exp((2 * self.to(wide) / cap).clamp(-60, 60))
    out.copy_((e - 1) / (e + 1) * cap)
