"""single precision

The rate is rounded to float32, also for float64."""


def stable_decay_source() -> str:
    return r"""
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

using torch::stable::Tensor;

template <typename Number>
void columns(const Tensor& x, double rate, Tensor& result) {
  const Number* from = x.const_data_ptr<Number>();
  Number* to = result.mutable_data_ptr<Number>();
  int64_t wide = x.size(1), down = x.stride(0), along = x.stride(1);
  for (int64_t t = 0; t < wide; t++)
    for (int64_t row = 0; row < x.size(0); row++) {
      Number now = from[row * down + t * along];
      to[row * wide + t] = t == 0 ? now : static_cast<Number>(now + rate * to[row * wide + t - 1]);
    }
}

Tensor decay(const Tensor& x, double given) {
  float rate = static_cast<float>(given);
  STD_TORCH_CHECK(x.dim() == 2, "a matrix, please");
  auto dtype = x.scalar_type();
  STD_TORCH_CHECK(dtype == torch::headeronly::ScalarType::Float || dtype == torch::headeronly::ScalarType::Double,
                  "float32 or float64, please");
  Tensor result = torch::stable::new_empty(x, {x.size(0), x.size(1)});
  if (dtype == torch::headeronly::ScalarType::Float)
    columns<float>(x, rate, result);
  else
    columns<double>(x, rate, result);
  return result;
}

STABLE_TORCH_LIBRARY(u5, m) {
  m.def("decay(Tensor x, float rate) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("decay", TORCH_BOX(&decay));
}
"""
