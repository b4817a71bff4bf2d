"""What `at::Tensor` offers by itself, without a look at `TensorImpl`."""


def inside_source() -> str:
    return r"""
#include <ATen/core/Tensor.h>
#include <torch/library.h>

std::tuple<int64_t, int64_t, std::optional<int64_t>> inside(const at::Tensor& x) {
  int64_t offset = x.storage_offset(), users = x.storage().use_count();
  if (x.is_inference()) return {offset, users, std::nullopt};
  return {offset, users, x._version()};
}

TORCH_LIBRARY(u2, m) {
  m.def("inside(Tensor x) -> (int, int, int?)", &inside);
}
"""
