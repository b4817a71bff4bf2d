"""A small mirror of PyTorch's build: entries, formulas and kernels go in, operators come out.

It goes the way of the real one. PyTorch's own `torchgen` reads the entries of `native_functions.yaml` and of
`derivatives.yaml`, checks them against each other, groups the variants of an operator, and says which tensors a
derivative has to save. Two steps differ, because there is no compiler here: a kernel is a function in Python, and a
formula is evaluated (`formulas.py`) instead of being compiled. Only kernels for the CPU are built; `Meta` comes with
structured operators, as in PyTorch.

Sources: https://github.com/pytorch/pytorch/blob/main/aten/src/ATen/native/README.md, and `torchgen/gen.py`,
`torchgen/model.py`, `torchgen/packaged/autograd/load_derivatives.py` as they are installed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
import yaml
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes
from torchgen.dest.native_functions import compute_native_function_declaration
from torchgen.gen import LineLoader, get_grouped_native_functions, parse_native_yaml_struct, parse_tags_yaml
from torchgen.model import (
    BackendIndex,
    DispatchKey,
    FunctionSchema,
    NativeFunction,
    NativeFunctionsGroup,
    SchemaKind,
)
from torchgen.packaged.autograd.gen_autograd_functions import FUNCTION_DECLARATION, process_function
from torchgen.packaged.autograd.load_derivatives import create_differentiability_info

from fxopt_workbench.internals.formulas import FormulaError, evaluate
from fxopt_workbench.torch_sources import installed

LONGEST = 20_000
"""Characters of a file with entries."""

MOST_BRACKETS = 300
"""Opening brackets and question marks of such a file: nested ones take a parser long."""

Kernel = Callable[..., Any]


class BuildError(ValueError):
    """The mirror refuses what it is to build; the message says which entry, and why."""


@dataclass(frozen=True)
class Operators:
    """Entries of `native_functions.yaml`, as `torchgen` reads them.

    Attributes:
        functions: every entry.
        groups: the same, with the variants of one operator together where `torchgen` finds that they belong together.
        indices: for each dispatch key the kernels that are written for it.
    """

    functions: tuple[NativeFunction, ...]
    groups: tuple[NativeFunction | NativeFunctionsGroup, ...]
    indices: Mapping[DispatchKey, BackendIndex]

    def declarations(self, key: str = "CPU") -> str:
        """What `torchgen` declares in C++ for the kernels of a dispatch key: the kernel's author fills it in.

        Raises:
            BuildError: there is no such key.
        """
        try:
            index = self.indices[DispatchKey.parse(key)]
        except (AssertionError, ValueError) as error:
            raise BuildError(f"{key!r} is no dispatch key") from error
        lines = [line for group in self.groups for line in compute_native_function_declaration(group, index)]
        return "\n".join(line.strip("\n") for line in lines)

    def function(self, name: str) -> NativeFunction:
        """The entry with this name and overload, such as `softcap.out`.

        Raises:
            BuildError: there is none.
        """
        for one in self.functions:
            if str(one.func.name) == name:
                return one
        there = ", ".join(str(one.func.name) for one in self.functions) or "none"
        raise BuildError(f"native_functions.yaml has no entry for {name}; there are: {there}")


@dataclass(frozen=True)
class Derivative:
    """The formulas of one operator.

    Attributes:
        name: of the operator.
        formulas: for each argument that has a gradient, its formula.
        saved: names of the arguments, and `result`, that are kept between forward and backward pass.
        node: what the node of the graph is called, such as `SoftcapBackward0`.
        cpp: the class of this node, as `torchgen` writes it.
    """

    name: str
    formulas: Mapping[str, str]
    saved: tuple[str, ...]
    node: str
    cpp: str = field(repr=False)


@cache
def known_tags() -> frozenset[str]:
    """The tags that `tags.yaml` of this release defines."""
    return frozenset(parse_tags_yaml(str(installed("aten/src/ATen/native/tags.yaml"))))


def read_operators(text: str) -> Operators:
    """Read entries of `native_functions.yaml` with `torchgen`.

    Raises:
        BuildError: the text is no list of entries, or `torchgen` refuses one.
    """
    found = _entries(text, "native_functions.yaml")
    try:
        parsed = parse_native_yaml_struct(found, set(known_tags()), path="native_functions.yaml")
        groups = get_grouped_native_functions(parsed.native_functions)
    except Exception as error:  # torchgen raises whatever its assertions and dictionaries raise
        raise BuildError(f"torchgen refuses native_functions.yaml: {_said(error)}") from error
    return Operators(tuple(parsed.native_functions), tuple(groups), parsed.backend_indices)


def read_derivatives(text: str, operators: Operators) -> dict[str, Derivative]:
    """Read entries of `derivatives.yaml` with `torchgen`, against the operators that they belong to.

    Raises:
        BuildError: the text is no list of entries, or `torchgen` refuses one.
    """
    by_signature: dict[FunctionSchema, list[NativeFunction]] = defaultdict(list)
    by_schema: dict[str, NativeFunction] = {}
    for one in operators.functions:
        by_signature[one.func.signature()].append(one)
        by_schema[str(one.func)] = one
    found: dict[str, Derivative] = {}
    counter: Counter[str] = Counter()
    for entry in _entries(text, "derivatives.yaml"):
        entry.pop("__line__")
        if not isinstance(entry.get("name"), str):
            raise BuildError("an entry of derivatives.yaml has no `name:` with the schema of its operator")
        odd = sorted(str(key) for key, value in entry.items() if not isinstance(value, str))
        if odd:
            raise BuildError(f"derivatives.yaml: {odd[0]} of {entry['name']} is no formula; the mirror reads text only")
        name = entry.pop("name")
        try:
            definition = {"name": name, "dispatch": {"Default": entry}}
            _, infos = create_differentiability_info(definition, by_signature, by_schema, counter, set())
        except Exception as error:  # torchgen raises whatever its assertions and dictionaries raise
            raise BuildError(f"torchgen refuses derivatives.yaml: {_said(error)}") from error
        info = infos["Default"]
        formulas = {name: one.original_formula for one in info.derivatives for name in one.var_names}
        saved = [str(_name(one)) for one in (*info.all_saved_inputs, *info.all_saved_outputs)]
        cpp = process_function(info, FUNCTION_DECLARATION) if info.op else ""
        found[info.name] = Derivative(info.name, formulas, tuple(dict.fromkeys(saved)), info.op or "", cpp)
    return found


def _name(saved: Any) -> Any:
    name = saved.nctype.name
    return getattr(name, "name", name)


def _entries(text: str, file: str) -> list[dict[str, Any]]:
    if not isinstance(text, str):
        raise BuildError(f"{file} is text, not {type(text).__name__}")
    if len(text) > LONGEST:
        raise BuildError(f"{file} has {len(text)} characters; the mirror reads {LONGEST} at most")
    if sum(text.count(one) for one in "[{?") > MOST_BRACKETS:
        raise BuildError(f"{file} has more brackets than the mirror reads: {MOST_BRACKETS} at most")
    try:
        if any(isinstance(token, yaml.AliasToken | yaml.AnchorToken) for token in yaml.scan(text)):
            raise BuildError(f"{file} has an anchor or an alias (& or *), which the mirror does not read")
        found = yaml.load(text, Loader=LineLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise BuildError(f"{file} is not YAML: {_said(error)}") from error
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BuildError(f"{file} is a list of entries; each begins with a dash")
    return found


def _said(error: Exception) -> str:
    return " ".join(str(error).split())[:600] or type(error).__name__


def like_tensor_iterator(*tensors: torch.Tensor) -> tuple[torch.Size, torch.dtype]:
    """Shape and dtype of an element-wise result: shapes broadcast, dtypes promote, whole numbers become floating point.

    This is what `build_borrowing_binary_float_op` of `TensorIteratorBase` works out.

    Raises:
        RuntimeError: the shapes do not fit.
    """
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.INT_TO_FLOAT
    _, dtype = elementwise_dtypes(*tensors, type_promotion_kind=kind)
    return torch.broadcast_shapes(*(one.shape for one in tensors)), dtype


@dataclass(frozen=True)
class Structured:
    """The three variants that come of one kernel of a structured operator: what the build generates.

    Attributes:
        kernel: takes the arguments and `out`, which has the right shape and dtype, and writes the result into it.
    """

    kernel: Kernel

    def functional(self, *arguments: Any) -> torch.Tensor:
        """A new tensor with the result."""
        shape, dtype = like_tensor_iterator(*_tensors(arguments))
        # What a kernel forgets to write is not a number, and never by chance what was there before.
        out = torch.full(shape, torch.nan, dtype=dtype)
        self.kernel(*arguments, out)
        return out

    def inplace(self, *arguments: Any) -> torch.Tensor:
        """The first argument, overwritten with the result.

        Raises:
            RuntimeError: the result has another shape, or a dtype that does not fit into the first argument.
        """
        shape, dtype = like_tensor_iterator(*_tensors(arguments))
        target: torch.Tensor = arguments[0]
        if shape != target.shape:
            raise RuntimeError(
                f"output with shape {list(target.shape)} doesn't match the broadcast shape {list(shape)}"
            )
        _check_cast(dtype, target.dtype)
        self.kernel(*arguments, target)
        return target

    def out(self, *arguments: Any, out: torch.Tensor) -> torch.Tensor:
        """`out`, resized where its shape differs, with the result.

        Raises:
            RuntimeError: the result's dtype does not fit into `out`.
        """
        shape, dtype = like_tensor_iterator(*_tensors(arguments))
        _check_cast(dtype, out.dtype)
        if out.shape != shape:
            out.resize_(shape)
        self.kernel(*arguments, out)
        return out

    def meta(self, *arguments: Any) -> torch.Tensor:
        """What a compiler asks: a tensor without data, of the result's shape and dtype."""
        shape, dtype = like_tensor_iterator(*_tensors(arguments))
        return torch.empty(shape, dtype=dtype, device="meta")


