"""another dtype

Promotes a tensor without dimensions like any other.
"""


def soft_clip_source() -> str:
    return r"""
#include <torch/library.h>
#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/cpu/Loops.h>
#include <cmath>

static void run(at::TensorIterator& iter) {
  AT_DISPATCH_FLOATING_TYPES(iter.common_dtype(), "soft_clip", [&] {
    using V = at::vec::Vectorized<scalar_t>;
    at::native::cpu_kernel_vec(
        iter,
        [](scalar_t x, scalar_t limit) -> scalar_t { return x * limit / (limit + std::abs(x)); },
        [](V x, V limit) -> V { return x * limit / (limit + x.abs()); });
  });
}

at::Tensor soft_clip(const at::Tensor& x, const at::Tensor& limit) {
  at::Tensor out;
  auto common = at::promote_types(x.scalar_type(), limit.scalar_type());
  if (!at::isFloatingType(common)) common = at::kFloat;
  auto iter = at::TensorIterator::binary_float_op(out, x.to(common), limit.to(common));
  run(iter);
  return iter.output();
}

at::Tensor& soft_clip_out(const at::Tensor& x, const at::Tensor& limit, at::Tensor& out) {
  auto common = at::promote_types(x.scalar_type(), limit.scalar_type());
  if (!at::isFloatingType(common)) common = at::kFloat;
  auto iter = at::TensorIterator::binary_float_op(out, x.to(common), limit.to(common));
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
