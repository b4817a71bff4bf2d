"""A model in a file: a program of `torch.export`, TorchScript, or, where the file is trusted, a pickled module.

Unpickling runs what a file says, so nothing is unpickled beyond tensors unless the caller trusts the file. A program of
`torch.export` is read by torch with pickle, `getattr` and `sympify`, and a graph may call operators that write files;
so an untrusted one is looked through first, and read with tensors only.
"""

from __future__ import annotations

import json
import os
import pickle
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fxopt_core.suggestions import did_you_mean
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
    raise ModelFileError(f"{path} is no file of a model that torch can read; expected {KINDS}.")


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
    return program.module(), given or _required(path, args or kwargs)


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
        script = torch.jit.load(path, map_location="cpu").eval()
        # The converter does not notice inputs that do not fit before it is in the middle of its work.
        script(*given)
        module = TS2EPConverter(script, given, {}).convert().module()
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


def _pickled(path: Path, given: tuple[torch.Tensor, ...], trust: bool) -> tuple[nn.Module, ExampleInputs]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=not trust)
    except Exception as error:  # unpickling may raise anything
        if not trust and isinstance(error, pickle.UnpicklingError):
            raise ModelFileError(_needs_trust(path, "it is unpickled by running what it says")) from error
        raise ModelFileError(f"{path} cannot be unpickled: {_in_short(error)}.") from error
    if isinstance(content, nn.Module):
        return content.eval(), _required(path, given)
    if isinstance(content, Mapping):
        raise ModelFileError(_only_tensors(path, f"a dictionary of {len(content)} entries, such as a state_dict,"))
    if isinstance(content, tuple):
        model, inputs = own.checked(f"{path} holds", content)
        return model.eval(), given or inputs
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
    return torch.randn(shape, dtype=dtype) if dtype.is_floating_point else torch.randint(0, 2, shape).to(dtype)


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
