"""taken apart

One kernel of recorded operators for everything."""


def gaussian_source() -> str:
    return r"""
#include <ATen/Functions.h>
#include <torch/library.h>

at::Tensor gaussian(const at::Tensor& x, const at::Tensor& y, double width) {
  TORCH_CHECK(x.dim() == 2 && y.dim() == 2);
  at::Tensor squares = (x.unsqueeze(1) - y.unsqueeze(0)).square().sum(-1);
  return at::exp(squares / (-2 * width * width));
}

TORCH_LIBRARY(u5, m) {
  m.def("gaussian(Tensor x, Tensor y, float width) -> Tensor", &gaussian);
}
"""
