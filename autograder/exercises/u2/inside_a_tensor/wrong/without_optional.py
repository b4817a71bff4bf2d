"""another schema

Three numbers, with -1 for no version."""


def inside_source() -> str:
    return r"""
#include <ATen/core/Tensor.h>
#include <torch/library.h>

std::tuple<int64_t, int64_t, int64_t> inside(const at::Tensor& x) {
  return {x.storage_offset(), x.storage().use_count(), x.is_inference() ? -1 : x._version()};
}

TORCH_LIBRARY(u2, m) {
  m.def("inside(Tensor x) -> (int, int, int)", &inside);
}
"""
