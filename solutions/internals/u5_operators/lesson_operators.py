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

# %% [markdown]
# # Unit 5: operators in C++
#
# *About 80 minutes. You need Units 2 and 3, and a C++ compiler; `fxopt doctor` says whether you have one.*
#
# Sooner or later PyTorch doesn't have the operator that you need. You could write it in Python, out of others. Then it's
# slow, or it can't be written at all, or a compiler looks straight through it. In C++ you write the loop yourself, and what
# comes out is an operator like `add`: autograd, `torch.compile` and `torch.export` can't tell it from PyTorch's own.

# %% [markdown]
# By the end of this lesson you'll have written one from the loop to the gradient, on your machine, with the headers that your
# wheel brought along. You'll also have seen each of the ways in which such code goes wrong: it reads the wrong memory, it
# loses gradients, it stops a compiler, or the next release of PyTorch can't load it.
#
# If you've never read C++: the loops look like C, and everything else is explained where it first appears.

# %% [markdown]
# ## One operator, read from top to bottom
#
# *10 minutes.* Before you write an operator, read one. PyTorch keeps what it knows about `add` in four places: its entry
# in a list of all operators, its kernels, its derivative, and the class of its `grad_fn`. Your wheel has all but the
# kernels. The entry begins with the [**schema**](../Glossary.md#schema): name, arguments, results. Then it names, for each
# backend, the function that does the work.

# %%
from fxopt_workbench.torch_sources import source

source("aten/src/ATen/native/native_functions.yaml", "add.Tensor")

# %% [markdown]
# `dispatch` lists kernels for sparse tensors and for other libraries, but none for `CPU` or `CUDA`. `structured_delegate`
# sends you on to `add.out`: one function works out the shape, and each backend has a kernel that fills in the numbers.

# %%
source("aten/src/ATen/native/native_functions.yaml", "add.out")

# %% [markdown]
# No `CPU` here either. `ufunc_inner_loop` names a formula for two numbers, and the build writes the loops around it. `add` is
# the exception. `mul.out` is like most, and names kernels that somebody wrote.
#
# **Prediction.** PyTorch's repository keeps all kernels in or under `aten/src/ATen/native/`. Guess the folder of each: the
# loop of `mul` for the CPU, the one for CUDA, the one for sparse tensors, and `matmul`, which has no loop.

# %%
source("aten/src/ATen/native/native_functions.yaml", "mul.out")

# %% [markdown]
# | where | what lies there |
# | --- | --- |
# | `aten/src/ATen/native/*.cpp` | shapes, checks, and everything that calls other operators (`LinearAlgebra.cpp` with `matmul`) |
# | `…/native/cpu/*.cpp` | loops for the CPU, compiled several times: plain, AVX2, AVX512 (`BinaryOpsKernel.cpp`) |
# | `…/native/cuda/*.cu` | kernels for CUDA (`CUDALoops.cuh` is their TensorIterator) |
# | `…/native/sparse`, `quantized`, `mkldnn`, `mps` | other layouts and backends |
# | `c10/` | what all of them stand on: `TensorImpl`, keys, devices, errors |
#
# `matmul` shows the other kind of operator. Except for nested tensors it has no kernel of its own: it's made of others, which
# is what `CompositeImplicitAutograd` says.

# %%
source("aten/src/ATen/native/native_functions.yaml", "matmul")

# %% [markdown]
# After the entry and the kernels, the third place is the derivative, one line for each argument. From these lines the build
# writes the fourth: a C++ class, whose objects are the `grad_fn` that you know from Python.

# %%
source("tools/autograd/derivatives.yaml", "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")

# %%
source("torch/csrc/autograd/generated/Functions.h", "AddBackward0", most=24)

# %% tags=["nbval-check-output"]
import torch

found = torch.add(torch.ones(2, requires_grad=True), torch.ones(2), alpha=3)
print(found.grad_fn.name(), "saved alpha =", found.grad_fn._saved_alpha)

# %% [markdown]
# So an operator is a schema, kernels that are registered for keys, and a class for the way back. PyTorch generates most of
# that from yaml. You're about to write it by hand, with macros that do the same.
#
# ## Your first operator
#
# *10 minutes.* Here's a whole operator. Two macros register it. `TORCH_LIBRARY` opens a namespace and defines schemas, once;
# `TORCH_LIBRARY_IMPL` adds kernels for one dispatch key, in this library or in any other. The first build takes about half a
# minute, because PyTorch's headers are compiled once; after that it's seconds.

