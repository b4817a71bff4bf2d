"""A kernel of its own for all backends, and a reference to the storage that is checked first."""


def inside_source() -> str:
    return r"""
#include <ATen/core/Tensor.h>
#include <torch/library.h>

std::tuple<int64_t, int64_t, std::optional<int64_t>> inside(const at::Tensor& x) {
  TORCH_CHECK(x.has_storage(), "inside: this tensor has no storage");
  const c10::Storage& storage = x.storage();
  const c10::VariableVersion& counter = x.unsafeGetTensorImpl()->version_counter();
  std::optional<int64_t> version;
  if (counter.enabled()) version = counter.current_version();
  return std::make_tuple(x.storage_offset(), static_cast<int64_t>(storage.use_count()), version);
}

TORCH_LIBRARY(u2, m) {
  m.def("inside(Tensor x) -> (int, int, int?)");
}

TORCH_LIBRARY_IMPL(u2, CompositeExplicitAutograd, m) {
  m.impl("inside", &inside);
}
"""
