"""not refused

The kernel for Meta knows shapes, and does not look at p."""


def silu_dropout_source() -> str:
    return r"""
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/core/DistributionsHelper.h>
#include <torch/library.h>
#include <cmath>
#include <mutex>

using at::Tensor;

void check_probability(double p) {
  TORCH_CHECK(p >= 0 && p <= 1, "silu_dropout: p must be from 0 to 1, got ", p);
}

std::tuple<Tensor, Tensor> silu_dropout(const Tensor& given, double p, std::optional<at::Generator> generator) {
  check_probability(p);
  auto* numbers = at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  const Tensor x = given.contiguous();
  Tensor result = at::empty(x.sizes(), x.options());
  Tensor mask = at::empty(x.sizes(), x.options().dtype(at::kBool));
  bool* kept = mask.mutable_data_ptr<bool>();
  const double scale = 1 / (1 - p);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "silu_dropout", [&] {
    const scalar_t* from = x.const_data_ptr<scalar_t>();
    scalar_t* to = result.mutable_data_ptr<scalar_t>();
    std::lock_guard<std::mutex> lock(numbers->mutex_);
    at::uniform_real_distribution<double> uniform(0, 1);
    for (int64_t i = 0; i < x.numel(); i++) {
      const bool keep = uniform(numbers) >= p;
      const double value = from[i];
      kept[i] = keep;
      to[i] = keep ? static_cast<scalar_t>(value / (1 + std::exp(-value)) * scale) : scalar_t(0);
    }
  });
  return {result, mask};
}

Tensor silu_dropout_backward(const Tensor& gradient, const Tensor& given, const Tensor& mask, double p) {
  const Tensor incoming = gradient.contiguous(), x = given.contiguous(), kept = mask.contiguous();
  Tensor result = at::empty(x.sizes(), x.options());
  const bool* keep = kept.const_data_ptr<bool>();
  const double scale = 1 / (1 - p);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "silu_dropout_backward", [&] {
    const scalar_t* in = incoming.const_data_ptr<scalar_t>();
    const scalar_t* from = x.const_data_ptr<scalar_t>();
    scalar_t* to = result.mutable_data_ptr<scalar_t>();
    for (int64_t i = 0; i < x.numel(); i++) {
      const double value = from[i], sigmoid = 1 / (1 + std::exp(-value));
      const double slope = sigmoid * (1 + value * (1 - sigmoid));
      to[i] = keep[i] ? static_cast<scalar_t>(in[i] * slope * scale) : scalar_t(0);
    }
  });
  return result;
}

std::tuple<Tensor, Tensor> silu_dropout_meta(const Tensor& x, double p, std::optional<at::Generator> generator) {
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(x.sym_sizes(), x.options().dtype(at::kBool))};
}

Tensor silu_dropout_backward_meta(const Tensor& gradient, const Tensor& x, const Tensor& mask, double p) {
  return at::empty_symint(x.sym_sizes(), x.options());
}

TORCH_LIBRARY(u5, m) {
  m.def(
      "silu_dropout(Tensor x, float p, Generator? generator=None) -> (Tensor, Tensor)",
      {at::Tag::nondeterministic_seeded});
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