# %% tags=["nbval-check-output"]
from fxopt_workbench.cpp import CompileError, build, load

FIRST = r"""
#include <ATen/Functions.h>
#include <torch/library.h>

at::Tensor twice(const at::Tensor& x) {
  at::Tensor result = at::empty(x.sizes(), x.options());
  const float* from = x.const_data_ptr<float>();
  float* to = result.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); i++) to[i] = 2 * from[i];
  return result;
}

TORCH_LIBRARY(unit5, m) {
  m.def("twice(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(unit5, CPU, m) {
  m.impl("twice", &twice);
}
"""
load(FIRST)
print(torch.ops.unit5.twice(torch.tensor([1.0, 2.0, 3.0])))

# %% [markdown]
# What did `load` do? It called your compiler, with PyTorch's headers before your source and its libraries behind it, and then
# opened the file. Opening it was enough: the macros make objects that exist before any function is called, and *making* them
# registers everything. Python never learns the name of your C++ function.

# %%
from fxopt_workbench.cpp import toolchain

tools = toolchain()
print("compile:", *[part.split("site-packages/")[-1] for part in tools.compiling])
print("link:   ", *[part.split("site-packages/")[-1] for part in tools.linking])
source("torch/library.h", "TORCH_LIBRARY_IMPL")

# %% tags=["nbval-check-output"]
for line in torch._C._dispatch_dump("unit5::twice").splitlines():
    if line.startswith(("name", "schema", "CPU", "alias")):
        print(line.split(" registered at")[0])

# %% [markdown]
# In a project of your own, `setuptools` with `torch.utils.cpp_extension.CppExtension` or a CMake file with
# `find_package(Torch)` runs the same two commands; `torch.utils.cpp_extension.load_inline` does it from Python.
#
# The compiler checks your C++ against PyTorch's headers, and PyTorch checks it against the schema when it's loaded:
#
# | schema | C++ | | schema | C++ |
# | --- | --- | --- | --- | --- |
# | `Tensor` | `const at::Tensor&` | | `Tensor?` | `const std::optional<at::Tensor>&` |
# | `float` | `double` | | `int[]` | `at::IntArrayRef` |
# | `int` | `int64_t` | | `Tensor(a!)` | `at::Tensor&` |
# | `Generator?` | `std::optional<at::Generator>` | | `-> (Tensor, Tensor)` | `std::tuple<at::Tensor, at::Tensor>` |
#
# **Prediction.** A schema says `float`. You write `float` in C++ as well. Who complains, and when?

# %% tags=["nbval-check-output"]
try:
    build(
        FIRST.replace("const at::Tensor& x)", "const at::Tensor& x, float by)").replace(
            "(Tensor x)", "(Tensor x, float by)"
        )
    )
except CompileError as error:
    print(str(error)[:86])

# %% [markdown]
# The compiler does, deep inside PyTorch's templates: a schema's `float` is a C++ `double`, always. Had you written a schema
# with `int` for a `double`, it would have compiled, and failed when it was loaded.

# %% [markdown]
# ## Wherever the numbers lie
#
# *15 minutes.* `twice` works. Or does it?
#
# **Prediction.** Call it with a transposed matrix, then with double precision. Which of the two is refused, and which gives
# wrong numbers without a word?

# %% tags=["nbval-check-output"]
x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
print("transposed, times two:", (x.t() * 2).tolist())
print("your operator:        ", torch.ops.unit5.twice(x.t()).tolist())
try:
    torch.ops.unit5.twice(x.double())
except RuntimeError as error:
    print("double precision:      ", str(error).splitlines()[0])

