"""sum of neighbours

Multiplies the rate with the number before, not with the result before."""


def stable_decay_source() -> str:
    """The C++ source: a string in three quotes, with an r in front."""
    return r"""
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

template <typename Number>
void decay_rows(const Tensor& x, double rate, Tensor& result) {
  const Number* from = x.const_data_ptr<Number>();
  Number* to = result.mutable_data_ptr<Number>();
  for (int64_t i = 0; i < x.size(0); i++) {
    double before = 0;
    for (int64_t t = 0; t < x.size(1); t++) {
      Number now = from[i * x.stride(0) + t * x.stride(1)];
      *to++ = static_cast<Number>(now + rate * before);
      before = now;
    }
  }
}

Tensor decay(const Tensor& x, double rate) {
  STD_TORCH_CHECK(x.dim() == 2, "decay takes a matrix");
  Tensor result = torch::stable::new_empty(x, {x.size(0), x.size(1)});
  switch (x.scalar_type()) {
    case ScalarType::Float:
      decay_rows<float>(x, rate, result);
      break;
    case ScalarType::Double:
      decay_rows<double>(x, rate, result);
      break;
    default:
      STD_TORCH_CHECK(false, "decay takes float32 and float64");
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
