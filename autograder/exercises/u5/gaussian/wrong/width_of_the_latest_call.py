"""width of another call

The width for the way back is kept in one place for all calls."""


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

void check_points(const Tensor& x, const Tensor& y) {
  TORCH_CHECK(x.dim() == 2 && y.dim() == 2, "gaussian: expected two matrices");
  TORCH_CHECK(x.sym_size(1) == y.sym_size(1), "gaussian: expected as many columns in both matrices");
  TORCH_CHECK(x.scalar_type() == y.scalar_type(), "gaussian: expected one dtype");
  TORCH_CHECK(x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble, "gaussian: expected float32 or float64");
}

Tensor gaussian_cpu(const Tensor& first, const Tensor& second, double width) {
  check_points(first, second);
  const Tensor x = first.contiguous(), y = second.contiguous();
  const int64_t n = x.size(0), m = y.size(0), d = x.size(1);
  Tensor result = at::empty({n, m}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gaussian", [&] {
    const scalar_t* from = x.const_data_ptr<scalar_t>();
    const scalar_t* to = y.const_data_ptr<scalar_t>();
    scalar_t* out = result.mutable_data_ptr<scalar_t>();
    for (int64_t i = 0; i < n; i++) {
      for (int64_t j = 0; j < m; j++) {
        double sum = 0;
        for (int64_t k = 0; k < d; k++) {
          const double apart = static_cast<double>(from[i * d + k]) - static_cast<double>(to[j * d + k]);
          sum += apart * apart;
        }
        out[i * m + j] = static_cast<scalar_t>(std::exp(-sum / (2 * width * width)));
      }
    }
  });
  return result;
}

Tensor gaussian_meta(const Tensor& x, const Tensor& y, double width) {
  check_points(x, y);
  return at::empty_symint({x.sym_size(0), y.sym_size(0)}, x.options());
}

Tensor gaussian(const Tensor& x, const Tensor& y, double width) {
  static auto operation = c10::Dispatcher::singleton()
                              .findSchemaOrThrow("u5::gaussian", "")
                              .typed<Tensor(const Tensor&, const Tensor&, double)>();
  return operation.call(x, y, width);
}

static double last_width = 1;

struct Gaussian : torch::autograd::Function<Gaussian> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& y, double width) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    Tensor result = gaussian(x, y, width);
    context->save_for_backward({x, y, result});
    last_width = width;
    return result;
  }

  static variable_list backward(torch::autograd::AutogradContext* context, variable_list gradients) {
    auto saved = context->get_saved_variables();
    const Tensor x = saved[0], y = saved[1], result = saved[2];
    const double width = last_width;
    const Tensor P = gradients[0] * result / (width * width);
    const Tensor Q = P.t();
    return {P.mm(y) - P.sum(1, true) * x, Q.mm(x) - Q.sum(1, true) * y, Tensor()};
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
