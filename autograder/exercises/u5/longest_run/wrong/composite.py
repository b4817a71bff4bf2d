"""not for the CPU

Gives its function to the schema, and asks for the device itself.
"""


def longest_run_source() -> str:
    """The C++ source: a string in three quotes, with an r in front."""
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <torch/library.h>

at::Tensor longest_run(const at::Tensor& x, double limit) {
  TORCH_CHECK(x.dim() == 2, "longest_run takes a matrix, not ", x.dim(), " dimensions");
  TORCH_CHECK(x.is_cpu(), "longest_run runs on the CPU");
  auto result = at::zeros({x.size(0)}, x.options().dtype(at::kLong));
  auto found = result.accessor<int64_t, 1>();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "longest_run", [&] {
    auto values = x.accessor<scalar_t, 2>();
    for (int64_t i = 0; i < x.size(0); i++) {
      int64_t length = 0;
      for (int64_t j = 0; j < x.size(1); j++) {
        length = values[i][j] > limit ? length + 1 : 0;
        found[i] = std::max(found[i], length);
      }
    }
  });
  return result;
}

TORCH_LIBRARY(u5, m) {
  m.def("longest_run(Tensor x, float limit=0.0) -> Tensor", &longest_run);
}
"""
