"""What a node of an encoded graph may call: allow-lists built from registries of functions that only compute.

A name from a document is looked up in a table that was built here. It is never imported, evaluated or walked
attribute by attribute. Left out on purpose: whatever reaches files, processes, code or raw memory (`torch.load`,
`torch.from_file`, `aten.set_`, `Tensor.numpy`, `Tensor.new`), whatever returns or takes Python functions
(`operator.attrgetter`, `operator.call`, `torch.vmap`), layouts whose kernels trust their indices (sparse, mkldnn),
operators that do not check what they are given (`unchecked`), and whatever changes settings of the process
(`torch.set_default_dtype`).
"""

from __future__ import annotations

import builtins
import functools
import importlib
import inspect
import math
import operator
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from autograder.exchange.graph_form.format import GraphFormatError, shown, words
from autograder.exchange.graph_form.unchecked import CHECKED, why_left_out, why_operator_left_out

_OPERATORS = words(
    "abs add and_ concat contains eq floordiv ge getitem gt iadd iand ifloordiv ilshift imatmul imod imul index inv "
    "invert ior ipow irshift is_ is_not isub itruediv ixor le lshift lt matmul mod mul ne neg not_ or_ pos pow rshift "
    "setitem sub truediv truth xor"
)

_MATH = words(
    "acos acosh asin asinh atan atan2 atanh ceil copysign cos cosh degrees erf erfc exp exp2 expm1 fabs floor fmod "
    "frexp fsum gcd hypot isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 log1p log2 modf pow prod "
    "radians remainder sin sinh sqrt tan tanh trunc gamma"
)

_BUILTINS = words("abs bool complex divmod float getattr int len list max min pow range round slice sum tuple")

_TORCH = words(
    "Size atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors cartesian_prod cdist "
    "chain_matmul einsum lu meshgrid norm pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive "
    "unravel_index is_tensor is_grad_enabled sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt sym_sum "
    "_assert _assert_async _shape_as_tensor _sym_sqrt _sym_cos _sym_sin _sym_tan _sym_exp _sym_log2 "
    "_check _check_is_size"
)

# What Dynamo and torch.export write into graphs besides public functions: grad mode, autocast, vmap over masks.
_CAPTURE = (
    "torch._C._log_api_usage_once",
    "torch._C._set_grad_enabled",
    "torch._C._functorch._vmap_increment_nesting",
    "torch._C._functorch._vmap_decrement_nesting",
    "torch._C._functorch._add_batch_dim",
    "torch._C._functorch._remove_batch_dim",
    "torch._functorch.vmap.lazy_load_decompositions",
    "torch._functorch.predispatch._add_batch_dim",
    "torch._functorch.predispatch._remove_batch_dim",
    "torch._functorch.predispatch._vmap_increment_nesting",
    "torch._functorch.predispatch._vmap_decrement_nesting",
    "torch._functorch.predispatch.lazy_load_decompositions",
    "torch.amp.autocast_mode._enter_autocast",
    "torch.amp.autocast_mode._exit_autocast",
)

_HIGHER_ORDER = words(
    "cond while_loop map_impl scan associative_scan invoke_subgraph wrap wrap_with_autocast wrap_with_set_grad_enabled "
    "tag_activation_checkpoint wrap_activation_checkpoint"
)

_NAMESPACES = ("aten", "prims")

# How an exported graph reads the device of a tensor; TorchScript's, so the dispatcher does not list it.
_PRIM = frozenset({"prim::device"})

_NOT_ATEN = re.compile(
    r"from_file|set_?|set_data|record_stream|retain_grad|_backward|requires_grad_|_print|_foobar|_test_.*|_?pin_memory"
    r"|_indices|_values|_coalesced_?|_spdiags|_spsolve|_propagate_xla_data"
    r"|.*(sparse|mkldnn|cudnn|miopen|nested|cufft|fbgemm|quantiz|padded_sequence|_cslt|coo_tensor|csr|csc|bsr|bsc).*"
)
_NOT_TORCH = re.compile(r"from_file|frombuffer|from_numpy|.*(sparse|mkldnn|cudnn|miopen|fbgemm|quantiz).*")
_NOT_METHODS = re.compile(
    r"apply_|as_subclass|backward|const_data_ptr|data_ptr|map2?_|module_load|new|numpy|pin_memory|record_stream"
    r"|register_.*|reinforce|resize|resize_as|retain_grad|set_|share_memory_|storage|storage_type|untyped_storage"
    r"|index|cuda|xpu|ipu|mtia|.*(sparse|mkldnn).*"
)
_NOT_FUNCTIONAL = frozenset({"triplet_margin_with_distance_loss", "multi_head_attention_forward"})

ATTRIBUTES = frozenset(
    words(
        "H T mH mT data device dtype grad imag is_cpu is_cuda is_leaf is_meta is_mps is_nested is_quantized is_sparse "
        "itemsize layout nbytes ndim real requires_grad shape start step stop"
    )
)
"""Attributes that a node may read with `getattr`."""


