# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex15-introduction", "locked": true, "schema_version": 3, "solution": false, "task": false}
# # Exercise 15: operators in C++
#
# Five tasks and two questions, a bit under four hours. You write operators in C++ that the dispatcher, autograd and the compiler
# take for PyTorch's own.
#
# You write a function that returns C++ as a string. The check below it compiles the string, calls the operator in a process of
# its own, and shows what came back. If your code brings that process down, your notebook stays up. The first build takes half a
# minute, because PyTorch's headers are compiled once; after that it's seconds. `submit` at the end also tries hidden cases:
# other shapes, strides, dtypes and numbers.

# %% nbgrader={"grade": false, "grade_id": "ex15-setup", "locked": true, "schema_version": 3, "solution": false, "task": false}
from autograder import check, submit

# %% [markdown] nbgrader={"grade": false, "grade_id": "longest_run-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 1. A first operator
#
# *25 minutes, medium.* PyTorch has no operator that finds the longest run of large numbers in a row. Write one in C++:
# `longest_run(Tensor x, float limit=0.0) -> Tensor` in the namespace `u5`, with a kernel for the CPU.
#
# `x` is a matrix of `float32` or `float64`, wherever its numbers lie in memory. The result has one `int64` number a row: the
# length of the longest run of neighbours that are all greater than `limit`, which is a number of double precision for both
# dtypes. A row that has no elements gives 0. NaN is greater than no number. Don't write into `x`.
#
# Any other `x` must be refused with an error: another number of dimensions, another dtype, another device.
#
# For example, `[[1, 2, -1, 3]]` gives `[2]`.
#
# <details><summary>Hint 1: a question</summary>Which C++ type belongs to <code>float</code> in a schema, and which to <code>Tensor</code>?</details>
# <details><summary>Hint 2: the idea</summary>Say what you rely on with <code>TORCH_CHECK</code>. <code>AT_DISPATCH_FLOATING_TYPES</code> makes a copy of your loop for each dtype, in which <code>scalar_t</code> is the type, and <code>x.accessor&lt;scalar_t, 2&gt;()</code> knows the strides.</details>
# <details><summary>Hint 3: the shape</summary><code>TORCH_LIBRARY(u5, m)</code> defines the schema and nothing else; <code>TORCH_LIBRARY_IMPL(u5, CPU, m)</code> registers the kernel. In the loop, a counter goes up or back to 0, and each time you look whether it's the largest so far.</details>


# %% nbgrader={"grade": false, "grade_id": "longest_run-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def longest_run_source() -> str:
    """The C++ source: a string in three quotes, with an r in front."""
    ### BEGIN SOLUTION
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <torch/library.h>

at::Tensor longest_run(const at::Tensor& x, double limit) {
  TORCH_CHECK(x.dim() == 2, "longest_run takes a matrix, not ", x.dim(), " dimensions");
  auto result = at::zeros({x.size(0)}, x.options().dtype(at::kLong));
  auto found = result.accessor<int64_t, 1>();
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "longest_run", [&] {
    auto values = x.accessor<scalar_t, 2>();
    for (int64_t i = 0; i < x.size(0); i++) {
      int64_t length = 0;
      for (int64_t j = 0; j < x.size(1); j++) {
        length = values[i][j] > limit ? length + 1 : 0;
        found[i] = std::max(found[i], length);
      }
    }
  });
  return result;
}

TORCH_LIBRARY(u5, m) {
  m.def("longest_run(Tensor x, float limit=0.0) -> Tensor");
}

TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("longest_run", &longest_run);
}
"""
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "longest_run", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u5.longest_run(longest_run_source)

# %% [markdown] nbgrader={"grade": false, "grade_id": "soft_clip-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 2. TensorIterator and vector code
#
# *40 minutes, hard.* Broadcasting, promotion, strides, `out=`, overlap: `add` handles all that, and so can you, with one
# formula for a number and one for a vector of numbers. Write `soft_clip`, which computes `x * limit / (limit + |x|)`, in the
# namespace `u5`:
#
# - `soft_clip(Tensor x, Tensor limit) -> Tensor`
# - `soft_clip.out(Tensor x, Tensor limit, *, Tensor(a!) out) -> Tensor(a!)`
#
# Shapes, dtypes, memory order and refusals are those of `torch.div`; the common dtype is `float32` or `float64`. Two
# tensors of whole numbers give `float32`, and a channels-last `x` with a single limit gives a channels-last result. An `out` of
# another shape is resized. An `out` that overlaps with itself, or with a part of `x` or `limit`, must be refused; `x` itself is
# fine.
#
# Go through memory once: the kernel calls no other operator of PyTorch except to make room or convert.
#
# <details><summary>Hint 1: a question</summary>In which dtype does the kernel compute when <code>x</code> holds whole numbers? Not in that of <code>x</code>.</details>
# <details><summary>Hint 2: the idea</summary><code>at::TensorIterator::binary_float_op(out, x, limit)</code> knows all these rules. It allocates when <code>out</code> is an undefined <code>at::Tensor</code>, and <code>iter.output()</code> is the result.</details>
# <details><summary>Hint 3: the shape</summary>Both functions make an iterator and hand it to one that holds <code>AT_DISPATCH_FLOATING_TYPES(iter.common_dtype(), …)</code> around <code>at::native::cpu_kernel_vec(iter, one, many)</code>. The second lambda takes and returns <code>at::vec::Vectorized&lt;scalar_t&gt;</code>, which has <code>abs()</code>.</details>


# %% nbgrader={"grade": false, "grade_id": "soft_clip-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def soft_clip_source() -> str:
    """The C++ source: a string in three quotes, with an r in front."""
    ### BEGIN SOLUTION
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/cpu/Loops.h>
#include <torch/library.h>

void soft_clip_kernel(at::TensorIterator& iter) {
  AT_DISPATCH_FLOATING_TYPES(iter.common_dtype(), "soft_clip", [&] {
    using Vec = at::vec::Vectorized<scalar_t>;
    at::native::cpu_kernel_vec(
        iter,
        [](scalar_t x, scalar_t limit) -> scalar_t { return x * limit / (limit + std::abs(x)); },
        [](Vec x, Vec limit) -> Vec { return x * limit / (limit + x.abs()); });
  });
}

at::Tensor soft_clip(const at::Tensor& x, const at::Tensor& limit) {
  at::Tensor result;
  auto iter = at::TensorIterator::binary_float_op(result, x, limit);
  soft_clip_kernel(iter);
  return iter.output();
}

at::Tensor& soft_clip_out(const at::Tensor& x, const at::Tensor& limit, at::Tensor& out) {
  auto iter = at::TensorIterator::binary_float_op(out, x, limit);
  soft_clip_kernel(iter);
  return out;
}

TORCH_LIBRARY(u5, m) {
  m.def("soft_clip(Tensor x, Tensor limit) -> Tensor");
  m.def("soft_clip.out(Tensor x, Tensor limit, *, Tensor(a!) out) -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("soft_clip", &soft_clip);
  m.impl("soft_clip.out", &soft_clip_out);
}
"""
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "soft_clip", "locked": true, "points": 20, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u5.soft_clip(soft_clip_source)

# %% [markdown] nbgrader={"grade": false, "grade_id": "gaussian-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 3. Gradients, and a kernel without data
#
# Training and the compiler want more of an operator than numbers. Here's an operator that PyTorch doesn't have. For points `x`
# of shape (n, d) and `y` of shape (m, d), both of `float32` or both of `float64`, it gives the matrix (n, m) of
# `exp(-‖x[i] - y[j]‖² / (2 width²))`.
#
# With `G` for the result and `U` for the gradient that comes in, the gradient for `x[i]` is
# `Σⱼ U[i,j] G[i,j] (y[j] - x[i]) / width²`, and for `y[j]` the same with the roles exchanged.

