"""long runs

Goes through each row in blocks of 512, and a run ends with its block."""


def longest_run_source() -> str:
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <torch/library.h>

at::Tensor longest_run(const at::Tensor& x, double limit) {
  TORCH_CHECK(x.dim() == 2, "longest_run: expected a matrix, got ", x.dim(), " dimensions");
  TORCH_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble,
              "longest_run: expected float32 or float64, got ", x.scalar_type());
  const int64_t rows = x.size(0), columns = x.size(1);
  at::Tensor result = at::empty({rows}, x.options().dtype(at::kLong));
  int64_t* out = result.mutable_data_ptr<int64_t>();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "longest_run", [&] {
    const auto from = x.accessor<scalar_t, 2>();
    for (int64_t i = 0; i < rows; i++) {
      int64_t best = 0;
      bool above[512];
      for (int64_t start = 0; start < columns; start += 512) {
        const int64_t count = columns - start < 512 ? columns - start : 512;
        for (int64_t j = 0; j < count; j++) above[j] = static_cast<double>(from[i][start + j]) > limit;
        int64_t run = 0;
        for (int64_t j = 0; j < count; j++) {
          run = above[j] ? run + 1 : 0;
          if (run > best) best = run;
        }
      }
      out[i] = best;
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
