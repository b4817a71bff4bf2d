"""NaN

The backward multiplies by the mask: NaN times 0 is NaN.
"""


def silu_dropout_source() -> str:
    return r"""
#include <torch/library.h>
#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Dispatch.h>
#include <ATen/core/DistributionsHelper.h>
#include <cmath>
#include <mutex>
#include <tuple>

using at::Tensor;

static void probability(double p) { TORCH_CHECK(p >= 0 && p <= 1, "p is no probability"); }

std::tuple<Tensor, Tensor> forward(const Tensor& x, double p, std::optional<at::Generator> generator) {
  probability(p);
  auto* source = at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  Tensor in = x.contiguous(), out = at::empty(x.sizes(), x.options()), mask = at::empty(x.sizes(), x.options().dtype(at::kBool));
  const double scale = 1 / (1 - p);
  std::lock_guard<std::mutex> lock(source->mutex_);
  at::uniform_real_distribution<double> uniform(0, 1);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "silu_dropout", [&] {
    const scalar_t* from = in.const_data_ptr<scalar_t>();
    scalar_t* to = out.data_ptr<scalar_t>();
    bool* keep = mask.data_ptr<bool>();
    for (int64_t i = 0; i < x.numel(); ++i) {
      keep[i] = uniform(source) >= p;
      to[i] = keep[i] ? static_cast<scalar_t>(from[i] / (1 + std::exp(-from[i])) * scale) : scalar_t(0);
    }
  });
  return {out, mask};
}

Tensor backward(const Tensor& gradient, const Tensor& x, const Tensor& mask, double p) {
  probability(p);
  Tensor g = gradient.contiguous(), in = x.contiguous(), kept = mask.contiguous(), out = at::empty(x.sizes(), x.options());
  const double scale = 1 / (1 - p);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "silu_dropout_backward", [&] {
    const scalar_t *up = g.const_data_ptr<scalar_t>(), *from = in.const_data_ptr<scalar_t>();
    const bool* keep = kept.const_data_ptr<bool>();
    scalar_t* to = out.data_ptr<scalar_t>();
    for (int64_t i = 0; i < x.numel(); ++i) {
      const scalar_t s = 1 / (1 + std::exp(-from[i]));
      to[i] = static_cast<scalar_t>(up[i] * s * (1 + from[i] * (1 - s)) * (p < 1 ? scale : 0.0) * keep[i]);
    }
  });
  return out;
}

std::tuple<Tensor, Tensor> forward_meta(const Tensor& x, double p, std::optional<at::Generator> generator) {
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(x.sym_sizes(), x.options().dtype(at::kBool))};
}

Tensor backward_meta(const Tensor& gradient, const Tensor& x, const Tensor& mask, double p) {
  return at::empty_symint(x.sym_sizes(), x.options());
}

TORCH_LIBRARY(u5, m) {
  m.def("silu_dropout(Tensor x, float p, Generator? generator=None) -> (Tensor, Tensor)", {at::Tag::nondeterministic_seeded});
  m.def("silu_dropout_backward(Tensor gradient, Tensor x, Tensor mask, float p) -> Tensor");
}
TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("silu_dropout", &forward);
  m.impl("silu_dropout_backward", &backward);
}
TORCH_LIBRARY_IMPL(u5, Meta, m) {
  m.impl("silu_dropout", &forward_meta);
  m.impl("silu_dropout_backward", &backward_meta);
}
"""
