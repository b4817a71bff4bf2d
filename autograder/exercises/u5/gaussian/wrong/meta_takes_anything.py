"""not refused

Only the kernel for the CPU looks whether the points fit together; the one without data answers for any two tensors.
"""


def gaussian_source() -> str:
    return r"""
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>

using at::Tensor;
using torch::autograd::variable_list;

void fits(const Tensor& x, const Tensor& y) {
  TORCH_CHECK(x.dim() == 2 && y.dim() == 2, "gaussian: two matrices");
  TORCH_CHECK(x.sym_size(1) == y.sym_size(1), "gaussian: as many columns");
  TORCH_CHECK(x.scalar_type() == y.scalar_type(), "gaussian: one dtype");
  TORCH_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble, "gaussian: float32 or float64");
}

template <typename Number>
void loop(const Tensor& x, const Tensor& y, double width, Tensor& result) {
  auto a = x.accessor<Number, 2>(), b = y.accessor<Number, 2>();
  auto out = result.accessor<Number, 2>();
  for (int64_t i = 0; i < x.size(0); i++)
    for (int64_t j = 0; j < y.size(0); j++) {
      double square = 0;
      for (int64_t d = 0; d < x.size(1); d++) {
        const double difference = double(a[i][d]) - double(b[j][d]);
        square += difference * difference;
      }
      out[i][j] = std::exp(-square / (2 * width * width));
    }
}

Tensor on_cpu(const Tensor& x, const Tensor& y, double width) {
  fits(x, y);
  Tensor result = at::empty({x.size(0), y.size(0)}, x.options());
  if (x.scalar_type() == at::kFloat)
    loop<float>(x, y, width, result);
  else
    loop<double>(x, y, width, result);
  return result;
}

Tensor on_meta(const Tensor& x, const Tensor& y, double width) {
  return at::empty_symint({x.sym_size(0), y.sym_size(0)}, x.options());
}

Tensor call(const Tensor& x, const Tensor& y, double width) {
  static auto operation = c10::Dispatcher::singleton()
                              .findSchemaOrThrow("u5::gaussian", "")
                              .typed<Tensor(const Tensor&, const Tensor&, double)>();
  return operation.call(x, y, width);
}

struct Gaussian : torch::autograd::Function<Gaussian> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& y, double width) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({x, y});
    context->saved_data["width"] = width;
    return call(x, y, width);
  }

  // G is not saved: the operator is called once more, and recorded if somebody asks for it.
  static variable_list backward(torch::autograd::AutogradContext* context, variable_list gradients) {
    auto saved = context->get_saved_variables();
    const double width = context->saved_data["width"].toDouble();
    Tensor weights = gradients[0] * call(saved[0], saved[1], width) / (width * width);
    Tensor back_x = weights.matmul(saved[1]) - weights.sum(1, true) * saved[0];
    Tensor back_y = weights.t().matmul(saved[0]) - weights.sum(0).unsqueeze(1) * saved[1];
    return {back_x, back_y, Tensor()};
  }
};

Tensor with_gradient(const Tensor& x, const Tensor& y, double width) {
  return Gaussian::apply(x, y, width);
}

TORCH_LIBRARY(u5, m) {
  m.def("gaussian(Tensor x, Tensor y, float width) -> Tensor");
}
TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("gaussian", &on_cpu);
}
TORCH_LIBRARY_IMPL(u5, Meta, m) {
  m.impl("gaussian", &on_meta);
}
TORCH_LIBRARY_IMPL(u5, Autograd, m) {
  m.impl("gaussian", &with_gradient);
}
"""