# %% [markdown] nbgrader={"grade": false, "grade_id": "gaussian-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *55 minutes, hard.* Write `gaussian(Tensor x, Tensor y, float width) -> Tensor` in the namespace `u5`. Points that don't fit
# together must be refused: the operator takes two matrices with as many columns.
#
# - It needs a kernel for `CPU`, one for `Meta`, which knows shapes and has no data, and one for `Autograd`.
# - Its gradients for `x` and `y` can be differentiated again.
# - Exported with a dynamic number of points, and compiled, it stays one node, `u5.gaussian.default`.
# - `torch.library.opcheck` is content with it.
#
# <details><summary>Hint 1: a question</summary>Your kernel for Autograd calls the operator again. What keeps that call from arriving at the same kernel?</details>
# <details><summary>Hint 2: the idea</summary>Subclass <code>torch::autograd::Function</code>: <code>forward</code> goes below autograd with <code>at::AutoDispatchBelowADInplaceOrView</code> and calls the operator; <code>backward</code> uses operators that are recorded themselves. With symbols for sizes, ask <code>x.sym_size(0)</code> and allocate with <code>at::empty_symint</code>.</details>
# <details><summary>Hint 3: the shape</summary><code>c10::Dispatcher::singleton().findSchemaOrThrow("u5::gaussian", "").typed&lt;…&gt;().call(…)</code> calls the operator. Save <code>{x, y, result}</code> with <code>save_for_backward</code>. In <code>backward</code>, with <code>P = U * G / width²</code>: <code>P @ y - P.sum(1, true) * x</code>. Return one gradient for each argument; <code>Tensor()</code> for the number.</details>


# %% nbgrader={"grade": false, "grade_id": "gaussian-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def gaussian_source() -> str:
    """The C++ source: a string in three quotes, with an r in front."""
    ### BEGIN SOLUTION
    return r"""
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

using at::Tensor;

Tensor on_cpu(const Tensor& x, const Tensor& y, double width) {
  TORCH_CHECK(x.dim() == 2 && y.dim() == 2 && x.size(1) == y.size(1), "gaussian takes two sets of points");
  TORCH_CHECK(x.scalar_type() == y.scalar_type(), "gaussian takes points of one dtype");
  Tensor result = at::empty({x.size(0), y.size(0)}, x.options());
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "gaussian", [&] {
    auto from = x.accessor<scalar_t, 2>(), to = y.accessor<scalar_t, 2>(), found = result.accessor<scalar_t, 2>();
    for (int64_t i = 0; i < x.size(0); i++) {
      for (int64_t j = 0; j < y.size(0); j++) {
        double distance = 0;
        for (int64_t k = 0; k < x.size(1); k++) {
          double difference = from[i][k] - to[j][k];
          distance += difference * difference;
        }
        found[i][j] = std::exp(-distance / (2 * width * width));
      }
    }
  });
  return result;
}

Tensor on_meta(const Tensor& x, const Tensor& y, double width) {
  TORCH_CHECK(x.dim() == 2 && y.dim() == 2, "gaussian takes two sets of points");
  TORCH_SYM_CHECK(x.sym_size(1).sym_eq(y.sym_size(1)), "gaussian takes points of as many coordinates");
  return at::empty_symint({x.sym_size(0), y.sym_size(0)}, x.options());
}

Tensor gaussian(const Tensor& x, const Tensor& y, double width) {
  static auto operation = c10::Dispatcher::singleton()
                              .findSchemaOrThrow("u5::gaussian", "")
                              .typed<Tensor(const Tensor&, const Tensor&, double)>();
  return operation.call(x, y, width);
}

struct Gaussian : torch::autograd::Function<Gaussian> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& y, double width) {
    at::AutoDispatchBelowADInplaceOrView below;
    Tensor result = gaussian(x, y, width);
    context->save_for_backward({x, y, result});
    context->saved_data["width"] = width;
    return result;
  }

  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext* context, torch::autograd::variable_list gradients) {
    auto saved = context->get_saved_variables();
    Tensor x = saved[0], y = saved[1];
    double width = context->saved_data["width"].toDouble();
    Tensor pull = gradients[0] * saved[2] / (width * width);
    Tensor for_x = at::mm(pull, y) - pull.sum(1, true) * x;
    Tensor for_y = at::mm(pull.t(), x) - pull.sum(0).unsqueeze(1) * y;
    return {for_x, for_y, Tensor()};
  }
};

Tensor on_autograd(const Tensor& x, const Tensor& y, double width) {
  return Gaussian::apply(x, y, width);
}

TORCH_LIBRARY(u5, m) {
  m.def("gaussian(Tensor x, Tensor y, float width) -> Tensor");
}
TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("gaussian", &on_cpu);
}
TORCH_LIBRARY_IMPL(u5, Meta, m) {
  m.impl("gaussian", &on_meta);
}
TORCH_LIBRARY_IMPL(u5, Autograd, m) {
  m.impl("gaussian", &on_autograd);
}
"""
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "gaussian", "locked": true, "points": 25, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u5.gaussian(gaussian_source)

