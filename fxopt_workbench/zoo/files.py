"""A model in a file: a program of `torch.export`, TorchScript, or, where the file is trusted, a pickled module.

An exported program has the mode of its export, TorchScript is set to evaluation mode, a module comes as it was pickled.

Unpickling runs what a file says, so nothing is unpickled beyond tensors unless the caller trusts the file. A program of
`torch.export` is read by torch with pickle, `getattr` and `sympify`, and a graph may call operators that write files;
so an untrusted one is looked through first, and read with tensors only.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.fx.experimental.symbolic_shapes import free_symbols

from fxopt_core.suggestions import did_you_mean
from fxopt_workbench.quiet import without_logs
from fxopt_workbench.zoo import own
from fxopt_workbench.zoo.recipe import ExampleInputs

ENDINGS = frozenset({".pt", ".pth", ".pt2", ".ckpt", ".bin", ".pkl", ".safetensors", ".onnx"})
"""By which a name is taken for a file although there is none."""

KINDS = "a program of torch.export (.pt2), TorchScript, or a module from torch.save"

_OPERATORS = re.compile(
    r"torch\.ops\.\w+\.\w+(\.\w+)?|torch\.sym_\w+|math\.\w+"
    r"|_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|eq|ne|lt|le|gt|ge|and_|or_|not_|getitem)"
)
_WORDS = re.compile(r"[A-Za-z_]\w*")
_SIZE_WORDS = re.compile(
    r"[a-z]{1,2}\d+|Symbol|positive|nonnegative|integer|real|True|False|Integer|Rational|Float|Add|Mul|Pow|Abs|Max|Min|Mod"
    r"|PythonMod|FloorDiv|ModularIndexing|CleanDiv|CeilDiv|IntTrueDiv|FloatTrueDiv|TruncToInt|CeilToInt|ToFloat"
    r"|Equality|Unequality|GreaterThan|LessThan|StrictGreaterThan|StrictLessThan|And|Or|Not|Piecewise|ExprCondPair"
)
_WRITES_FILES = re.compile(r"\b(from_file|aten::save|torch\.save|default_factory_module)\b")


class ModelFileError(ValueError):
    """A file is no model, or cannot be loaded without trusting it."""


def names_a_file(name: str) -> bool:
    """Whether a name means a file: there is one, or it looks like one."""
    return Path(name).is_file() or Path(name).suffix in ENDINGS


def load(path: Path, inputs: Sequence[str] = (), *, trust: bool = False) -> tuple[nn.Module, ExampleInputs]:
    """The model in a file, on the CPU, and example inputs.

    Args:
        path: of the file.
        inputs: one text for each positional argument, such as `1,3,224,224` or `int64:2,16`, instead of those that
            the file has. Drawn from torch's default generator: normally distributed, or 0 and 1.
        trust: whether code in the file may run.

    Raises:
        ModelFileError: there is no such file, it is no model, has no example inputs, or wants to be trusted.
    """
    if not path.is_file():
        here = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        raise ModelFileError(f"there is no file {path}.{did_you_mean(path.name, here)}")
    given = tuple(map(_drawn, inputs))
    entries = zipfile.ZipFile(path).namelist() if zipfile.is_zipfile(path) else []
    kinds = {name.partition("/")[2] for name in entries}
    if "archive_format" in kinds:
        return _exported(path, entries, given, trust)
    if "constants.pkl" in kinds:
        return _scripted(path, entries, given, trust)
    if "data.pkl" in kinds or path.read_bytes()[:1] == b"\x80":
        return _pickled(path, given, trust)
    if path.suffix == ".safetensors":
        raise ModelFileError(_only_tensors(path, "tensors"))
    raise ModelFileError(f"{path} does not hold a model that torch can read; expected {KINDS}.")


def _exported(
    path: Path, entries: list[str], given: tuple[torch.Tensor, ...], trust: bool
) -> tuple[nn.Module, ExampleInputs]:
    if not trust:
        _look_through(path, entries)
    try:
        with _tensors_only(not trust):
            program = torch.export.load(path)
    except Exception as error:  # torch.export raises what it likes for what it cannot read
        if not trust and "weights_only" in str(error).lower():
            raise ModelFileError(_needs_trust(path, "it holds pickled objects other than tensors")) from error
        raise ModelFileError(f"{path} cannot be read by torch.export.load: {_in_short(error)}.") from error
    args, kwargs = program.example_inputs or ((), {})
    if not given and args and kwargs:
        raise ModelFileError(f"{path} was exported with positional and named inputs; give --input for each of them.")
    if given:
        _check_inputs(path, program, given)
    return program.module(), given or _required(path, args or kwargs)


def _check_inputs(path: Path, program: torch.export.ExportedProgram, given: Sequence[torch.Tensor]) -> None:
    """See that inputs fit what a program was exported for.

    Raises:
        ModelFileError: with what was expected.
    """
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    wanted = [values.get(name) for name in program.graph_signature.user_inputs if isinstance(name, str)]
    tensors = [value for value in wanted if isinstance(value, torch.Tensor)]
    if len(tensors) != len(program.graph_signature.user_inputs):
        return  # it takes something else too, such as a number: the call itself will say
    ranges, sizes = program.range_constraints, dict[Any, int]()
    expected = " ".join(f"--input {_as_option(value)}" for value in tensors)
    symbols = {symbol for value in tensors for symbol in free_symbols(value.shape)}
    for symbol in sorted(symbols & ranges.keys(), key=str):
        expected += f", {symbol} from {ranges[symbol].lower} to {ranges[symbol].upper}"
    if len(given) != len(tensors):
        raise ModelFileError(f"{path} was exported for {expected}; --input was given {_times(len(given))}.")
    for value, tensor in zip(tensors, given, strict=True):
        fits = value.dtype == tensor.dtype and value.dim() == tensor.dim()
        if not fits or not all(map(partial(_fits, ranges, sizes), value.shape, tensor.shape)):
            raise ModelFileError(
                f"--input {_as_option(tensor)} does not fit {path}, which was exported for {expected}."
            )


def _as_option(tensor: torch.Tensor) -> str:
    """A tensor's dtype and sizes in the form of `--input`; a size that may vary by its name."""
    dtype = "" if tensor.dtype == torch.float32 else f"{str(tensor.dtype).removeprefix('torch.')}:"
    return dtype + ",".join(map(str, tensor.shape))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _fits(ranges: Mapping[Any, Any], sizes: dict[Any, int], size: int | torch.SymInt, found: int) -> bool:
    """Whether a size is one that a program was exported for; `sizes` holds those of symbols met so far."""
    if isinstance(size, int):
        return size == found
    expression = size.node.expr
    if expression.is_Symbol:
        known = ranges.get(expression)
        within = known is None or bool(known.lower <= found <= known.upper)
        return within and sizes.setdefault(expression, found) == found
    if not expression.free_symbols <= sizes.keys():
        return True  # of symbols that no input has alone; the call itself will say
    return bool(expression.subs(sizes) == found)