# %% [markdown]
# `data_ptr` compares the dtype, hands you an address, and checks nothing else. You walked from address to address, and `x.t()`
# is the same memory with other strides (Unit 2). With a slice of a larger tensor you'd have read
# numbers of its neighbours, and with `x.expand(…)` memory that belongs to nobody. Reading past the end of memory isn't an
# error in C++, it's undefined: garbage, or a process that ends.
#
# Three ways to be safe:
#
# | | cost | for |
# | --- | --- | --- |
# | `x.contiguous()`, then `data_ptr` | a copy, if it isn't contiguous | loops that need neighbours |
# | `x.accessor<float, 2>()` | nothing: it multiplies by strides | a fixed number of dimensions |
# | `TensorIterator` | nothing | element by element |

# %% [markdown]
# [**TensorIterator**](../Glossary.md#tensoriterator) is how PyTorch itself does it. You say what goes in and what comes out. It
# broadcasts, finds the common dtype, checks for overlap, allocates, sorts the dimensions by stride, merges those that can be
# merged, splits the work among threads, and calls your loop on what's left: rows of addresses with a step.

# %%
source("aten/src/ATen/native/cpu/Loops.h", "cpu_kernel_vec")

# %% [markdown]
# It takes your formula twice: once for a number, once for a vector, which is a few neighbouring numbers at a time. Where all
# tensors have their numbers side by side, it uses the second formula, and the first one for what's left at the end.

# %% tags=["nbval-check-output"]
GATE = r"""
#include <ATen/Dispatch.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/cpu/Loops.h>
#include <torch/library.h>

at::Tensor gated(const at::Tensor& x, const at::Tensor& gate) {
  at::Tensor result;
  auto iter = at::TensorIterator::binary_float_op(result, x, gate);
  AT_DISPATCH_FLOATING_TYPES(iter.common_dtype(), "gated", [&] {
    using Vec = at::vec::Vectorized<scalar_t>;
    at::native::cpu_kernel_vec(
        iter,
        [](scalar_t x, scalar_t gate) -> scalar_t { return x / (1 + gate * gate); },
        [](Vec x, Vec gate) -> Vec { return x / (Vec(1) + gate * gate); });
  });
  return iter.output();
}

TORCH_LIBRARY_FRAGMENT(unit5, m) {
  m.def("gated(Tensor x, Tensor gate) -> Tensor");
}

TORCH_LIBRARY_IMPL(unit5, CPU, m) {
  m.impl("gated", &gated);
}
"""
load(GATE)
gated = torch.ops.unit5.gated
wide = torch.arange(12.0).reshape(3, 4)
for name, first, second in (
    ("transposed", wide.t(), torch.ones(3)),
    ("whole numbers", torch.arange(4), torch.ones(4, dtype=torch.int64)),
    ("mixed", wide, torch.ones(4, dtype=torch.float64)),
):
    result = gated(first, second)
    assert torch.equal(result, first / (1 + second * second))
    print(f"{name:14} {result.dtype!s:14} strides {result.stride()}")

# %% [markdown]
# Not a line of that is about strides, and the one about dtypes asks `TensorIterator` for the common one. Now the price of not
# doing it in one loop.
#
# **Prediction.** Four million numbers. PyTorch's own operators need three passes for the same formula. How many times as long
# as your loop will they take?

# %%
from fxopt_core.benchmark.measuring import measure_interleaved

torch.set_num_threads(1)
numbers, gates = torch.randn(1 << 22), torch.randn(1 << 22)
times = measure_interleaved(
    {
        "one loop": lambda: gated(numbers, gates),
        "three operators": lambda: numbers / (1 + gates * gates),
        "only a copy": lambda: numbers.clone(),
    },
    warmup=2,
    repeats=25,
)
shortest = {name: found.minimum for name, found in times.items()}
for name, seconds in shortest.items():
    print(f"{name:16} {seconds * 1e3:6.1f} ms  {'█' * round(30 * seconds / max(shortest.values()))}")

# %% [markdown]
# The copy reads one tensor, writes one, and computes nothing: that's the price of memory alone. Your loop reads one tensor
# more, so expect half as much again for memory. The rest of its time is arithmetic. (`load` built it for any processor of this kind, while PyTorch builds its own
# loops once more for each newer one: `cpu/` in the table above.) What three operators take beyond your loop is passes through
# memory, each with a result to allocate.

# %% [markdown]
# ## Gradients
#
# *10 minutes.* Your operator computes. Does it learn?

# %% tags=["nbval-check-output"]
import warnings

