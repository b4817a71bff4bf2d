"""reads a copy

Makes the tensor contiguous before it looks."""


def inside_source() -> str:
    return r"""
#include <ATen/core/Tensor.h>
#include <torch/library.h>

std::tuple<int64_t, int64_t, std::optional<int64_t>> inside(const at::Tensor& x) {
  at::Tensor plain = x.contiguous();
  const c10::TensorImpl* impl = plain.unsafeGetTensorImpl();
  std::optional<int64_t> version;
  if (x.unsafeGetTensorImpl()->version_counter().enabled()) {
    version = impl->version_counter().current_version();
  }
  return {impl->storage_offset(), impl->storage().use_count(), version};
}

TORCH_LIBRARY(u2, m) {
  m.def("inside(Tensor x) -> (int, int, int?)", &inside);
}
"""
