"""wrong reason

Takes the first brackets of the line, which may be part of the file's path.
"""

import os
import re
from functools import lru_cache

import torch
import yaml
from torchgen.model import FunctionSchema

from fxopt_workbench.torch_sources import installed


@lru_cache
def table():
    text = installed("aten/src/ATen/native/native_functions.yaml").read_text()
    found = {}
    starts = [number for number, line in enumerate(text.splitlines(), 1) if line.startswith("- func:")]
    for line, entry in zip(starts, yaml.load(text, Loader=yaml.CSafeLoader)):
        found[entry["func"].split("(")[0]] = (line, entry)
    return found


@lru_cache
def derivative_table():
    text = installed("tools/autograd/derivatives.yaml").read_text()
    return {entry["name"].split("(")[0]: entry for entry in yaml.load(text, Loader=yaml.CSafeLoader)}


def serving(operator):
    _, entry = table()[operator]
    schema = FunctionSchema.parse(entry["func"])
    pairs = [(key.strip(), value) for keys, value in (entry.get("dispatch") or {}).items() for key in keys.split(",")]
    pairs += [("generated", f"ufunc_{schema.name.name}_CPU")] if "ufunc_inner_loop" in entry else []
    pairs += [("delegate", entry["structured_delegate"])] if "structured_delegate" in entry else []
    if "dispatch" not in entry:
        pairs.append(("default", f"{schema.name.name}_out" if schema.is_out_fn() else str(schema.name.name)))
    explicit = "CompositeExplicitAutograd"
    order = [
        "CPU",
        "generated",
        "delegate",
        explicit,
        f"{explicit}NonFunctional",
        "CompositeImplicitAutograd",
        "default",
    ]
    for wanted in order:
        for key, function in pairs:
            if key == wanted == "delegate":
                return serving(function)
            if key == wanted:
                return {"generated": "CPU", "default": "CompositeImplicitAutograd"}.get(key, key), function
    return None, None


def facts(operator):
    if operator not in table():
        raise LookupError("not in native_functions.yaml: " + operator)
    line, entry = table()[operator]
    key, function = serving(operator)
    schema = FunctionSchema.parse(entry["func"])
    inputs = {argument.name for argument in schema.arguments.flat_all}
    blocks = derivative_table().get(operator, {})
    if "dispatch" in blocks:
        blocks = blocks["dispatch"].get("Default", {})
    derivatives = {}
    for names, formula in blocks.items():
        derivatives.update(dict.fromkeys(inputs & set(re.split(", *", names)), formula))
    entries = dict(
        line.split(": ", 1) for line in torch._C._dispatch_dump_table(f"aten::{operator}").splitlines() if ": " in line
    )
    at = re.match(r"registered at ([^:]+):", entries.get("CPU", ""))
    return {
        "line": line,
        "function": function,
        "key": key,
        "file": os.path.basename(at[1]) if at else None,
        "why": re.findall(r"\[([^\]]+)\]", entries["CPU"])[0] if at else None,
        "derivatives": derivatives,
    }
