"""made-up version

A tensor that nobody counts for gets version 0."""


def inside_source() -> str:
    return r"""
#include <ATen/core/Tensor.h>
#include <torch/library.h>

std::tuple<int64_t, int64_t, std::optional<int64_t>> inside(const at::Tensor& x) {
  int64_t version = x.is_inference() ? 0 : x._version();
  return {x.storage_offset(), x.storage().use_count(), version};
}

TORCH_LIBRARY(u2, m) {
  m.def("inside(Tensor x) -> (int, int, int?)", &inside);
}
"""
