"""out forgotten

Tells an operator that writes into `out` by the overload `.out`: `clip.Tensor_out` is one, too.
"""

import re
from functools import lru_cache
from pathlib import PurePosixPath

import torch
import yaml

from fxopt_workbench.torch_sources import installed

NATIVE = "aten/src/ATen/native/native_functions.yaml"
FORMULAS = "tools/autograd/derivatives.yaml"


@lru_cache(None)
def native():
    text = PLACE(NATIVE)
    lines = {}
    for n, line in enumerate(text.splitlines(), 1):
        if line.startswith("- func:"):
            lines[line[len("- func:") :].split("(")[0].strip()] = n
    return {e["func"].split("(")[0]: e for e in yaml.load(text, Loader=yaml.CSafeLoader)}, lines


def PLACE(name):
    found = installed(name)
    return found if isinstance(found, str) and "\n" in found else open(found).read()


@lru_cache(None)
def formulas():
    return {e["name"].split("(")[0]: e for e in yaml.load(PLACE(FORMULAS), Loader=yaml.CSafeLoader)}


def args_of(name):
    base, _, overload = name.partition(".")
    return torch._C._get_schema("aten::" + base, overload).arguments


def kernel(name):
    entry = native()[0][name]
    dispatch = {}
    for keys, function in entry.get("dispatch", {}).items():
        for key in keys.split(","):
            dispatch[key.strip()] = function
    base = name.split(".")[0]
    if "CPU" in dispatch:
        return "CPU", dispatch["CPU"]
    if "ufunc_inner_loop" in entry:
        return "CPU", f"ufunc_{base}_CPU"
    if "structured_delegate" in entry:
        return kernel(entry["structured_delegate"])
    for key in ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd"):
        if key in dispatch:
            return key, dispatch[key]
    if "dispatch" not in entry:
        out = name.endswith(".out")
        return "CompositeImplicitAutograd", base + ("_out" if out else "")
    return None, None


def facts(operator):
    entries, lines = native()
    if operator not in entries:
        raise LookupError(f"no entry {operator}")
    key, function = kernel(operator)
    dump = torch._C._dispatch_dump_table("aten::" + operator)
    match = re.search(r"^CPU: registered at (\S+):\d+.*\[([\w ]+)\]$", dump, re.M)
    derivatives = {}
    entry = formulas().get(operator)
    if entry is not None:
        source = entry.get("dispatch", {}).get("Default", {}) if "dispatch" in entry else entry
        known = {a.name for a in args_of(operator)}
        for names, formula in source.items():
            for one in str(names).split(","):
                if one.strip() in known and names not in ("name", "dispatch", "output_differentiability"):
                    derivatives[one.strip()] = formula
    return {
        "line": lines[operator],
        "function": function,
        "key": key,
        "file": match and PurePosixPath(match[1]).name,
        "why": match and match[2],
        "derivatives": derivatives,
    }
