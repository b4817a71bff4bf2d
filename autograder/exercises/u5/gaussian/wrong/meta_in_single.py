"""wrong fake shape

The kernel for Meta allocates in single precision.
"""


def gaussian_source() -> str:
    return r"""
#include <torch/library.h>
#include <torch/csrc/autograd/custom_function.h>
#include <ATen/ATen.h>

using at::Tensor;

static void fit(const Tensor& x, const Tensor& y) {
  TORCH_CHECK(x.dim() == 2 && y.dim() == 2, "two matrices of points are expected");
  TORCH_CHECK(x.sym_size(1) == y.sym_size(1), "points of different dimension");
  TORCH_CHECK(x.scalar_type() == y.scalar_type() && at::isFloatingType(x.scalar_type()), "one floating dtype is expected");
}

static Tensor on_cpu(const Tensor& x, const Tensor& y, double width) {
  fit(x, y);
  return (x.unsqueeze(1) - y.unsqueeze(0)).square().sum(-1).mul(-0.5 / (width * width)).exp();
}

static Tensor on_meta(const Tensor& x, const Tensor& y, double width) {
  fit(x, y);
  return at::empty_symint({x.sym_size(0), y.sym_size(0)}, x.options().dtype(at::kFloat));
}

static Tensor call(const Tensor& x, const Tensor& y, double width) {
  static auto op = c10::Dispatcher::singleton().findSchemaOrThrow("u5::gaussian", "").typed<Tensor(const Tensor&, const Tensor&, double)>();
  return op.call(x, y, width);
}

struct Gaussian : torch::autograd::Function<Gaussian> {
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& x, const Tensor& y, double width) {
    at::AutoDispatchBelowADInplaceOrView guard;
    Tensor result = call(x, y, width);
    ctx->save_for_backward({x, y});
    ctx->saved_data["width"] = width;
    return result;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list gradients) {
    auto saved = ctx->get_saved_variables();
    Tensor x = saved[0], y = saved[1];
    double width = ctx->saved_data["width"].toDouble();
    Tensor p = gradients[0] * call(x, y, width) / (width * width);
    Tensor for_x = p.matmul(y) - p.sum(1, true) * x;
    Tensor for_y = p.t().matmul(x) - p.sum(0).unsqueeze(1) * y;
    return {for_x, for_y, Tensor()};
  }
};

static Tensor with_gradient(const Tensor& x, const Tensor& y, double width) { return Gaussian::apply(x, y, width); }

TORCH_LIBRARY(u5, m) { m.def("gaussian(Tensor x, Tensor y, float width) -> Tensor"); }
TORCH_LIBRARY_IMPL(u5, CPU, m) { m.impl("gaussian", &on_cpu); }
TORCH_LIBRARY_IMPL(u5, Meta, m) { m.impl("gaussian", &on_meta); }
TORCH_LIBRARY_IMPL(u5, Autograd, m) { m.impl("gaussian", &with_gradient); }
"""