@functools.cache
def functions() -> dict[str, Callable[..., Any]]:
    """Functions that a `call_function` node may name, operators of `torch.ops` apart."""
    table: dict[str, Callable[..., Any]] = {}

    def add(prefix: str, namespace: Any, names: list[str] | tuple[str, ...]) -> None:
        for name in names:
            # Names that this version of Python or PyTorch does not have are simply not there.
            function = getattr(namespace, name, None)
            full = f"{prefix}.{name}"
            if function is not None and (full in CHECKED or why_left_out(name) is None):
                table[full] = function

    add("torch", torch, [n for n in dir(torch._C._VariableFunctions) if n[0] != "_" and not _NOT_TORCH.fullmatch(n)])
    add("torch", torch, _TORCH)
    for name, namespace in (
        ("torch._C._nn", torch._C._nn),
        ("torch.linalg", torch.linalg),
        ("torch.fft", torch.fft),
        ("torch.special", torch.special),
    ):
        add(name, namespace, [n for n in dir(namespace) if n[0] != "_" and _is_native(getattr(namespace, n), n)])
    functional = torch.nn.functional
    add("torch.nn.functional", functional, [n for n, f in vars(functional).items() if _is_functional(n, f)])
    add("operator", operator, _OPERATORS)
    add("math", math, _MATH)
    add("builtins", builtins, _BUILTINS)
    for path in _CAPTURE:
        module, _, name = path.rpartition(".")
        try:
            # The paths are the constants above, never names from a document.
            namespace = torch._C._functorch if module == "torch._C._functorch" else _import(module)
        except ModuleNotFoundError:
            continue
        add(module, namespace, (name,))
    return table


def _import(module: str) -> Any:
    return torch._C if module == "torch._C" else importlib.import_module(module)


def _is_native(function: Any, name: str) -> bool:
    return inspect.isbuiltin(function) and not _NOT_TORCH.fullmatch(name)


def _is_functional(name: str, function: Any) -> bool:
    # Native functions that are only re-exported are listed under their own namespace or under torch.
    return (
        name[0] != "_"
        and name not in _NOT_FUNCTIONAL
        and inspect.isfunction(function)
        and getattr(function, "__module__", None) == "torch.nn.functional"
    )


@functools.cache
def _names() -> dict[Callable[..., Any], str]:
    names: dict[Callable[..., Any], str] = {}
    for name, function in functions().items():
        names.setdefault(function, name)
    return names


@functools.cache
def methods() -> frozenset[str]:
    """Names that a `call_method` node may use: public methods of tensors that only compute."""
    return frozenset(
        name
        for name in dir(torch.Tensor)
        if name[0] != "_"
        and not _NOT_METHODS.fullmatch(name)
        and why_left_out(name) is None
        and inspect.isroutine(getattr(torch.Tensor, name))
    )


@functools.cache
def operators() -> frozenset[str]:
    """Full names of the dispatcher's operators that may be called, such as `aten::add.Tensor`.

    TorchScript registers more under `torch.ops.aten`, `aten::save` among them; the dispatcher does not know those.
    """
    names: list[str] = torch._C._dispatch_get_all_op_names()
    return frozenset(name for name in names if _is_allowed_operator(name)) | _PRIM


def _is_allowed_operator(name: str) -> bool:
    namespace, _, rest = name.partition("::")
    operation, _, overload = rest.partition(".")
    if namespace not in _NAMESPACES or _NOT_ATEN.fullmatch(operation):
        return False
    return why_left_out(operation) is None and (
        namespace != "aten" or why_operator_left_out(operation, overload) is None
    )


@functools.cache
def _packets() -> frozenset[str]:
    return frozenset(name.partition(".")[0] for name in operators())


@functools.cache
def _higher_order() -> dict[str, Callable[..., Any]]:
    table: dict[str, Callable[..., Any]] = {}
    for name in _HIGHER_ORDER:
        try:
            table[f"torch.ops.higher_order.{name}"] = getattr(torch.ops.higher_order, name)
        except AttributeError:
            continue
    return table


def encode_target(node: fx.Node) -> str:
    """The name of what `node` calls, reads or stands for.

    Raises:
        GraphFormatError: it calls something that is not on the allow-list.
    """
    target = node.target
    if node.op != "call_function":
        if node.op == "call_method" and target not in methods():
            raise GraphFormatError(f"node {node.name!r}: the method {shown(target)} is not on the allow-list")
        return str(target)
    name = _name_of(target)
    if name is None or not _is_known(name):
        described = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or repr(target)
        raise GraphFormatError(
            f"node {node.name!r}: calls {getattr(target, '__module__', None)}.{described}, which is not on the "
            "allow-list of functions that a graph may carry to another process; use operators of torch"
        )
    return name


def _name_of(target: Any) -> str | None:
    if isinstance(target, torch._ops.OpOverload):
        namespace, _, rest = target.name().partition("::")
        return f"torch.ops.{namespace}.{rest.partition('.')[0]}.{target._overloadname}"
    if isinstance(target, torch._ops.OpOverloadPacket):
        namespace, _, rest = target._qualified_op_name.partition("::")
        return f"torch.ops.{namespace}.{rest}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{target.name()}"
    return _names().get(target)


