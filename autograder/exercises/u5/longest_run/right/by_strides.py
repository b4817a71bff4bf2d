"""Computes each address from the strides, with no macro for the dtypes, and infers nothing."""


def longest_run_source() -> str:
    return r"""
#include <ATen/ops/empty.h>
#include <torch/library.h>

namespace {

template <typename Number>
void count(const at::Tensor& x, double limit, int64_t* found) {
  const Number* values = x.const_data_ptr<Number>();
  const auto sizes = x.sizes(), strides = x.strides();
  for (int64_t i = 0; i < sizes[0]; i++, found++) {
    *found = 0;
    int64_t begin = 0;
    for (int64_t j = 0; j < sizes[1]; j++) {
      if (!(values[i * strides[0] + j * strides[1]] > limit)) begin = j + 1;
      if (j + 1 - begin > *found) *found = j + 1 - begin;
    }
  }
}

at::Tensor longest_run(const at::Tensor& x, double limit) {
  TORCH_CHECK(x.dim() == 2);
  at::Tensor result = at::empty({x.size(0)}, at::TensorOptions().dtype(at::kLong));
  switch (x.scalar_type()) {
    case at::kFloat: count<float>(x, limit, result.mutable_data_ptr<int64_t>()); break;
    case at::kDouble: count<double>(x, limit, result.mutable_data_ptr<int64_t>()); break;
    default: TORCH_CHECK_NOT_IMPLEMENTED(false, "longest_run: no kernel for ", x.scalar_type());
  }
  return result;
}

}  // namespace

TORCH_LIBRARY(u5, m) {
  m.def("longest_run(Tensor x, float limit=0.0) -> Tensor");
  m.impl("longest_run", c10::DispatchKey::CPU, TORCH_FN(longest_run));
}
"""
