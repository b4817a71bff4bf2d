"""rounded at each step

Widens only if `self` is in half precision, not if `cap` alone is.
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
    if self.dtype in (torch.float16, torch.bfloat16):
        self, cap = self.float(), cap.float()
    out.copy_(torch.tanh(self / cap) * cap)
