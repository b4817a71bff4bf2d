"""not refused

float16 and bfloat16 are taken, too."""


def longest_run_source() -> str:
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <torch/library.h>
#include <algorithm>
#include <limits>

at::Tensor longest_run(const at::Tensor& x, double limit) {
  TORCH_CHECK(x.dim() == 2, "x must be a matrix");
  at::Tensor rows = x.contiguous();
  at::Tensor result = at::zeros({x.size(0)}, x.options().dtype(at::kLong));
  int64_t* out = result.mutable_data_ptr<int64_t>();
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), "longest_run", [&] {
    const scalar_t* from = rows.const_data_ptr<scalar_t>();
    for (int64_t i = 0; i < x.size(0); i++) {
      int64_t run = 0;
      for (int64_t j = 0; j < x.size(1); j++) {
        run = from[i * x.size(1) + j] > limit ? run + 1 : 0;
        out[i] = std::max(out[i], run);
      }
    }
  });
  return result;
}

TORCH_LIBRARY(u5, m) {
  m.def("longest_run(Tensor x, float limit=0.0) -> Tensor");
}

TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("longest_run", &longest_run);
}
"""