def _is_known(name: str) -> bool:
    return name in functions() or name in _higher_order() or _operator_key(name) is not None


def _operator_key(name: str) -> tuple[str, str, str | None] | None:
    """Namespace, operator and overload of an allowed name such as `torch.ops.aten.add.Tensor`."""
    parts = name.split(".")
    if parts[:2] != ["torch", "ops"]:
        return None
    if len(parts) == 4 and f"{parts[2]}::{parts[3]}" in _packets():
        return parts[2], parts[3], None
    if len(parts) == 5:
        overload = "" if parts[4] == "default" else f".{parts[4]}"
        if f"{parts[2]}::{parts[3]}{overload}" in operators():
            return parts[2], parts[3], parts[4]
    return None


def decode_function(name: Any, where: str) -> Callable[..., Any]:
    """The function that a `call_function` node names.

    Raises:
        GraphFormatError: the name is not on the allow-list; the message starts with `where`.
    """
    if type(name) is str and len(name) < 200:
        function = functions().get(name) or _higher_order().get(name)
        if function is not None:
            return function
        key = _operator_key(name)
        if key is not None:
            namespace, operation, overload = key
            packet = getattr(getattr(torch.ops, namespace), operation)
            target: Callable[..., Any] = packet if overload is None else getattr(packet, overload)
            return target
    raise GraphFormatError(f"{where}: the function {shown(name)} is not on the allow-list")


def decode_method(name: Any, where: str) -> str:
    """The method that a `call_method` node names.

    Raises:
        GraphFormatError: the name is not on the allow-list; the message starts with `where`.
    """
    if type(name) is not str or name not in methods():
        raise GraphFormatError(f"{where}: the method {shown(name)} is not on the allow-list")
    return name


_ENUMERATIONS: dict[str, tuple[str, type]] = {
    "ScalarType": ("a dtype", torch.dtype),
    "Layout": ("a layout", torch.layout),
    "MemoryFormat": ("a memory format", torch.memory_format),
}


@functools.cache
def _enumerated(target: Any) -> tuple[tuple[int | None, str, str, type], ...]:
    """Arguments of an operator that choose from an enumeration: place, name, what in words, and the type.

    Of an operator without an overload these are the arguments of all of them, by name only.
    """
    packet = isinstance(target, torch._ops.OpOverloadPacket)
    overloads = [getattr(target, name) for name in target.overloads()] if packet else [target]
    found = []
    for overload in overloads:
        for place, argument in enumerate(overload._schema.arguments):
            kind = str(argument.real_type).removeprefix("Optional[").removesuffix("]")
            if kind in _ENUMERATIONS:
                found.append((None if packet or argument.kwarg_only else place, argument.name, *_ENUMERATIONS[kind]))
    return tuple(dict.fromkeys(found))


def _check_enumerated(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], where: str) -> None:
    # The dispatcher takes any integer for a dtype, and reads beyond its tables with one that is none.
    for place, name, what, kind in _enumerated(target):
        given = kwargs.get(name, args[place] if place is not None and place < len(args) else None)
        if given is not None and not isinstance(given, kind):
            raise GraphFormatError(f"{where}: {name} of {target} is {what}, got {shown(given)}")


_STRIDES = frozenset(words("as_strided as_strided_ as_strided_copy as_strided_scatter"))
_MOST_STRIDE = 1 << 31


def check_strides(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], where: str) -> None:
    """Check sizes, strides and offset of `as_strided`, which multiplies them without a look at overflow.

    Raises:
        GraphFormatError: one of them is no number, or a huge one; the message starts with `where`.
    """
    if name not in _STRIDES:
        return
    numbers = [*args[1:], *(value for key, value in kwargs.items() if key not in ("self", "input", "src"))]
    if name == "as_strided_scatter" and len(args) > 1:
        numbers.pop(0)  # the values to scatter
    flat = [leaf for number in numbers for leaf in (number if isinstance(number, (list, tuple)) else [number])]
    if any(leaf is not None and not (type(leaf) is int and abs(leaf) < _MOST_STRIDE) for leaf in flat):
        raise GraphFormatError(f"{where}: {name} takes whole numbers below 2**31 for sizes, strides and offset")


def check_call(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], where: str) -> None:
    """Checks beyond the allow-list: `getattr` reads only harmless attributes, given as a literal; a dtype is a dtype.

    Raises:
        GraphFormatError: the call is not allowed; the message starts with `where`.
    """
    if target is getattr and (len(args) != 2 or kwargs or type(args[1]) is not str or not isinstance(args[0], fx.Node)):
        raise GraphFormatError(f"{where}: getattr takes a node and the name of an attribute, nothing else")
    if target is getattr and args[1] not in ATTRIBUTES:
        raise GraphFormatError(
            f"{where}: the attribute {shown(args[1])} may not be read; allowed: {', '.join(sorted(ATTRIBUTES))}"
        )
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        _check_enumerated(target, args, kwargs, where)
    check_strides(getattr(target, "__name__", "").partition(".")[0], args, kwargs, where)
