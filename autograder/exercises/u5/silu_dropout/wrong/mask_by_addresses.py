"""strides ignored

The mask is read in the order of its memory."""


def silu_dropout_source() -> str:
    return r"""
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/cpu/Loops.h>
#include <torch/library.h>
#include <cmath>
#include <mutex>

using at::Tensor;

void probability(double p) {
  TORCH_CHECK(p >= 0 && p <= 1, "p is not a probability");
}

std::tuple<Tensor, Tensor> forward(const Tensor& x, double p, std::optional<at::Generator> generator) {
  probability(p);
  auto draws = at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  Tensor from = x.contiguous();
  Tensor result = at::empty(x.sizes(), x.options()), mask = at::empty(x.sizes(), x.options().dtype(at::kBool));
  std::lock_guard<std::mutex> lock(draws->mutex_);
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "silu_dropout", [&] {
    const scalar_t* in = from.const_data_ptr<scalar_t>();
    scalar_t* out = result.mutable_data_ptr<scalar_t>();
    bool* kept = mask.mutable_data_ptr<bool>();
    for (int64_t i = 0; i < x.numel(); i++) {
      double drawn = static_cast<double>(draws->random64() >> 11) / 9007199254740992.0;
      kept[i] = drawn >= p;
      out[i] = kept[i] ? static_cast<scalar_t>(in[i] / (1 + std::exp(-in[i])) / (1 - p)) : scalar_t(0);
    }
  });
  return {result, mask};
}

Tensor backward(const Tensor& gradient, const Tensor& x, const Tensor& mask, double p) {
  probability(p);
  Tensor g = gradient.contiguous(), from = x.contiguous(), keep = mask;
  Tensor result = at::empty(x.sizes(), x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "silu_dropout_backward", [&] {
    const scalar_t *gs = g.const_data_ptr<scalar_t>(), *in = from.const_data_ptr<scalar_t>();
    const bool* kept = keep.const_data_ptr<bool>();
    scalar_t* out = result.mutable_data_ptr<scalar_t>();
    for (int64_t i = 0; i < x.numel(); i++) {
      scalar_t s = 1 / (1 + std::exp(-in[i]));
      out[i] = kept[i] ? static_cast<scalar_t>(gs[i] * s * (1 + in[i] * (1 - s)) / (1 - p)) : scalar_t(0);
    }
  });
  return result;
}

std::tuple<Tensor, Tensor> forward_shape(const Tensor& x, double p, std::optional<at::Generator> generator) {
  probability(p);
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(x.sym_sizes(), x.options().dtype(at::kBool))};
}

Tensor backward_shape(const Tensor& gradient, const Tensor& x, const Tensor& mask, double p) {
  probability(p);
  return at::empty_symint(x.sym_sizes(), x.options());
}

TORCH_LIBRARY(u5, m) {
  m.def("silu_dropout(Tensor x, float p, Generator? generator=None) -> (Tensor, Tensor)",
        {at::Tag::nondeterministic_seeded});
  m.def("silu_dropout_backward(Tensor gradient, Tensor x, Tensor mask, float p) -> Tensor");
}
TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("silu_dropout", &forward);
  m.impl("silu_dropout_backward", &backward);
}
TORCH_LIBRARY_IMPL(u5, Meta, m) {
  m.impl("silu_dropout", &forward_shape);
  m.impl("silu_dropout_backward", &backward_shape);
}
"""
