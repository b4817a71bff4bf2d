"""The tables of the installed wheel, read with a mistake or without."""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePosixPath
from typing import Any

import torch
import yaml

from fxopt_workbench.torch_sources import installed

FUNCTIONS = "aten/src/ATen/native/native_functions.yaml"
DERIVATIVES = "tools/autograd/derivatives.yaml"

FLAWS = (
    "generated loop forgotten",
    "delegate not followed",
    "keys not split",
    "part of a key",
    "no kernel is composite",
    "first key",
    "no entry is no kernel",
    "out by its name",
    "out forgotten",
    "in place taken for out",
    "another overload",
    "line counted from 0",
    "last registration",
    "shard cut off",
    "path kept",
    "inputs not split",
    "results among the inputs",
    "other dispatch blocks",
    "formulas of the function",
)
"""Mistakes in `facts_of`."""

COMPOSITE = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional", "CompositeImplicitAutograd")
"""Keys that serve the processor where there is no kernel for `CPU`, the first of them that is there."""


class Missing(LookupError):  # noqa: N818 - it says what an operator is
    """There is no such operator."""


@cache
def entries() -> dict[str, dict[str, Any]]:
    """Each entry of native_functions.yaml by the operator's name, with its `line`, from 1."""
    text = installed(FUNCTIONS).read_text()
    lines = {
        match[1]: number
        for number, line in enumerate(text.splitlines(), 1)
        if (match := re.match(r"- func: ([\w.]+)\(", line))
    }
    read = yaml.load(text, Loader=yaml.CSafeLoader)
    return {(name := _name(entry["func"])): {**entry, "line": lines[name]} for entry in read}


@cache
def formulas() -> dict[str, dict[str, Any]]:
    """Each entry of derivatives.yaml by the operator's name."""
    read = yaml.load(installed(DERIVATIVES).read_text(), Loader=yaml.CSafeLoader)
    return {_name(entry["name"]): entry for entry in read}


def _name(schema: str) -> str:
    return schema.partition("(")[0].strip()


def facts_of(operator: str, flaw: str = "") -> dict[str, Any]:
    """What the task asks about an operator.

    Raises:
        Missing: native_functions.yaml has no entry of this name.
    """
    if flaw == "another overload":
        base = operator.partition(".")[0]
        operator = next((name for name in entries() if name.partition(".")[0] == base), operator)
    if operator not in entries():
        raise Missing(operator)
    entry = entries()[operator]
    line = entry["line"] - (flaw == "line counted from 0")
    key, function = kernel(operator, flaw)
    file, why = served(operator, flaw)
    return {
        "line": line,
        "function": function,
        "key": key,
        "file": file,
        "why": why,
        "derivatives": derivatives(operator, flaw),
    }


def kernel(operator: str, flaw: str = "") -> tuple[str | None, str | None]:
    """The key of native_functions.yaml that serves dense tensors on the processor, and the C++ function it names."""
    entry = entries()[operator]
    dispatch = _split(entry.get("dispatch", {}), flaw)
    if flaw == "first key" and dispatch:
        key = next(iter(dispatch))
        return key, dispatch[key]
    if flaw == "part of a key":
        for key, function in dispatch.items():
            if "CPU" in key:
                return "CPU", function
    if "CPU" in dispatch:
        return "CPU", dispatch["CPU"]
    if "ufunc_inner_loop" in entry and flaw != "generated loop forgotten":
        return "CPU", f"ufunc_{operator.partition('.')[0]}_CPU"
    if "structured_delegate" in entry and flaw != "delegate not followed":
        return kernel(entry["structured_delegate"], flaw)
    for key in COMPOSITE:
        if key in dispatch:
            return key, dispatch[key]
    if ("dispatch" in entry and flaw != "no kernel is composite") or flaw == "no entry is no kernel":
        return None, None
    wherever = flaw == "in place taken for out"
    writes = operator.endswith("out") if flaw == "out by its name" else writes_out(operator, wherever=wherever)
    suffix = "_out" if writes and flaw != "out forgotten" else ""
    return "CompositeImplicitAutograd", operator.partition(".")[0] + suffix


def writes_out(operator: str, *, wherever: bool = False) -> bool:
    """Whether an operator writes its result into an argument of its own (`out`), or `wherever` it is."""
    return any(
        (wherever or one.kwarg_only) and one.alias_info is not None and one.alias_info.is_write
        for one in _schema(operator)
    )


def _schema(operator: str) -> Any:
    base, _, overload = operator.partition(".")
    return torch._C._get_schema(f"aten::{base}", overload).arguments


def _split(dispatch: dict[str, str], flaw: str) -> dict[str, str]:
    if flaw == "keys not split":
        return dispatch
    return {key.strip(): function for keys, function in dispatch.items() for key in keys.split(",")}


def served(operator: str, flaw: str = "") -> tuple[str | None, str | None]:
    """File in which the kernel in the dispatcher's entry for `CPU` was registered, and why it is that one."""
    if flaw == "last registration":
        registered = torch._C._dispatch_dump(f"aten::{operator}")
        files = re.findall(r"registered at (\S+):\d+", registered)
        return (PurePosixPath(files[-1]).name if files else None), served(operator)[1]
    table = torch._C._dispatch_dump_table(f"aten::{operator}")
    found = re.search(r"^CPU: registered at (\S+):\d+.*\[([\w ]+)\]$", table, re.MULTILINE)
    if found is None:
        return None, None
    file = found[1] if flaw == "path kept" else PurePosixPath(found[1]).name
    return (re.sub(r"_\d+(?=\.)", "", file) if flaw == "shard cut off" else file), found[2]


def derivatives(operator: str, flaw: str = "") -> dict[str, str]:
    """The formula for each input, from derivatives.yaml; the block `Default` where there are several."""
    base = operator.partition(".")[0]
    if flaw == "formulas of the function" and operator not in formulas() and base.endswith("_"):
        operator = base[:-1] + operator.removeprefix(base)
    entry = formulas().get(operator)
    if entry is None:
        return {}
    blocks = entry.get("dispatch")
    if blocks is not None:
        entry = {
            **entry,
            **(blocks[list(blocks)[-1]] if flaw == "other dispatch blocks" else blocks.get("Default", {})),
        }
    inputs = arguments(operator)
    found = {}
    for names, formula in entry.items():
        if not isinstance(formula, str) or names == "name":
            continue
        if flaw == "inputs not split":
            if set(names.split(", ")) <= inputs:
                found[names] = formula
            continue
        for name in names.split(", "):
            if name in inputs or flaw == "results among the inputs":
                found[name] = formula
    return found


@cache
def arguments(operator: str) -> set[str]:
    """Names of an operator's inputs."""
    return {argument.name for argument in _schema(operator)}
