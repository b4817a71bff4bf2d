"""cast not refused

A configuration of its own that casts to whatever dtype `out` has: fractions go into whole numbers."""


def soft_clip_source() -> str:
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/cpu/Loops.h>
#include <torch/library.h>

void soft_clip_kernel(at::TensorIterator& iter) {
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
  auto iter = at::TensorIterator::binary_float_op(result, x, limit);
  soft_clip_kernel(iter);
  return iter.output();
}

at::Tensor& soft_clip_out(const at::Tensor& x, const at::Tensor& limit, at::Tensor& out) {
  auto iter = at::TensorIteratorConfig()
                  .add_output(out)
                  .add_const_input(x)
                  .add_const_input(limit)
                  .allow_cpu_scalars(true)
                  .promote_inputs_to_common_dtype(true)
                  .promote_integer_inputs_to_float(true)
                  .cast_common_dtype_to_outputs(true)
                  .build();
  soft_clip_kernel(iter);
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