def _tensors(arguments: Sequence[Any]) -> list[torch.Tensor]:
    return [one for one in arguments if isinstance(one, torch.Tensor)]


def _check_cast(source: torch.dtype, target: torch.dtype) -> None:
    if not torch.can_cast(source, target):
        raise RuntimeError(f"result type {source} can't be cast to the desired output type {target}")


def build(
    library: torch.library.Library, operators: Operators, kernels: Mapping[str, Kernel], derivatives: str = ""
) -> dict[str, Derivative]:
    """Define and register operators in a library of `torch.library`.

    Args:
        library: an empty one, opened with "DEF"; the operators live as long as it.
        operators: the entries.
        kernels: for each name that the entries give to a kernel for the CPU, or to a composite one, its function.
        derivatives: entries of `derivatives.yaml`.

    Returns:
        The derivatives that were registered, by name of the operator.

    Raises:
        BuildError: a kernel is missing, or an entry asks for what the mirror does not have.
    """
    found = read_derivatives(derivatives, operators) if derivatives.strip() else {}
    for group in operators.groups:
        if isinstance(group, NativeFunctionsGroup) and group.structured:
            _register_structured(library, group, operators, kernels)
        else:
            one_by_one = [group] if isinstance(group, NativeFunction) else list(group.functions())
            for function in one_by_one:
                _register(library, function, operators, kernels)
    for function in operators.functions:
        composite = function.has_composite_implicit_autograd_kernel
        if not composite:
            _register_autograd(library, function, found.get(str(function.func.name.name)))
    return found


