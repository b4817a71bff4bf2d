"""no way back

The number has no gradient, so none is returned for it."""


def gaussian_source() -> str:
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>
#include <cmath>

using at::Tensor;
using torch::autograd::variable_list;

Tensor gaussian(const Tensor& x, const Tensor& y, double width) {
  static auto operation = c10::Dispatcher::singleton()
                              .findSchemaOrThrow("u5::gaussian", "")
                              .typed<Tensor(const Tensor&, const Tensor&, double)>();
  return operation.call(x, y, width);
}

void fits(const Tensor& x, const Tensor& y) {
  TORCH_CHECK(x.dim() == 2 && y.dim() == 2, "gaussian: two matrices, please");
  TORCH_CHECK(x.sym_size(1) == y.sym_size(1), "gaussian: points of as many dimensions");
  TORCH_CHECK(x.scalar_type() == y.scalar_type(), "gaussian: one dtype");
}

Tensor gaussian_cpu(const Tensor& x, const Tensor& y, double width) {
  fits(x, y);
  Tensor result = at::empty({x.size(0), y.size(0)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gaussian", [&] {
    auto a = x.accessor<scalar_t, 2>();
    auto b = y.accessor<scalar_t, 2>();
    auto to = result.accessor<scalar_t, 2>();
    for (int64_t i = 0; i < x.size(0); i++)
      for (int64_t j = 0; j < y.size(0); j++) {
        double sum = 0;
        for (int64_t k = 0; k < x.size(1); k++) {
          double d = a[i][k] - b[j][k];
          sum += d * d;
        }
        to[i][j] = std::exp(-sum / (2 * width * width));
      }
  });
  return result;
}

Tensor gaussian_meta(const Tensor& x, const Tensor& y, double width) {
  fits(x, y);
  return at::empty_symint({x.sym_size(0), y.sym_size(0)}, x.options());
}

struct Gaussian : torch::autograd::Function<Gaussian> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& y, double width) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor result = gaussian(x, y, width);
    context->save_for_backward({x, y, result});
    context->saved_data["width"] = width;
    return result;
  }

  static variable_list backward(torch::autograd::AutogradContext* context, variable_list gradients) {
    auto saved = context->get_saved_variables();
    double width = context->saved_data["width"].toDouble();
    Tensor x = saved[0], y = saved[1];
    Tensor p = gradients[0] * saved[2] / (width * width);
    return {at::mm(p, y) - p.sum(1, true) * x, at::mm(p.t(), x) - p.sum(0).unsqueeze(1) * y};
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
