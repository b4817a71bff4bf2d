"""keeps with probability p

The comparison the other way round."""


def silu_dropout_source() -> str:
    return r"""
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/core/DistributionsHelper.h>
#include <torch/library.h>

using at::Tensor;

std::tuple<Tensor, Tensor> silu_dropout(const Tensor& x, double p, std::optional<at::Generator> generator) {
  TORCH_CHECK(0 <= p && p <= 1, "p is a probability, not ", p);
  auto* numbers = at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  std::lock_guard<std::mutex> lock(numbers->mutex_);
  at::uniform_real_distribution<double> uniform(0.0, 1.0);

  Tensor from = x.contiguous();
  Tensor result = at::empty(x.sizes(), x.options());
  Tensor mask = at::empty(x.sizes(), x.options().dtype(at::kBool));
  double scale = p < 1 ? 1 / (1 - p) : 0;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "silu_dropout", [&] {
    const scalar_t* in = from.const_data_ptr<scalar_t>();
    scalar_t* out = result.mutable_data_ptr<scalar_t>();
    bool* keep = mask.mutable_data_ptr<bool>();
    for (int64_t i = 0; i < from.numel(); i++) {
      keep[i] = uniform(numbers) < p;
      out[i] = keep[i] ? in[i] / (1 + std::exp(-in[i])) * scale : 0;
    }
  });
  return {result, mask};
}

Tensor silu_dropout_backward(const Tensor& gradient, const Tensor& x, const Tensor& mask, double p) {
  Tensor above = gradient.contiguous(), from = x.contiguous(), kept = mask.contiguous();
  Tensor result = at::empty(x.sizes(), x.options());
  double scale = p < 1 ? 1 / (1 - p) : 0;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "silu_dropout_backward", [&] {
    const scalar_t *up = above.const_data_ptr<scalar_t>(), *in = from.const_data_ptr<scalar_t>();
    const bool* keep = kept.const_data_ptr<bool>();
    scalar_t* out = result.mutable_data_ptr<scalar_t>();
    for (int64_t i = 0; i < from.numel(); i++) {
      scalar_t sigmoid = 1 / (1 + std::exp(-in[i]));
      out[i] = keep[i] ? up[i] * sigmoid * (1 + in[i] * (1 - sigmoid)) * scale : 0;
    }
  });
  return result;
}

std::tuple<Tensor, Tensor> silu_dropout_meta(const Tensor& x, double p, std::optional<at::Generator> generator) {
  TORCH_CHECK(0 <= p && p <= 1, "p is a probability, not ", p);
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(x.sym_sizes(), x.options().dtype(at::kBool))};
}

Tensor silu_dropout_backward_meta(const Tensor& gradient, const Tensor& x, const Tensor& mask, double p) {
  return at::empty_symint(x.sym_sizes(), x.options());
}

TORCH_LIBRARY(u5, m) {
  m.def("silu_dropout(Tensor x, float p, Generator? generator=None) -> (Tensor, Tensor)", {at::Tag::nondeterministic_seeded});
  m.def("silu_dropout_backward(Tensor gradient, Tensor x, Tensor mask, float p) -> Tensor");
}
TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("silu_dropout", &silu_dropout);
  m.impl("silu_dropout_backward", &silu_dropout_backward);
}
TORCH_LIBRARY_IMPL(u5, Meta, m) {
  m.impl("silu_dropout", &silu_dropout_meta);
  m.impl("silu_dropout_backward", &silu_dropout_backward_meta);
}
"""
