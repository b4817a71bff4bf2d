"""several passes

Three operators of PyTorch, one after the other."""


def soft_clip_source() -> str:
    return r"""
#include <ATen/Functions.h>
#include <torch/library.h>

at::Tensor soft_clip(const at::Tensor& x, const at::Tensor& limit) {
  return at::div(at::mul(x, limit), at::add(limit, at::abs(x)));
}

at::Tensor& soft_clip_out(const at::Tensor& x, const at::Tensor& limit, at::Tensor& out) {
  at::Tensor below = at::add(limit, at::abs(x));
  return at::div_out(out, at::mul(x, limit), below);
}

TORCH_LIBRARY(u5, m) {
  m.def("soft_clip(Tensor x, Tensor limit) -> Tensor");
  m.def("soft_clip.out(Tensor x, Tensor limit, *, Tensor(a!) out) -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("soft_clip", &soft_clip);
  m.impl("soft_clip.out", &soft_clip_out);
}
"""
