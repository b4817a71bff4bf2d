"""offset from addresses

Subtracts where the storage begins from where the elements begin; without memory it falls back to the tensor."""


def inside_source() -> str:
    return r"""
#include <ATen/core/Tensor.h>
#include <torch/library.h>

std::tuple<int64_t, int64_t, std::optional<int64_t>> inside(const at::Tensor& x) {
  const c10::VariableVersion& counter = x.unsafeGetTensorImpl()->version_counter();
  std::optional<int64_t> version;
  if (counter.enabled()) version = counter.current_version();
  int64_t offset = x.storage_offset();
  if (x.storage().data() != nullptr) {
    auto first = static_cast<const char*>(x.data_ptr()), start = static_cast<const char*>(x.storage().data());
    offset = (first - start) / static_cast<int64_t>(x.element_size());
  }
  return {offset, x.storage().use_count(), version};
}

TORCH_LIBRARY(u2, m) {
  m.def("inside(Tensor x) -> (int, int, int?)", &inside);
}
"""
