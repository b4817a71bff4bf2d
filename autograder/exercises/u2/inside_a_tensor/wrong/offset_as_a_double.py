"""narrow offset

Keeps the offset in a `double` on its way."""


def inside_source() -> str:
    return r"""
#include <ATen/core/Tensor.h>
#include <torch/library.h>

std::tuple<int64_t, int64_t, std::optional<int64_t>> inside(const at::Tensor& x) {
  const c10::VariableVersion& counter = x.unsafeGetTensorImpl()->version_counter();
  std::optional<int64_t> version;
  if (counter.enabled()) version = counter.current_version();
  const double offset = x.storage_offset();
  return {static_cast<int64_t>(offset), x.storage().use_count(), version};
}

TORCH_LIBRARY(u2, m) {
  m.def("inside(Tensor x) -> (int, int, int?)", &inside);
}
"""
