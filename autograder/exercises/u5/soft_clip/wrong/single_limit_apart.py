"""another shape

A single limit stays in a register, and its dimensions are forgotten."""


def soft_clip_source() -> str:
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/ExpandUtils.h>
#include <ATen/Functions.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/cpu/Loops.h>
#include <torch/library.h>
#include <cmath>

void run(at::TensorIterator& iter) {
  AT_DISPATCH_FLOATING_TYPES(iter.common_dtype(), "soft_clip", [&] {
    using Vec = at::vec::Vectorized<scalar_t>;
    at::native::cpu_kernel_vec(
        iter,
        [](scalar_t x, scalar_t limit) -> scalar_t { return x * limit / (limit + std::abs(x)); },
        [](Vec x, Vec limit) -> Vec { return x * limit / (limit + x.abs()); });
  });
}

at::Tensor soft_clip(const at::Tensor& x, const at::Tensor& limit) {
  at::Tensor result;
  if (limit.numel() == 1 && limit.scalar_type() == x.scalar_type() &&
      (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble)) {
    // A single limit: it stays in a register.
    auto iter = at::TensorIterator::unary_op(result, x);
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "soft_clip", [&] {
      using Vec = at::vec::Vectorized<scalar_t>;
      const scalar_t cap = *limit.const_data_ptr<scalar_t>();
      at::native::cpu_kernel_vec(
          iter,
          [cap](scalar_t x) -> scalar_t { return x * cap / (cap + std::abs(x)); },
          [cap](Vec x) -> Vec { return x * Vec(cap) / (Vec(cap) + x.abs()); });
    });
    return iter.output();
  }
  auto iter = at::TensorIterator::binary_float_op(result, x, limit);
  run(iter);
  return iter.output();
}

at::Tensor& soft_clip_out(const at::Tensor& x, const at::Tensor& limit, at::Tensor& out) {
  auto iter = at::TensorIterator::binary_float_op(out, x, limit);
  run(iter);
  return out;
}

TORCH_LIBRARY(u5, m) {
  m.def("soft_clip(Tensor x, Tensor limit) -> Tensor");
  m.def("soft_clip.out(Tensor x, Tensor limit, *, Tensor(a!) out) -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("soft_clip", &soft_clip);
  m.impl("soft_clip.out", &soft_clip_out);
}
"""
