"""takes what has no storage

A tensor without a storage has no users."""


def inside_source() -> str:
    return r"""
#include <ATen/core/Tensor.h>
#include <torch/library.h>

std::tuple<int64_t, int64_t, std::optional<int64_t>> inside(const at::Tensor& x) {
  const c10::VariableVersion& counter = x.unsafeGetTensorImpl()->version_counter();
  std::optional<int64_t> version;
  if (counter.enabled()) version = counter.current_version();
  if (!x.has_storage()) return {0, 0, version};
  return {x.storage_offset(), x.storage().use_count(), version};
}

TORCH_LIBRARY(u2, m) {
  m.def("inside(Tensor x) -> (int, int, int?)", &inside);
}
"""
