"""not refused

A matrix is taken for granted, and a cube for a longer one."""


def longest_run_source() -> str:
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <torch/library.h>

at::Tensor longest_run(const at::Tensor& x, double limit) {
  auto result = at::zeros({x.size(0)}, x.options().dtype(at::kLong));
  auto found = result.accessor<int64_t, 1>();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "longest_run", [&] {
    auto whole = x.contiguous();
    const scalar_t* values = whole.const_data_ptr<scalar_t>();
    for (int64_t i = 0; i < x.size(0); i++) {
      int64_t length = 0;
      for (int64_t j = 0; j < x.size(1); j++) {
        length = values[i * x.size(1) + j] > limit ? length + 1 : 0;
        found[i] = std::max(found[i], length);
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