asks = torch.ones(3, requires_grad=True)
found = gated(asks, torch.ones(3))
with warnings.catch_warnings(record=True) as warned:
    warnings.simplefilter("always")
    found.sum().backward()
print("grad_fn: ", found.grad_fn.name())
print("warning: ", str(warned[0].message)[:67], "…")
print("gradient:", asks.grad)

# %% [markdown]
# No kernel is registered for `Autograd`, so PyTorch's fallback steps in: it lets the call pass, and leaves a node in the graph
# that knows no derivative. When the engine comes by, it warns, and goes on without you. If you miss that line among others,
# your parameter never moves.
#
# In Python you'd write a `torch.autograd.Function`: `forward` computes and saves, `backward` gets a gradient for each output
# and returns one for each input. Use it for a derivative that you know better than autograd (more exact, cheaper, or
# deliberately different), and for fused operators, whose inside autograd can't see.


# %% tags=["nbval-check-output"]
class Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gate):
        ctx.save_for_backward(x, gate)
        return gated(x, gate)

    @staticmethod
    def backward(ctx, gradient):
        x, gate = ctx.saved_tensors
        below = 1 + gate * gate
        return gradient / below, -2 * gradient * x * gate / below**2


pair = [torch.randn(5, dtype=torch.float64, requires_grad=True) for _ in range(2)]
print("checked against finite differences:", torch.autograd.gradcheck(Gated.apply, pair))
print("and its own derivative:            ", torch.autograd.gradgradcheck(Gated.apply, pair))

# %% [markdown]
# The C++ class has the same name and the same two functions. As a kernel for the key `Autograd` it works for whoever calls
# the operator, from Python or not. It records, and has to get the numbers from the kernel for the CPU. So `forward` switches
# autograd off for the calls inside it, with a guard named `below_autograd`, and calls the operator again. (This build takes half a minute once more: autograd's headers are new.)

# %%
source("torch/csrc/autograd/custom_function.h", "CppNode", most=10)

# %% tags=["nbval-check-output"]
GRADIENT = r"""
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

using at::Tensor;
using torch::autograd::variable_list;

Tensor gated(const Tensor& x, const Tensor& gate) {
  static auto operation = c10::Dispatcher::singleton()
                              .findSchemaOrThrow("unit5::gated", "")
                              .typed<Tensor(const Tensor&, const Tensor&)>();
  return operation.call(x, gate);
}

struct Gated : torch::autograd::Function<Gated> {
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& gate) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({x, gate});
    return gated(x, gate);
  }

  static variable_list backward(torch::autograd::AutogradContext* context, variable_list gradients) {
    auto saved = context->get_saved_variables();
    Tensor below = 1 + saved[1] * saved[1];
    return {gradients[0] / below, -2 * gradients[0] * saved[0] * saved[1] / (below * below)};
  }
};

Tensor gated_with_gradient(const Tensor& x, const Tensor& gate) {
  return Gated::apply(x, gate);
}

TORCH_LIBRARY_IMPL(unit5, Autograd, m) {
  m.impl("gated", &gated_with_gradient);
}
"""
load(GRADIENT)
print("grad_fn:", gated(*pair).grad_fn.name().split("<")[0])
print("checked:", torch.autograd.gradcheck(gated, pair), torch.autograd.gradgradcheck(gated, pair))

# %% [markdown]
# `gated` is the same operator as before: another library has added a kernel to it. Its node is a `CppNode`, which calls your
# `backward`. To the engine it's a node like `AddBackward0`.
#
# Because `backward` uses operators that are recorded themselves, the second derivative came for free. (This formula wants both
# tensors in one shape; a real one sums over what was broadcast.)

# %% [markdown]
# ## What a compiler asks
#
# *10 minutes.* Export and `torch.compile` run your model without data, on
# [fake tensors](../Glossary.md#fake-tensor): they ask each operator only what *would* come out.
#
# **Prediction.** You never told anybody the shape of `gated`'s result. Will `torch.export` guess, run the kernel, or stop?


# %% tags=["nbval-check-output"]
class Model(torch.nn.Module):
    def forward(self, x, gate):
        return torch.relu(gated(x, gate))