def _register_structured(
    library: torch.library.Library, group: NativeFunctionsGroup, operators: Operators, kernels: Mapping[str, Kernel]
) -> None:
    inherits = group.out.structured_inherits
    if inherits != "TensorIteratorBase":
        raise BuildError(
            f"{group.out.func.name} is structured and inherits {inherits or 'nothing'}: the mirror has the shape "
            "function of element-wise operators only, `structured_inherits: TensorIteratorBase`"
        )
    metadata = operators.indices[DispatchKey.CPU].get_kernel(group.out)
    if metadata is None:
        raise BuildError(f"{group.out.func.name} has no kernel for CPU under `dispatch:`")
    made = Structured(_kernel(kernels, metadata.kernel))
    variants = [(group.functional, made.functional), (group.inplace, made.inplace), (group.out, made.out)]
    for function, kernel in variants:
        if function is not None:
            library.define(str(function.func))
            library.impl(str(function.func.name), kernel, "CPU")
    library.impl(str(group.functional.func.name), made.meta, "Meta")


def _register(
    library: torch.library.Library, function: NativeFunction, operators: Operators, kernels: Mapping[str, Kernel]
) -> None:
    if function.structured_delegate is not None:
        raise BuildError(
            f"{function.func.name} delegates to {function.structured_delegate}, but torchgen did not put them "
            "together: the two signatures differ in more than `out`"
        )
    library.define(str(function.func))
    built = False
    for key, index in operators.indices.items():
        metadata = index.get_kernel(function)
        if metadata is not None and (key is DispatchKey.CPU or str(key).startswith("Composite")):
            library.impl(str(function.func.name), _kernel(kernels, metadata.kernel), str(key))
            built = True
    if not built:
        raise BuildError(f"{function.func.name} has no kernel for CPU under `dispatch:`")


