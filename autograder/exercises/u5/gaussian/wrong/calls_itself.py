"""ended the process

Nothing keeps the call from coming back to the kernel for Autograd."""


def gaussian_source() -> str:
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

using at::Tensor;

Tensor on_cpu(const Tensor& x, const Tensor& y, double width) {
  TORCH_CHECK(x.dim() == 2 && y.dim() == 2 && x.size(1) == y.size(1), "gaussian takes two sets of points");
  TORCH_CHECK(x.scalar_type() == y.scalar_type(), "gaussian takes points of one dtype");
  Tensor result = at::empty({x.size(0), y.size(0)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gaussian", [&] {
    auto from = x.accessor<scalar_t, 2>(), to = y.accessor<scalar_t, 2>(), found = result.accessor<scalar_t, 2>();
    for (int64_t i = 0; i < x.size(0); i++) {
      for (int64_t j = 0; j < y.size(0); j++) {
        double distance = 0;
        for (int64_t k = 0; k < x.size(1); k++) {
          double difference = from[i][k] - to[j][k];
          distance += difference * difference;
        }
        found[i][j] = std::exp(-distance / (2 * width * width));
      }
    }
  });
  return result;
}

Tensor on_meta(const Tensor& x, const Tensor& y, double width) {
  TORCH_CHECK(x.dim() == 2 && y.dim() == 2, "gaussian takes two sets of points");
  TORCH_SYM_CHECK(x.sym_size(1).sym_eq(y.sym_size(1)), "gaussian takes points of as many coordinates");
  return at::empty_symint({x.sym_size(0), y.sym_size(0)}, x.options());
}

Tensor gaussian(const Tensor& x, const Tensor& y, double width) {
  static auto operation = c10::Dispatcher::singleton()
                              .findSchemaOrThrow("u5::gaussian", "")
                              .typed<Tensor(const Tensor&, const Tensor&, double)>();
  return operation.call(x, y, width);
}

struct Gaussian : torch::autograd::Function<Gaussian> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& y, double width) {
    Tensor result = gaussian(x, y, width);
    context->save_for_backward({x, y, result});
    context->saved_data["width"] = width;
    return result;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    auto saved = context->get_saved_variables();
    Tensor x = saved[0], y = saved[1];
    double width = context->saved_data["width"].toDouble();
    Tensor pull = gradients[0] * saved[2] / (width * width);
    Tensor for_x = at::mm(pull, y) - pull.sum(1, true) * x;
    Tensor for_y = at::mm(pull.t(), x) - pull.sum(0).unsqueeze(1) * y;
    return {for_x, for_y, Tensor()};
  }
};

Tensor on_autograd(const Tensor& x, const Tensor& y, double width) {
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
  m.impl("gaussian", &on_autograd);
}
"""