inputs = torch.randn(4, 3), torch.randn(4, 3)
rows = torch.export.Dim("rows", min=2)
sizes = {"x": {0: rows}, "gate": {0: rows}}
try:
    torch.export.export(Model(), inputs, dynamic_shapes=sizes)
except Exception as error:
    print(type(error).__name__, "at", next(line for line in str(error).splitlines() if "unit5" in line)[:60])

# %% [markdown]
# It stops. What's missing is a [fake implementation](../Glossary.md#fake-implementation): a kernel for the key `Meta`, or a
# function under `torch.library.register_fake`. It gets shapes, which may hold symbols, and returns an empty tensor. Ask for
# `sym_size`, not for `size`: a symbol isn't a number.

# %% tags=["nbval-check-output"]
META = r"""
#include <ATen/Functions.h>
#include <torch/library.h>

at::Tensor gated_shape(const at::Tensor& x, const at::Tensor& gate) {
  TORCH_CHECK(x.dim() == gate.dim(), "gated_shape: as many dimensions, please");
  return at::empty_symint(x.sym_sizes(), x.options());
}

TORCH_LIBRARY_IMPL(unit5, Meta, m) {
  m.impl("gated", &gated_shape);
}
"""
load(META)
program = torch.export.export(Model(), inputs, dynamic_shapes=sizes)
print([str(node.target) for node in program.graph.nodes if node.op == "call_function"])
print(program.module()(torch.ones(9, 3), torch.ones(9, 3)).shape)
compiled = torch.compile(Model(), backend="aot_eager", fullgraph=True)
print(torch.equal(compiled(*inputs), Model()(*inputs)))

# %% [markdown]
# One node, in the exported program as in the compiled one: nobody looks inside. That's the bargain of a
# [custom operator](../Glossary.md#custom-operator). The compiler leaves your loop alone, and it can't fuse `relu` into it
# either.
#
# How do you know that your promises hold, with gradients and with symbols? Ask `opcheck`. It runs the operator on your inputs
# as the compiler would, and compares. (On inputs that broadcast it would complain: the kernel broadcasts, `gated_shape`
# doesn't.)

# %% tags=["nbval-check-output"]
from torch.library import opcheck

asking = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
for name, verdict in opcheck(gated, asking).items():
    print(f"{name:36} {verdict}")

# %% [markdown]
# Try it on an operator that lies: `shrink` says that it changes nothing, and does. The schema would have to say `Tensor(a!)`.

# %% tags=["nbval-check-output"]
with torch.library._scoped_library("unit5_liar", "DEF") as library:
    library.define("shrink(Tensor x) -> Tensor")
    library.impl("shrink", lambda x: x.mul_(0.5).clone(), "CompositeExplicitAutograd")
    try:
        opcheck(torch.ops.unit5_liar.shrink, (torch.ones(2),), test_utils="test_schema")
    except Exception as error:
        print(type(error).__name__, "-", str(error.__cause__ or error).splitlines()[0][:90])

# %% [markdown]
# ## Fused
#
# *5 minutes.* Back to the three passes. A [**fused kernel**](../Glossary.md#fused-kernel) does in one loop what several
# operators do one after the other. What it saves isn't arithmetic. First see what `dropout(silu(x))` is made of:

# %% tags=["nbval-check-output"]
from torch.utils._python_dispatch import TorchDispatchMode


class Sees(TorchDispatchMode):
    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        print(operator)
        return operator(*args, **(kwargs or {}))


activations = torch.ones(8)
with Sees():
    torch.dropout(torch.nn.functional.silu(activations), 0.5, True)

# %% [markdown]
# Now count what each of them moves, for `n` numbers of four bytes; the fused loop keeps a mask of one byte.

# %%
from matplotlib import pyplot

moved = {
    "silu": (4, 4),
    "draw the mask": (0, 4),
    "scale the mask": (4, 4),
    "multiply": (8, 4),
    "fused": (4, 5),
}
for name, (read, written) in moved.items():
    print(f"{name:18} reads {read} n bytes, writes {written} n")
apart = sum(sum(both) for name, both in moved.items() if name != "fused")
print(f"one after the other: {apart} n bytes; fused: {sum(moved['fused'])} n")
figure, axes = pyplot.subplots(figsize=(7, 2.2), layout="constrained")
left = 0
for name, both in moved.items():
    if name != "fused":
        axes.barh("apart", sum(both), left=left, edgecolor="white", color="tab:blue")
        axes.text(left + sum(both) / 2, 0, name, ha="center", va="center", color="white", fontsize=7)
        left += sum(both)
