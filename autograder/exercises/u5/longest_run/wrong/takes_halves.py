"""not refused

Takes half precision, too.
"""


def longest_run_source() -> str:
    return r"""
#include <torch/library.h>
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>

at::Tensor longest_run(const at::Tensor& x, double limit) {
  TORCH_CHECK(x.dim() == 2, "a matrix is expected");
  TORCH_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble || x.scalar_type() == at::kHalf, "float32 or float64");
  at::Tensor result = at::zeros({x.size(0)}, x.options().dtype(at::kLong));
  auto out = result.accessor<int64_t, 1>();
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "longest_run", [&] {
    auto in = x.accessor<scalar_t, 2>();
    for (int64_t i = 0; i < x.size(0); ++i) {
      int64_t now = 0, best = 0;
      for (int64_t j = 0; j < x.size(1); ++j) {
        now = in[i][j] > limit ? now + 1 : 0;
        best = std::max(best, now);
      }
      out[i] = best;
    }
  });
  return result;
}

TORCH_LIBRARY(u5, m) { m.def("longest_run(Tensor x, float limit=0.0) -> Tensor"); }
TORCH_LIBRARY_IMPL(u5, CPU, m) { m.impl("longest_run", &longest_run); }
"""
