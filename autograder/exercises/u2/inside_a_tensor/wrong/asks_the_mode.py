"""asks the mode

Says nothing while inference mode is on, whoever made the tensor."""


def inside_source() -> str:
    return r"""
#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>
#include <torch/library.h>

std::tuple<int64_t, int64_t, std::optional<int64_t>> inside(const at::Tensor& x) {
  const c10::VariableVersion& counter = x.unsafeGetTensorImpl()->version_counter();
  std::optional<int64_t> version;
  if (counter.enabled()) version = counter.current_version();
  if (c10::InferenceMode::is_enabled()) version = std::nullopt;
  return {x.storage_offset(), x.storage().use_count(), version};
}

TORCH_LIBRARY(u2, m) {
  m.def("inside(Tensor x) -> (int, int, int?)", &inside);
}
"""