axes.barh("fused", sum(moved["fused"]), color="tab:orange", hatch="//", edgecolor="white")
axes.set(title="Activation and dropout: bytes moved per number", xlabel="bytes")
pyplot.close(figure)
figure

# %% [markdown]
# In the exercise you write that loop: it draws from PyTorch's generator, so that a seed repeats it; it remembers the mask for
# the way back; and it gets its shapes and a tag that says *random* for the compiler.
#
# Do you still need that when there's a compiler that fuses? Often not: Inductor fuses elementwise operators by itself, and a
# custom operator stands in its way. Write your own when the compiler can't know the trick, such as a scan, a sort, or
# attention that never writes its matrix.

# %% [markdown]
# ## A function or an operator
#
# *15 minutes.* You could have skipped all this registering. pybind11 makes any C++ function callable from Python in one line,
# without a schema. What's lost? To find out, give one function two doors: pybind11's and the registry's.

# %%
from fxopt_workbench.cpp import load_module

DOORS = r"""
#include <ATen/Functions.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

at::Tensor halve(const at::Tensor& x) {
  at::Tensor from = x.contiguous(), result = at::empty_like(from);
  const float* in = from.const_data_ptr<float>();
  float* out = result.mutable_data_ptr<float>();
  for (int64_t i = 0; i < from.numel(); i++) out[i] = in[i] / 2;
  return result;
}

PYBIND11_MODULE(unit5_plain, m) {
  m.def("halve", &halve);
}

TORCH_LIBRARY_FRAGMENT(unit5, m) {
  m.def("halve(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(unit5, CPU, m) {
  m.impl("halve", &halve);
}
"""
plain, operator = load_module("unit5_plain", DOORS).halve, torch.ops.unit5.halve
print("pybind11:", plain.__doc__.strip())
print("operator:", operator.default._schema)
print("the same numbers:", torch.equal(plain(x), operator(x)))

# %% [markdown]
# `load_module` adds Python's headers and imports what comes out. In a project of your own that's
# `torch.utils.cpp_extension.load`, and the header is `torch/extension.h`, which includes this one and nearly all others.
#
# First the price of the registry.
#
# **Prediction.** A call with one number, and one with four million: how much slower is the operator?

# %%
few, many = torch.ones(1), torch.randn(1 << 22)
CALLS = 1000
doors = {"pybind11": plain, "operator": operator}
runs = {name: lambda function=function: [function(few) for _ in range(CALLS)] for name, function in doors.items()}
short = measure_interleaved(runs, warmup=2, repeats=9)
runs = {name: lambda function=function: function(many) for name, function in doors.items()}
long = measure_interleaved(runs, warmup=2, repeats=9)
print(f"{'a call':10} {'one number':>12} {'four million':>14}")
for name in doors:
    print(f"{name:10} {short[name].minimum / CALLS * 1e6:9.2f} µs {long[name].minimum * 1e3:11.2f} ms")

# %% [markdown]
# The way through the dispatcher takes microseconds, however large the tensor is. Where there's something to compute, you don't see it.
#
# And here's what you pay for. An operator can be given what it lacks later, by anybody who knows its name. In Python that's a
# line each for shapes, the derivative and `vmap`. The function of pybind11 has nowhere to put them.
#
# **Prediction.** Seven questions to both. Which of pybind11's answers is wrong without a word?

# %% tags=["nbval-check-output"]
from textwrap import shorten

torch.library.register_fake("unit5::halve", lambda x: torch.empty_like(x))
torch.library.register_autograd("unit5::halve", lambda context, gradient: gradient / 2)
torch.library.register_vmap("unit5::halve", lambda info, dims, x: (operator(x), dims[0]))