def _look_through(path: Path, entries: list[str]) -> None:
    """Refuse what could do more than compute.

    Raises:
        ModelFileError: with what was found.
    """
    for entry in entries:
        if "/constants/" in entry and not entry.endswith(".json") and "tensor" not in Path(entry).name:
            raise ModelFileError(_needs_trust(path, f"it holds the object {entry}"))
        if entry.endswith(".json"):
            text = zipfile.ZipFile(path).read(entry).decode()
            found = _WRITES_FILES.search(text) or next(_strangers(json.loads(text)), None)
            if found:
                raise ModelFileError(_needs_trust(path, f"it calls {found if isinstance(found, str) else found[0]!r}"))


def _strangers(value: Any) -> Iterator[str]:
    """Operators that are none, and expressions of sizes with other words than those of sizes."""
    if isinstance(value, list):
        for one in value:
            yield from _strangers(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key in ("target", "as_operator") and isinstance(one, str) and not _OPERATORS.fullmatch(one):
                yield one
            elif key == "expr_str" and not all(map(_SIZE_WORDS.fullmatch, _WORDS.findall(one))):
                yield str(one)
            yield from _strangers(one)


@contextmanager
def _tensors_only(wanted: bool) -> Iterator[None]:
    """Have every `torch.load` inside refuse what is no tensor, if `wanted`, whatever its caller asks for."""
    before = os.environ.get("TORCH_FORCE_WEIGHTS_ONLY_LOAD")
    if wanted:
        os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"
    try:
        yield
    finally:
        if wanted:
            del os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"]
            os.environ |= {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": before} if before is not None else {}


def _scripted(
    path: Path, entries: list[str], given: tuple[torch.Tensor, ...], trust: bool
) -> tuple[nn.Module, ExampleInputs]:
    from torch._export.converter import TS2EPConverter

    code = "".join(zipfile.ZipFile(path).read(entry).decode() for entry in entries if entry.endswith(".py"))
    if not trust and (found := _WRITES_FILES.search(code)):
        raise ModelFileError(_needs_trust(path, f"it calls {found[0]!r}"))
    _required(path, given)
    try:
        with _without_what_torch_says_of_itself():
            script = torch.jit.load(path, map_location="cpu").eval()
            _check_number(path, script, len(given))
            # The converter does not notice inputs that do not fit before it is in the middle of its work.
            script(*given)
            module = TS2EPConverter(script, given, {}).convert().module()
    except ModelFileError:
        raise
    except Exception as error:  # the converter raises what it likes for what it does not know
        raise ModelFileError(
            f"{path} is TorchScript that torch cannot run or convert into a graph for these inputs: {_in_short(error)}."
        ) from error
    # The converter makes buffers of parameters.
    for name, parameter in script.named_parameters():
        path_of_owner, _, attribute = name.rpartition(".")
        owner = module.get_submodule(path_of_owner)
        if owner._buffers.pop(attribute, None) is not None:
            owner.register_parameter(attribute, nn.Parameter(parameter, parameter.requires_grad))
    return module, given


@contextmanager
def _without_what_torch_says_of_itself() -> Iterator[None]:
    """Leave out that TorchScript is deprecated, and what the converter does with it: nobody can change that here."""
    with warnings.catch_warnings(), without_logs("torch._export.non_strict_utils"):
        warnings.filterwarnings("ignore", r"`torch\.jit\.\w+` is (deprecated|not supported)", DeprecationWarning)
        warnings.filterwarnings("ignore", r"Manually populate .* into state_dict ExportedProgram", UserWarning)
        yield


def _check_number(path: Path, script: torch.jit.ScriptModule, given: int) -> None:
    """See that a TorchScript module takes so many positional arguments.

    Raises:
        ModelFileError: with what it takes.
    """
    # The first one is the module itself.
    forward: Any = script.forward
    arguments = [one for one in forward.schema.arguments[1:] if not one.kwarg_only]
    fewest = sum(not one.has_default_value() for one in arguments)
    if not fewest <= given <= len(arguments):
        named = ", ".join(f"{one.name}: {one.type}{' (optional)' * one.has_default_value()}" for one in arguments)
        raise ModelFileError(
            f"{path} takes {named or 'no inputs'}; --input was given {_times(given)}, expected once for each."
        )


def _pickled(path: Path, given: tuple[torch.Tensor, ...], trust: bool) -> tuple[nn.Module, ExampleInputs]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=not trust)
    except Exception as error:  # unpickling may raise anything
        if not trust and isinstance(error, pickle.UnpicklingError):
            raise ModelFileError(_needs_trust(path, "it is unpickled by running what it says")) from error
        raise ModelFileError(f"{path} cannot be unpickled: {_in_short(error)}.") from error
    if isinstance(content, nn.Module):
        return content, _required(path, given)
    if isinstance(content, Mapping):
        raise ModelFileError(_only_tensors(path, f"a dictionary of {len(content)} entries, such as a state_dict,"))
    if isinstance(content, tuple):
        model, inputs = own.checked(f"{path} holds", content)
        return model, given or inputs
    raise ModelFileError(f"{path} holds a {type(content).__name__}; expected {KINDS}.")


def _required(path: Path, inputs: ExampleInputs) -> ExampleInputs:
    if not inputs:
        raise ModelFileError(
            f"{path} has no example inputs. Give --input for each argument, such as --input 1,3,224,224 or "
            "--input int64:2,16."
        )
    return inputs


def _drawn(text: str) -> torch.Tensor:
    name, colon, sizes = text.rpartition(":")
    dtype = getattr(torch, name) if colon and isinstance(getattr(torch, name, None), torch.dtype) else None
    if (colon and dtype is None) or not re.fullmatch(r"(\d+(,\d+)*)?", sizes):
        raise ModelFileError(f"--input {text}: expected sizes, such as 1,3,224,224, after a dtype such as int64:2,16.")
    shape = [int(size) for size in sizes.split(",") if size]
    dtype = dtype or torch.float32
    # Numbers of 64 bits are drawn for every dtype that is not a floating-point one.
    needed = math.prod(shape) * (dtype.itemsize if dtype.is_floating_point else 8)
    if needed > (here := os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")):
        raise ModelFileError(
            f"--input {text}: a tensor of these sizes needs {needed / 1e9:.3g} GB, and this machine has "
            f"{here / 1e9:.3g} GB of memory; expected smaller sizes, such as 1,3,224,224."
        )
    try:
        return torch.randn(shape, dtype=dtype) if dtype.is_floating_point else torch.randint(0, 2, shape).to(dtype)
    except (RuntimeError, TypeError) as error:  # a size beyond 64 bits, or a dtype in which torch draws nothing
        raise ModelFileError(f"--input {text}: torch cannot make this tensor: {_in_short(error)}.") from error


def _needs_trust(path: Path, why: str) -> str:
    return (
        f"{path} cannot be loaded safely: {why}. Give --trust if you know where the file comes from: what is in it "
        "can then run any code on this machine."
    )


def _only_tensors(path: Path, what: str) -> str:
    return (
        f"{path} holds {what} and no model. Write a function that builds the model and loads them, and name it: "
        "--model mypackage.mymodule:build."
    )


def _in_short(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {(lines or [''])[-1].strip().rstrip('.')}"
