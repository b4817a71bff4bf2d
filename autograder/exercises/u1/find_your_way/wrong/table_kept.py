"""table of before

Keeps what the dispatcher's table said at the first call.
"""

import re
from functools import cache
from pathlib import PurePosixPath

import torch
import yaml

from fxopt_workbench.torch_sources import installed


@cache
def text_of(file):
    return installed(file).read_text(encoding="utf-8")


@cache
def entries(file, key):
    """The entries of a file by the operator's name; `key` is where an entry says its schema."""
    loaded = yaml.load(text_of(file), Loader=yaml.CSafeLoader)
    return {entry[key].split("(")[0]: entry for entry in loaded}


FUNCTIONS = ("aten/src/ATen/native/native_functions.yaml", "func")
FORMULAS = ("tools/autograd/derivatives.yaml", "name")


def arguments(operator):
    """The arguments of an operator's schema."""
    name, _, overload = operator.partition(".")
    return torch._C._get_schema(f"aten::{name}", overload).arguments


def writes_out(operator):
    return any(a.kwarg_only and a.alias_info is not None and a.alias_info.is_write for a in arguments(operator))


def kernel(operator):
    """The key that serves an ordinary tensor on the processor, and the function for it."""
    entry = entries(*FUNCTIONS)[operator]
    name = operator.split(".")[0]
    dispatch = {}
    for keys, function in entry.get("dispatch", {}).items():
        for key in keys.split(","):
            dispatch[key.strip()] = function
    if "CPU" in dispatch:
        return "CPU", dispatch["CPU"]
    if "ufunc_inner_loop" in entry:
        return "CPU", f"ufunc_{name}_CPU"
    if "structured_delegate" in entry:
        return kernel(entry["structured_delegate"])
    for key in ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd"):
        if key in dispatch:
            return key, dispatch[key]
    if "dispatch" not in entry:
        return "CompositeImplicitAutograd", f"{name}_out" if writes_out(operator) else name
    return None, None


@cache
def registration(operator):
    table = torch._C._dispatch_dump_table(f"aten::{operator}")
    found = re.search(r"^CPU: registered at (\S+):\d+.*\[([\w ]+)\]$", table, re.MULTILINE)
    return (PurePosixPath(found[1]).name, found[2]) if found else (None, None)


def formulas(operator):
    entry = entries(*FORMULAS).get(operator, {})
    names = {argument.name for argument in arguments(operator)}
    block = entry["dispatch"].get("Default", {}) if "dispatch" in entry else entry
    result = {}
    for keys, formula in block.items():
        for key in str(keys).split(","):
            if key.strip() in names:
                result[key.strip()] = formula
    return result


def facts(operator: str) -> dict:
    """What the wheel's tables say about an operator."""
    if operator not in entries(*FUNCTIONS):
        raise LookupError(f"native_functions.yaml has no entry {operator}")
    start = f"- func: {operator}("
    line = next(n for n, text in enumerate(text_of(FUNCTIONS[0]).splitlines(), 1) if text.startswith(start))
    key, function = kernel(operator)
    file, why = registration(operator)
    return {
        "line": line,
        "function": function,
        "key": key,
        "file": file,
        "why": why,
        "derivatives": formulas(operator),
    }
