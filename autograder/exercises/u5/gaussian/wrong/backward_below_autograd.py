"""no history

Guards `backward` as well as `forward`, so that nothing of the gradient is recorded.
"""


def gaussian_source() -> str:
    """The C++ source: a string in three quotes, with an r in front."""
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <cmath>

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

void check_points(const Tensor& x, const Tensor& y) {
  TORCH_CHECK(x.dim() == 2 && y.dim() == 2, "gaussian: expected two matrices");
  TORCH_CHECK(x.sym_size(1) == y.sym_size(1), "gaussian: expected as many columns in x as in y");
  TORCH_CHECK(
      x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble, "gaussian: expected float32 or float64");
  TORCH_CHECK(x.scalar_type() == y.scalar_type(), "gaussian: expected x and y of the same dtype");
}

Tensor gaussian_cpu(const Tensor& x, const Tensor& y, double width) {
  check_points(x, y);
  const int64_t n = x.size(0), m = y.size(0), d = x.size(1);
  Tensor result = at::empty({n, m}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gaussian", [&] {
    auto from = x.accessor<scalar_t, 2>(), other = y.accessor<scalar_t, 2>();
    auto to = result.accessor<scalar_t, 2>();
    for (int64_t i = 0; i < n; i++) {
      for (int64_t j = 0; j < m; j++) {
        double sum = 0;
        for (int64_t k = 0; k < d; k++) {
          const double difference = static_cast<double>(from[i][k]) - static_cast<double>(other[j][k]);
          sum += difference * difference;
        }
        to[i][j] = static_cast<scalar_t>(std::exp(-sum / (2 * width * width)));
      }
    }
  });
  return result;
}

Tensor gaussian_meta(const Tensor& x, const Tensor& y, double width) {
  check_points(x, y);
  return at::empty_symint({x.sym_size(0), y.sym_size(0)}, x.options());
}

Tensor call_gaussian(const Tensor& x, const Tensor& y, double width) {
  static auto operation = c10::Dispatcher::singleton()
                              .findSchemaOrThrow("u5::gaussian", "")
                              .typed<Tensor(const Tensor&, const Tensor&, double)>();
  return operation.call(x, y, width);
}

struct Gaussian : torch::autograd::Function<Gaussian> {
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& y, double width) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor result = call_gaussian(x, y, width);
    context->save_for_backward({x, y, result});
    context->saved_data["width"] = width;
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto saved = context->get_saved_variables();
    const Tensor x = saved[0], y = saved[1], result = saved[2];
    const double width = context->saved_data["width"].toDouble();
    Tensor weights = gradients[0] * result / (width * width);
    Tensor for_x = at::matmul(weights, y) - weights.sum(1, true) * x;
    Tensor for_y = at::matmul(weights.t(), x) - weights.sum(0).unsqueeze(1) * y;
    return {for_x, for_y, Tensor()};
  }
};

Tensor gaussian_autograd(const Tensor& x, const Tensor& y, double width) {
  return Gaussian::apply(x, y, width);
}

TORCH_LIBRARY(u5, m) {
  m.def("gaussian(Tensor x, Tensor y, float width) -> Tensor");
}

TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("gaussian", &gaussian_cpu);
}

TORCH_LIBRARY_IMPL(u5, Meta, m) {
  m.impl("gaussian", &gaussian_meta);
}

TORCH_LIBRARY_IMPL(u5, Autograd, m) {
  m.impl("gaussian", &gaussian_autograd);
}
"""