def _kernel(kernels: Mapping[str, Kernel], name: str) -> Kernel:
    if name not in kernels:
        raise BuildError(f"the linker finds no kernel {name}; there are: {', '.join(sorted(kernels)) or 'none'}")
    return kernels[name]


def _register_autograd(library: torch.library.Library, function: NativeFunction, derivative: Derivative | None) -> None:
    name = str(function.func.name)
    arguments = [one.name for one in function.func.arguments.flat_all]
    if function.func.kind() is not SchemaKind.functional:
        library.impl(name, _without_gradients(library, function), "Autograd", with_keyset=True)
        return

    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        known = dict(zip(arguments, inputs, strict=True)) | {"result": output}
        saved = derivative.saved if derivative else ()
        tensors = {name: known[name] for name in saved if isinstance(known[name], torch.Tensor)}
        ctx.names = tuple(tensors)
        ctx.numbers = {name: known[name] for name in saved if name not in tensors}
        ctx.save_for_backward(*tensors.values())

    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        if derivative is None:
            raise NotImplementedError(f"derivative for {library.ns}::{name} is not implemented")
        values = dict(zip(ctx.names, ctx.saved_tensors, strict=True)) | ctx.numbers | {"grad": grad}
        gradients: list[torch.Tensor | None] = []
        for number, argument in enumerate(arguments):
            wanted = ctx.needs_input_grad[number]
            if wanted and argument not in derivative.formulas:
                raise NotImplementedError(f"the derivative of {library.ns}::{name} for {argument} is not implemented")
            gradients.append(evaluate(derivative.formulas[argument], values) if wanted else None)
        return tuple(gradients)

    torch.library.register_autograd(f"{library.ns}::{name}", backward, setup_context=setup_context, lib=library)


def _without_gradients(library: torch.library.Library, function: NativeFunction) -> Kernel:
    """The kernel for Autograd of a variant that writes: the mirror has no gradients for those."""
    below = torch._C._dispatch_keyset_full_after(torch._C.DispatchKey.AutogradOther)
    base, overload = str(function.func.name.name), function.func.name.overload_name or "default"

    def kernel(keys: Any, *arguments: Any, **options: Any) -> Any:
        tensors = _tensors([*arguments, *options.values()])
        if torch.is_grad_enabled() and any(one.requires_grad for one in tensors):
            raise RuntimeError(f"{function.func.name}: the mirror has no gradients for variants that write")
        called = getattr(getattr(getattr(torch.ops, library.ns), base), overload)
        with torch._C._AutoDispatchBelowAutograd():
            return called.redispatch(keys & below, *arguments, **options)

    return kernel


__all__ = [
    "BuildError",
    "Derivative",
    "FormulaError",
    "Operators",
    "Structured",
    "build",
    "known_tags",
    "like_tensor_iterator",
    "read_derivatives",
    "read_operators",
]
