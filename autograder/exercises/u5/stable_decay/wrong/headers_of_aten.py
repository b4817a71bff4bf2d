"""unstable names

The ordinary headers."""


def stable_decay_source() -> str:
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <torch/library.h>

at::Tensor decay(const at::Tensor& x, double rate) {
  TORCH_CHECK(x.dim() == 2, "decay takes a matrix");
  at::Tensor from = x.contiguous(), result = at::empty(x.sizes(), x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "decay", [&] {
    const scalar_t* in = from.const_data_ptr<scalar_t>();
    scalar_t* out = result.mutable_data_ptr<scalar_t>();
    for (int64_t i = 0; i < x.size(0); i++) {
      double before = 0;
      for (int64_t t = 0; t < x.size(1); t++) *out++ = before = *in++ + rate * before;
    }
  });
  return result;
}

TORCH_LIBRARY(u5, m) {
  m.def("decay(Tensor x, float rate) -> Tensor");
}

TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("decay", &decay);
}
"""
