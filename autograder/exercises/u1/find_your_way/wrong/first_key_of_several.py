"""keys not split

Takes the first key of a line, whichever else it names.
"""

import re

import torch
import yaml

from fxopt_workbench.torch_sources import installed

FILE = "aten/src/ATen/native/native_functions.yaml"
KINDS = ["CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd"]


def read(operator):
    """Number of the first line, and the lines of an entry without comments; None where there is none."""
    lines = installed(FILE).read_text().split("\n")
    for number, line in enumerate(lines):
        if line.startswith(f"- func: {operator}("):
            rest = []
            for other in lines[number + 1 :]:
                if other.startswith("- "):
                    break
                rest.append(other.split("#")[0].rstrip())
            return number + 1, [line, *rest]
    return None


def dispatch_of(lines):
    """The functions of an entry by key, or None if it says nothing about dispatch."""
    if not any(line.startswith("  dispatch:") for line in lines):
        return None
    found = {}
    for line in lines:
        match = re.match(r"    ([\w, ]+): (\S+)$", line)
        if match and not line.startswith(("    Generic", "    ScalarOnly")):
            for key in match[1].split(","):
                found[key.strip()] = match[2]
                break
    return found


def kernel(operator):
    lines = read(operator)[1]
    dispatch = dispatch_of(lines)
    text = "\n".join(lines)
    name = operator.split(".")[0]
    if dispatch and "CPU" in dispatch:
        return "CPU", dispatch["CPU"]
    if "  ufunc_inner_loop:" in lines:
        return "CPU", "ufunc_" + name + "_CPU"
    delegate = re.search(r"^  structured_delegate: (\S+)", text, re.MULTILINE)
    if delegate:
        return kernel(delegate[1])
    for kind in KINDS:
        if dispatch and kind in dispatch:
            return kind, dispatch[kind]
    if dispatch is not None:
        return None, None
    named = re.search(r"\*,(.*)\) ->", lines[0])
    writes = named is not None and re.search(r"\(\w!\)", named[1]) is not None
    return KINDS[2], name + ("_out" if writes else "")


def formulas(operator):
    for entry in yaml.load(installed("tools/autograd/derivatives.yaml").read_text(), Loader=yaml.CSafeLoader):
        if entry["name"].startswith(f"{operator}("):
            entry = entry["dispatch"].get("Default", {}) if "dispatch" in entry else entry
            name, _, overload = operator.partition(".")
            inputs = [one.name for one in torch._C._get_schema("aten::" + name, overload).arguments]
            found = {}
            for names in entry:
                for one in names.split(","):
                    if one.strip() in inputs:
                        found[one.strip()] = entry[names]
            return found
    return {}


def facts(operator):
    entry = read(operator)
    if entry is None:
        raise KeyError(operator)
    key, function = kernel(operator)
    file = why = None
    for line in torch._C._dispatch_dump_table("aten::" + operator).splitlines():
        if line.startswith("CPU: registered at "):
            file = line.split("registered at ")[1].split(":")[0].split("/")[-1]
            why = line.rsplit("[", 1)[1].rstrip("]")
    return {
        "line": entry[0],
        "function": function,
        "key": key,
        "file": file,
        "why": why,
        "derivatives": formulas(operator),
    }