# %% [markdown] nbgrader={"grade": false, "grade_id": "silu_dropout-rules", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 4. An activation and dropout in one loop
#
# Two operators in a row read and write all of memory twice. Fuse them. In the namespace `u5`:
#
# - `silu_dropout(Tensor x, float p, Generator? generator=None) -> (Tensor, Tensor)`
# - `silu_dropout_backward(Tensor gradient, Tensor x, Tensor mask, float p) -> Tensor`
#
# The first returns `silu(x) / (1 - p)` where an element is kept and 0 where it is dropped, and the mask (`bool`, true where
# kept). The second is its derivative, for a given mask. `silu(x)` is `x / (1 + exp(-x))`. `x` is `float32` or `float64`, of
# any shape, and every tensor may have any strides. You need no kernel for `Autograd`.

# %% [markdown] nbgrader={"grade": false, "grade_id": "silu_dropout-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# *55 minutes, hard.* Write both, by these rules.
#
# - Each element is dropped with probability `p`, by a draw of its own; a `p` that is no probability must be refused, on the meta
#   device, too. The second operator may trust it.
# - Numbers come from `generator`, or else from PyTorch's generator for the CPU: the same seed, the same mask.
# - A dropped element is 0 whatever it was, also when `p` is 1.
# - The compiler must know shapes (`Meta`), and that numbers are drawn (a tag).
#
# As before, one loop: no other operator of PyTorch except to make room or to copy.
#
# <details><summary>Hint 1: a question</summary>What is infinity times 0? And 0 divided by 0?</details>
# <details><summary>Hint 2: the idea</summary><code>at::get_generator_or_default&lt;at::CPUGeneratorImpl&gt;(generator, at::detail::getDefaultCPUGenerator())</code> is the generator. Hold its <code>mutex_</code> while you draw, with <code>at::uniform_real_distribution&lt;double&gt;(0, 1)</code>.</details>
# <details><summary>Hint 3: the shape</summary>Make <code>x</code> contiguous, allocate a contiguous result and mask, and loop once: draw, write the mask, write <code>keep ? … * scale : 0</code>. The tag is the second argument of <code>m.def(schema, {at::Tag::nondeterministic_seeded})</code>.</details>


