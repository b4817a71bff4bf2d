"""refused

Refuses every out on the storage of x but x itself: also other columns of the same matrix, which share no element with it, and a view of all of x.
"""


def soft_clip_source() -> str:
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/cpu/Loops.h>
#include <torch/library.h>

#include <cmath>

at::TensorIterator iterator(const at::Tensor& out, const at::Tensor& x, const at::Tensor& limit) {
  return at::TensorIteratorConfig()
      .set_check_mem_overlap(true)
      .allow_cpu_scalars(true)
      .promote_inputs_to_common_dtype(true)
      .promote_integer_inputs_to_float(true)
      .cast_common_dtype_to_outputs(true)
      .enforce_safe_casting_to_output(true)
      .add_output(out)
      .add_const_input(x)
      .add_const_input(limit)
      .build();
}

void run(at::TensorIterator& iter) {
  AT_DISPATCH_FLOATING_TYPES(iter.common_dtype(), "soft_clip", [&] {
    at::native::cpu_kernel(iter, [](scalar_t x, scalar_t limit) -> scalar_t {
      return x * limit / (limit + std::abs(x));
    });
  });
}

at::Tensor soft_clip(const at::Tensor& x, const at::Tensor& limit) {
  at::Tensor none;
  auto iter = iterator(none, x, limit);
  run(iter);
  return iter.output();
}

at::Tensor& soft_clip_out(const at::Tensor& x, const at::Tensor& limit, at::Tensor& out) {
  TORCH_CHECK(!out.is_alias_of(x) || out.is_same(x), "soft_clip: out overlaps x");
  auto iter = iterator(out, x, limit);
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
