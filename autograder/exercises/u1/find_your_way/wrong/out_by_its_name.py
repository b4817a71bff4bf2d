"""out by its name

Whether an operator writes into an argument is told from its name: does the overload end in out?"""

import re
from functools import cache
from pathlib import PurePosixPath

import torch
import yaml

from fxopt_workbench.torch_sources import installed

ORDER = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")


@cache
def blocks(file, begin):
    """Name of an operator -> (line, text of its entry)."""
    text = installed(file)
    text = text if isinstance(text, str) else text.read_text()
    found, current = {}, None
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(begin):
            current = line.removeprefix(begin).split("(")[0].strip()
            found[current] = (number, [line])
        elif current is not None and line[:1] in (" ", ""):
            found[current][1].append(line)
        else:
            current = None
    return found


def entry(file, begin, name):
    number, lines = blocks(file, begin)[name]
    return number, yaml.load("\n".join(lines), Loader=yaml.CSafeLoader)[0]


NATIVE = ("aten/src/ATen/native/native_functions.yaml", "- func: ")
FORMULAS = ("tools/autograd/derivatives.yaml", "- name: ")


def arguments(operator):
    name, _, overload = operator.partition(".")
    return torch._C._get_schema(f"aten::{name}", overload).arguments


def kernel(operator):
    name = operator
    while True:
        _, found = entry(*NATIVE, name)
        table = {
            key.strip(): function for keys, function in found.get("dispatch", {}).items() for key in keys.split(",")
        }
        base = name.partition(".")[0]
        if "CPU" in table:
            return "CPU", table["CPU"]
        if "ufunc_inner_loop" in found:
            return "CPU", f"ufunc_{base}_CPU"
        if "structured_delegate" not in found:
            break
        name = found["structured_delegate"]
    for key in ORDER:
        if key in table:
            return key, table[key]
    if "dispatch" in found:
        return None, None
    written = name.endswith("out")
    return "CompositeImplicitAutograd", base + "_out" * written


def facts(operator: str) -> dict:
    if operator not in blocks(*NATIVE):
        raise LookupError(f"{operator} has no entry")
    key, function = kernel(operator)
    dump = torch._C._dispatch_dump_table(f"aten::{operator}")
    file = why = None
    for line in dump.splitlines():
        if line.startswith("CPU: registered at "):
            place, _, rest = line.removeprefix("CPU: registered at ").rpartition(" [")
            file, why = PurePosixPath(place.split(" ")[0].rpartition(":")[0]).name, rest.rstrip("]")
    formulas = {}
    if operator in blocks(*FORMULAS):
        _, found = entry(*FORMULAS, operator)
        found = found.get("dispatch", {}).get("Default", found)
        inputs = {one.name for one in arguments(operator)}
        for names, formula in found.items():
            for one in names.split(","):
                if one.strip() in inputs:
                    formulas[one.strip()] = formula
    return {
        "line": blocks(*NATIVE)[operator][0],
        "function": function,
        "key": key,
        "file": file,
        "why": why,
        "derivatives": formulas,
    }