# %% nbgrader={"grade": false, "grade_id": "silu_dropout-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def silu_dropout_source() -> str:
    """The C++ source: a string in three quotes, with an r in front."""
    ### BEGIN SOLUTION
    return r"""
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Dispatch.h>
#include <ATen/Functions.h>
#include <ATen/core/DistributionsHelper.h>
#include <torch/library.h>

using at::Tensor;

std::tuple<Tensor, Tensor> silu_dropout(const Tensor& x, double p, std::optional<at::Generator> generator) {
  TORCH_CHECK(0 <= p && p <= 1, "p is a probability, not ", p);
  auto* numbers = at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  std::lock_guard<std::mutex> lock(numbers->mutex_);
  at::uniform_real_distribution<double> uniform(0.0, 1.0);

  Tensor from = x.contiguous();
  Tensor result = at::empty(x.sizes(), x.options());
  Tensor mask = at::empty(x.sizes(), x.options().dtype(at::kBool));
  double scale = p < 1 ? 1 / (1 - p) : 0;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "silu_dropout", [&] {
    const scalar_t* in = from.const_data_ptr<scalar_t>();
    scalar_t* out = result.mutable_data_ptr<scalar_t>();
    bool* keep = mask.mutable_data_ptr<bool>();
    for (int64_t i = 0; i < from.numel(); i++) {
      keep[i] = uniform(numbers) >= p;
      out[i] = keep[i] ? in[i] / (1 + std::exp(-in[i])) * scale : 0;
    }
  });
  return {result, mask};
}

Tensor silu_dropout_backward(const Tensor& gradient, const Tensor& x, const Tensor& mask, double p) {
  Tensor above = gradient.contiguous(), from = x.contiguous(), kept = mask.contiguous();
  Tensor result = at::empty(x.sizes(), x.options());
  double scale = p < 1 ? 1 / (1 - p) : 0;
  AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "silu_dropout_backward", [&] {
    const scalar_t *up = above.const_data_ptr<scalar_t>(), *in = from.const_data_ptr<scalar_t>();
    const bool* keep = kept.const_data_ptr<bool>();
    scalar_t* out = result.mutable_data_ptr<scalar_t>();
    for (int64_t i = 0; i < from.numel(); i++) {
      scalar_t sigmoid = 1 / (1 + std::exp(-in[i]));
      out[i] = keep[i] ? up[i] * sigmoid * (1 + in[i] * (1 - sigmoid)) * scale : 0;
    }
  });
  return result;
}

std::tuple<Tensor, Tensor> silu_dropout_meta(const Tensor& x, double p, std::optional<at::Generator> generator) {
  TORCH_CHECK(0 <= p && p <= 1, "p is a probability, not ", p);
  return {at::empty_symint(x.sym_sizes(), x.options()), at::empty_symint(x.sym_sizes(), x.options().dtype(at::kBool))};
}

Tensor silu_dropout_backward_meta(const Tensor& gradient, const Tensor& x, const Tensor& mask, double p) {
  return at::empty_symint(x.sym_sizes(), x.options());
}

TORCH_LIBRARY(u5, m) {
  m.def("silu_dropout(Tensor x, float p, Generator? generator=None) -> (Tensor, Tensor)", {at::Tag::nondeterministic_seeded});
  m.def("silu_dropout_backward(Tensor gradient, Tensor x, Tensor mask, float p) -> Tensor");
}
TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("silu_dropout", &silu_dropout);
  m.impl("silu_dropout_backward", &silu_dropout_backward);
}
TORCH_LIBRARY_IMPL(u5, Meta, m) {
  m.impl("silu_dropout", &silu_dropout_meta);
  m.impl("silu_dropout_backward", &silu_dropout_backward_meta);
}
"""
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "silu_dropout", "locked": true, "points": 25, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u5.silu_dropout(silu_dropout_source)

# %% [markdown] nbgrader={"grade": false, "grade_id": "stable_decay-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Task 5. Built once, for releases to come
#
# *30 minutes, medium.* A library that names PyTorch's C++ classes has to be built anew for the next release. One that keeps to the
# stable ABI doesn't. Write `decay(Tensor x, float rate) -> Tensor` in the namespace `u5` with nothing but headers from
# `torch/csrc/stable` and `torch/headeronly`.
#
# `x` is a matrix of `float32` or `float64`, with any strides, and so is the result. In each row, `y[0] = x[0]` and
# `y[t] = x[t] + rate * y[t-1]`, infinities and NaN in `x` as they come; `rate` is finite in the dtype of `x`. Other numbers of
# dimensions and other dtypes must be refused.
#
# And the check reads which names the built library expects from outside: none may come from the C++ namespaces `at`, `c10`
# or `torch`.
#
# For example, `[[1, 0, 0, 2]]` with the rate 0.5 gives `[[1, 0.5, 0.25, 2.125]]`.
#
# <details><summary>Hint 1: a question</summary>Look into <code>torch/csrc/stable/tensor_struct.h</code>: what does this <code>Tensor</code> know, and what does it not?</details>
# <details><summary>Hint 2: the idea</summary><code>STABLE_TORCH_LIBRARY</code> and <code>STABLE_TORCH_LIBRARY_IMPL</code> stand for the macros that you know, and a kernel is registered as <code>TORCH_BOX(&amp;decay)</code>. A plain <code>switch</code> over <code>x.scalar_type()</code> chooses the dtype.</details>
# <details><summary>Hint 3: the shape</summary>A template for one number type gets <code>x.const_data_ptr&lt;Number&gt;()</code> and walks with <code>x.stride(0)</code> and <code>x.stride(1)</code>. The result is <code>torch::stable::new_empty(x, {x.size(0), x.size(1)})</code>. Refuse with <code>STD_TORCH_CHECK</code>.</details>