class Notes(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.names.append(str(operator))
        return operator(*args, **(kwargs or {}))


def in_a_mode(function):
    given = torch.ones(2)
    with Notes() as notes:
        function(given)
    return notes.names


def on_a_fake_tensor(function):
    with torch._subclasses.FakeTensorMode():
        return tuple(function(torch.empty(4, 3)).shape)


def when_compiled(function):
    torch._dynamo.reset()
    found = torch._dynamo.explain(lambda x: function(x.cos()) + 1)(torch.ones(2))
    return f"{found.graph_count} graph(s), {found.graph_break_count} break(s)"


class Calls(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x) + 1


def when_exported(function):
    nodes = torch.export.export(Calls(function), (torch.ones(2),)).graph.nodes
    return [str(node.target) for node in nodes if node.op == "call_function"]


questions = {
    "a dispatch mode sees": in_a_mode,
    "derivative": lambda function: torch.autograd.functional.jacobian(function, torch.ones(2)).diag().tolist(),
    "vmap": lambda function: torch.vmap(function)(torch.ones(2, 2)).tolist(),
    "fake tensor": on_a_fake_tensor,
    "compiled": when_compiled,
    "exported": when_exported,
    "opcheck": lambda function: sorted(set(opcheck(function, (torch.ones(2),)).values())),
}
for question, ask in questions.items():
    print(question)
    for name, function in doors.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                answer = ask(function)
        except Exception as error:
            answer = f"{type(error).__name__}: {shorten(str(error).splitlines()[0], 64, placeholder=' …')}"
        print(f"  {name}: {answer}")

# %% [markdown]
# The derivative: it's 0.5, and pybind11's answer is 0. Autograd never saw the call, so the result has no history and counts
# as a constant. Your parameter stands still, and nobody complains. The mode isn't told either: all it sees is that
# `halve` allocates. The other failures stop you, or show up as a [graph break](../Glossary.md#graph-break): Dynamo leaves
# its graph, calls the function in Python, and begins a second graph.
#
# You could bind an `autograd::Function` with pybind11, and the derivative would come back. Nothing else on the list would:
# modes, fake tensors and `vmap` all work through the dispatcher's table, and this call doesn't go through it.

# %%
runs = {"halve": lambda: [operator(few) for _ in range(CALLS)]}
found = measure_interleaved(runs, warmup=2, repeats=9)["halve"]
print(f"one number, now that three things are registered in Python: {found.minimum / CALLS * 1e6:.2f} µs a call")

# %% [markdown]
# That's slower than before: a derivative in Python sends every call through Python, even if nobody asks for gradients. One in
# C++, like that of `gated`, doesn't.
#
# So pybind11 is right for what isn't tensor arithmetic: a tokenizer, a reader of files, settings. For an operator you want a
# schema, so that everybody can ask what it takes and writes, and a table, so that everybody can add a kernel.

# %% [markdown]
# One more difference. The library of `twice` names PyTorch's C++ classes. Names of C++ hold the types of all arguments, and
# when a release changes one of them, your file asks for a name that's gone: `undefined symbol`. These are the names it needs:

# %%
import subprocess
import tempfile
from pathlib import Path


def needed(library):
    """Names that a library expects from PyTorch."""
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        Path(file.name).write_bytes(library)
        said = subprocess.run(["nm", "-D", "--undefined-only", file.name], capture_output=True, text=True, check=True)
    names = [line.split()[-1] for line in said.stdout.splitlines()]
    return [name for name in names if "torch" in name or "c10" in name or "2at" in name]


unstable = needed(build(FIRST))
print(len(unstable), "names, such as")
for name in unstable[:4]:
    print("   ", name[:100])

# %% [markdown]
# That's the [**ABI**](../Glossary.md#abi): what two pieces of compiled code must agree on. PyTorch promises nothing about
# these names from one release to the next. Since 2.9 there's a second way in that it does promise to keep: the
# [**stable ABI**](../Glossary.md#stable-abi), a list of C functions, with a thin layer of C++ over it that's compiled into
# *your* library.

# %%
STABLE = r"""
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

torch::stable::Tensor twice(const torch::stable::Tensor& x) {
  torch::stable::Tensor from = torch::stable::contiguous(x), result = torch::stable::empty_like(from);
  const float* in = from.const_data_ptr<float>();
  float* out = result.mutable_data_ptr<float>();
  for (int64_t i = 0; i < x.numel(); i++) out[i] = 2 * in[i];
  return result;
}

STABLE_TORCH_LIBRARY(unit5_stable, m) {
  m.def("twice(Tensor x) -> Tensor");
}

STABLE_TORCH_LIBRARY_IMPL(unit5_stable, CPU, m) {
  m.impl("twice", TORCH_BOX(&twice));
}
"""
load(STABLE)
print(torch.ops.unit5_stable.twice(torch.tensor([[1.0, 2.0], [3.0, 4.0]]).t()).tolist())
stable = needed(build(STABLE))
print(len(stable), "names,", sum(name.startswith("_Z") for name in stable), "of them of C++, such as")
for name in stable[:4]:
    print("   ", name[:100])

# %% [markdown]
# There are more names than before, and each of them stays. The price: fewer operations, no TensorIterator and no autograd
# class. (`TORCH_BOX` wraps your kernel, so that it takes its arguments in an array, as C can.) For a kernel with a loop of its own it's enough, and you ship one wheel instead of one for each release.

# %% [markdown]
# ## The same for CUDA
#
# *5 minutes.* On a GPU the registration is the same (`TORCH_LIBRARY_IMPL(unit5, CUDA, m)`), and the loop is turned inside out:
# each thread computes a few numbers. Three things decide whether it's right and fast: `if (i < n)`, because the last block
# hangs over the end; an index of 64 bits where there may be more than 2³¹ numbers; and loads of four numbers at once.

# %%
import shutil

CUDA = r"""
extern "C" __global__ void relu4(const float* x, float* y, long n) {
  long i = 4 * (blockIdx.x * (long)blockDim.x + threadIdx.x);
  if (i + 3 < n) {
    float4 v = *reinterpret_cast<const float4*>(x + i);
    v.x = fmaxf(v.x, 0), v.y = fmaxf(v.y, 0), v.z = fmaxf(v.z, 0), v.w = fmaxf(v.w, 0);
    *reinterpret_cast<float4*>(y + i) = v;
  } else {
    for (; i < n; i++) y[i] = fmaxf(x[i], 0);
  }
}
"""
if shutil.which("nvcc"):
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "relu4.cu").write_text(CUDA)
        command = ["nvcc", "-ptx", "relu4.cu", "-o", "relu4.ptx"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        assembly = (Path(folder) / "relu4.ptx").read_text().splitlines()
    for line in assembly:
        if "global" in line and (".v4" in line or ".f32" in line):
            print(line.strip())
else:
    print("There is no nvcc here, so the kernel isn't built. What nvcc 13.0 made of it on 23 November 2026:")
    print("ld.global.v4 and st.global.v4, and for the rest one ld.global and one st.global a number")

# %% [markdown]
# `v4` is one instruction that moves 16 bytes. It needs an address that 16 divides, which PyTorch's allocators give you for the
# start of a tensor, and not for `x[1:]`. So check the address, and fall back to single loads. (The `f32` lines are the numbers at the end.)
#
# No speed of a GPU is stated here, because none was measured on this machine.

# %% [markdown]
# ## What to remember
#
# - An operator is a schema and kernels for keys. `TORCH_LIBRARY` defines, `TORCH_LIBRARY_IMPL` adds, and loading the file
#   is enough.
# - `data_ptr` knows neither strides nor ends. Use a contiguous copy, an accessor, or **TensorIterator**.
# - For training it needs a kernel for `Autograd`; for compilers one for `Meta`; `opcheck` says whether all of them agree.
# - Fusing saves passes through memory, not arithmetic.
# - A plain binding is invisible to autograd, `vmap` and compilers. C++ names tie your file to one release; the **stable ABI**
#   doesn't.
#
# Now write five of them: [exercise 15](ex_15_operators.ipynb).

# %% [markdown]
# ## Where this comes from
#
# - PyTorch's headers and yaml files, quoted above from your installation.
# - PyTorch documentation: [Custom C++ and CUDA operators](https://docs.pytorch.org/tutorials/advanced/cpp_custom_ops.html),
#   [torch.library](https://docs.pytorch.org/docs/stable/library.html), and the notes on the
#   [stable ABI](https://docs.pytorch.org/docs/stable/notes/libtorch_stable_abi.html).
# - E. Yang, *PyTorch internals*, 2019 (blog post), whose last part is about writing kernels.
