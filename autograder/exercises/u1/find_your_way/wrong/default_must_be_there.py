"""refused

Asks for the block Default, which is not in every entry with blocks.
"""

import re
from functools import cache
from pathlib import PurePosixPath

import torch
import yaml

from fxopt_workbench.torch_sources import installed


@cache
def entries(file, key):
    """The entries of a file by the operator's name; `key` is where an entry says its schema."""
    text = installed(file).read_text()
    lines = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith(f"- {key}: ")]
    found = yaml.load(text, Loader=yaml.CSafeLoader)
    return {entry[key].split("(")[0]: entry | {"line": line} for line, entry in zip(lines, found, strict=True)}


FUNCTIONS = ("aten/src/ATen/native/native_functions.yaml", "func")
FORMULAS = ("tools/autograd/derivatives.yaml", "name")


def arguments(operator):
    """The arguments of an operator's schema."""
    name, _, overload = operator.partition(".")
    return torch._C._get_schema(f"aten::{name}", overload).arguments


def kernel(operator):
    """The key that serves an ordinary tensor on the processor, and the function for it."""
    entry, name = entries(*FUNCTIONS)[operator], operator.split(".")[0]
    dispatch = {key: function for keys, function in entry.get("dispatch", {}).items() for key in keys.split(", ")}
    if "CPU" in dispatch:
        return "CPU", dispatch["CPU"]
    if "ufunc_inner_loop" in entry:
        return "CPU", f"ufunc_{name}_CPU"
    if "structured_delegate" in entry:
        return kernel(entry["structured_delegate"])
    for kind in ("ExplicitAutograd", "ExplicitAutogradNonFunctional", "ImplicitAutograd"):
        if f"Composite{kind}" in dispatch:
            return f"Composite{kind}", dispatch[f"Composite{kind}"]
    if "dispatch" in entry:
        return None, None
    written = any(one.kwarg_only and one.alias_info and one.alias_info.is_write for one in arguments(operator))
    return "CompositeImplicitAutograd", f"{name}_out" if written else name


def facts(operator: str) -> dict:
    """What the wheel's tables say about an operator."""
    if operator not in entries(*FUNCTIONS):
        raise LookupError(f"native_functions.yaml has no entry {operator}")
    line = entries(*FUNCTIONS)[operator]["line"]
    key, function = kernel(operator)
    table = torch._C._dispatch_dump_table(f"aten::{operator}")
    found = re.search(r"^CPU: registered at (\S+):\d+.*\[([\w ]+)\]$", table, re.MULTILINE)
    file, why = (PurePosixPath(found[1]).name, found[2]) if found else (None, None)
    formulas = entries(*FORMULAS).get(operator, {})
    formulas = formulas["dispatch"]["Default"] if "dispatch" in formulas else formulas
    inputs = {one.name for one in arguments(operator)}
    derivatives = {name: formula for names, formula in formulas.items() for name in names.split(", ") if name in inputs}
    return {"line": line, "function": function, "key": key, "file": file, "why": why, "derivatives": derivatives}