# %% nbgrader={"grade": false, "grade_id": "stable_decay-answer", "locked": false, "schema_version": 3, "solution": true, "task": false}
def stable_decay_source() -> str:
    """The C++ source: a string in three quotes, with an r in front."""
    ### BEGIN SOLUTION
    return r"""
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>
#include <torch/headeronly/util/Exception.h>

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

template <typename Number>
void decay_rows(const Tensor& x, double rate, Tensor& result) {
  const Number* from = x.const_data_ptr<Number>();
  Number* to = result.mutable_data_ptr<Number>();
  for (int64_t i = 0; i < x.size(0); i++) {
    double before = 0;
    for (int64_t t = 0; t < x.size(1); t++) {
      before = from[i * x.stride(0) + t * x.stride(1)] + rate * before;
      *to++ = static_cast<Number>(before);
    }
  }
}

Tensor decay(const Tensor& x, double rate) {
  STD_TORCH_CHECK(x.dim() == 2, "decay takes a matrix");
  Tensor result = torch::stable::new_empty(x, {x.size(0), x.size(1)});
  switch (x.scalar_type()) {
    case ScalarType::Float:
      decay_rows<float>(x, rate, result);
      break;
    case ScalarType::Double:
      decay_rows<double>(x, rate, result);
      break;
    default:
      STD_TORCH_CHECK(false, "decay takes float32 and float64");
  }
  return result;
}

STABLE_TORCH_LIBRARY(u5, m) {
  m.def("decay(Tensor x, float rate) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(u5, CPU, m) {
  m.impl("decay", TORCH_BOX(&decay));
}
"""
    ### END SOLUTION


# %% nbgrader={"grade": true, "grade_id": "stable_decay", "locked": true, "points": 15, "schema_version": 3, "solution": false, "task": false} tags=["nbval-ignore-output"]
check.u5.stable_decay(stable_decay_source)

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_two_bindings-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 1. A function or an operator?
#
# *10 minutes, medium.* A colleague binds a C++ function with pybind11 (`m.def("fast_norm", &fast_norm)`) and calls it in a
# model. It's quick, and the tests pass. Explain in at most 150 words what happens to that call under `torch.compile`, under
# `vmap`, on a tensor that asks for gradients, and in a C++ program that has no Python. What would you change, and what may
# stay a plain binding? Show one of these failures in a few lines.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_two_bindings", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"what the call loses: gradients, transformations, a place in the graph, use without Python": 4, "what a schema and the registry give, and that kernels may stay as they are": 3, "an example of one failure, run": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "explain_new_release-task", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Question 2. The next release breaks it
#
# *10 minutes, medium.* You ship a wheel with an operator in C++. After the next release of PyTorch your users read
# `undefined symbol: _ZN3c10…`. Explain in at most 150 words why that happens although your source didn't change, what the
# stable ABI changes about it, and what it costs you. For which of the operators in this exercise would you choose it, and for
# which one not yet? Give a reason from the headers on your machine.

# %% [markdown] nbgrader={"grade": true, "grade_id": "explain_new_release", "locked": false, "points": 10, "schema_version": 3, "solution": true, "task": false} fxopt={"rubric": {"C++ symbols name types and signatures that may change with each release; a binary keeps the old names": 4, "the stable ABI: C functions, headers only, fewer operations and dtypes": 3, "a choice with a reason from the headers": 3}}
# *Your answer goes here.*

# %% [markdown] nbgrader={"grade": false, "grade_id": "ex15-submit-text", "locked": true, "schema_version": 3, "solution": false, "task": false}
# ## Submit
#
# Save the notebook (Ctrl+S or ⌘S), then take the `#` away and run this cell. It says how many points you have and where the
# feedback page lies.

# %%
# submit("ex_15")
