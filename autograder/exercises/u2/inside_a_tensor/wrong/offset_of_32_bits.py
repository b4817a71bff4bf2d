"""narrow offset

Keeps the offset in an `int` on its way."""


def inside_source() -> str:
    """The C++ source: a string in three quotes, with an r in front."""
    return r"""
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <optional>
#include <tuple>

std::tuple<int64_t, int64_t, std::optional<int64_t>> inside(const at::Tensor& x) {
  const c10::TensorImpl* tensor = x.unsafeGetTensorImpl();
  TORCH_CHECK(tensor->has_storage(), "inside: this tensor has no storage");
  const c10::Storage& storage = tensor->storage();
  std::optional<int64_t> version;
  if (tensor->version_counter().enabled()) {
    version = static_cast<int64_t>(tensor->version_counter().current_version());
  }
  int offset = static_cast<int>(tensor->storage_offset());
  return std::make_tuple(static_cast<int64_t>(offset), static_cast<int64_t>(storage.use_count()), version);
}

TORCH_LIBRARY(u2, m) {
  m.def("inside(Tensor x) -> (int, int, int?)", &inside);
}
"""
