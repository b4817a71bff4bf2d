"""headers from elsewhere

Takes C functions from Inductor's header: no name of C++ is needed, and still it is none of the two folders."""


def stable_decay_source() -> str:
    return r"""
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

template <typename Number>
void fill(const Tensor& x, Tensor& result, double rate) {
  const Number* from = x.const_data_ptr<Number>();
  Number* to = result.mutable_data_ptr<Number>();
  const int64_t rows = x.size(0), columns = x.size(1), down = x.stride(0), along = x.stride(1);
  for (int64_t i = 0; i < rows; i++) {
    for (int64_t t = 0; t < columns; t++) {
      const Number number = from[i * down + t * along];
      to[i * columns + t] = t == 0 ? number : static_cast<Number>(number + rate * to[i * columns + t - 1]);
    }
  }
}

Tensor decay(const Tensor& x, double rate) {
  int64_t dimensions = 0;
  STD_TORCH_CHECK(aoti_torch_get_dim(x.get(), &dimensions) == 0, "decay: no tensor");
  STD_TORCH_CHECK(dimensions == 2, "decay: expected a matrix");
  const ScalarType dtype = x.scalar_type();
  STD_TORCH_CHECK(dtype == ScalarType::Float || dtype == ScalarType::Double, "decay: expected float32 or float64");
  Tensor result = torch::stable::new_empty(x, {x.size(0), x.size(1)});
  if (dtype == ScalarType::Float) {
    fill<float>(x, result, rate);
  } else {
    fill<double>(x, result, rate);
  }
  return result;
}

STABLE_TORCH_LIBRARY(u5, m) {
  m.def("decay(Tensor x, float rate) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("decay", TORCH_BOX(&decay));
}
"""
