"""One captured graph as the source of an `nn.Module` class."""

from __future__ import annotations

import copy
import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.fx.graph import CodeGen

from fxopt_core.capture.captured_graph import GraphInput
from fxopt_core.capture.errors import CaptureError
from fxopt_workbench.standalone.imports import import_statements, operator_imports, used_names
from fxopt_workbench.standalone.store import ADVICE, TensorStore

_RELEASED = re.compile(r";  (?:[A-Za-z_]\w* = )+None$", re.MULTILINE)
_PROVENANCE = re.compile(r"^( *)# File: .*?, code: (.*)$", re.MULTILINE)
_HEADER = re.compile(r"\A\s*def forward\(.*\)(?: ->.*)?:$", re.MULTILINE)


@dataclass(frozen=True)
class GraphClass:
    """Source of a class, and of the classes that it needs.

    Attributes:
        source: class definitions, the nested graphs' before their user's.
        imports: statements for the free names.
    """

    source: str
    imports: tuple[str, ...]


def graph_class(
    name: str, graph_module: fx.GraphModule, inputs: Sequence[GraphInput], store: TensorStore, method: str, summary: str
) -> GraphClass:
    """Write `graph_module` as a class called `name`. Inputs get their readable names; nothing is renamed in place.

    Raises:
        CaptureError: the graph calls a module that is no graph, or reads an attribute that cannot be stored.
    """
    graph = copy.deepcopy(graph_module.graph)
    graph.set_codegen(CodeGen())
    comments = _rename_placeholders(graph, inputs)
    code = graph.python_code("self", verbose=True)
    body = _HEADER.sub("", code.src, count=1)
    if body == code.src:
        raise RuntimeError(f"torch {torch.__version__} generates code of another form:\n{code.src[:200]}")
    # Releasing each value after its last use saves memory, and hides what the line computes.
    body = _PROVENANCE.sub(r"\1# \2", _RELEASED.sub("", body)).strip("\n")

    nested, setup = _attributes(name, graph_module, store, method)
    lines = [f"class {name}(torch.nn.Module):", f'    """{summary}"""', ""]
    if setup:
        lines += ["    def __init__(self):", "        super().__init__()", *(f"        {line}" for line in setup), ""]
    lines += ["    def forward(", "        self,", *(f"        {line}" for line in comments), "    ):"]
    own = "\n".join(lines) + "\n" + textwrap.indent(body, "    ").rstrip() + "\n"
    imports = [*import_statements(used_names(own), code.globals, method), *operator_imports(graph, method)]
    return GraphClass(
        "\n\n".join([*(one.source for one in nested), own]),
        tuple(dict.fromkeys([*(line for one in nested for line in one.imports), *imports])),
    )


def _rename_placeholders(graph: fx.Graph, inputs: Sequence[GraphInput]) -> list[str]:
    """Name the placeholders after what they stand for; a line for each as it stands in the signature."""
    lines = []
    nodes = graph.find_nodes(op="placeholder")
    known: Sequence[GraphInput | None] = inputs if len(inputs) == len(nodes) else [None] * len(nodes)
    for node, stands_for in zip(nodes, known, strict=True):
        if stands_for is None:
            node.target = node.name
            lines.append(f"{node.name},")
            continue
        wanted = stands_for.source.removeprefix("self.")
        if wanted.isascii() and re.fullmatch(r"[A-Za-z_][\w.]*", wanted) and wanted != node.name:
            node._rename(wanted.replace(".", "_"))
        node.target = node.name
        shape = "" if stands_for.shape is None else f" {list(stands_for.shape)}"
        lines.append(f"{node.name},  # {stands_for.kind} {stands_for.source}: {stands_for.dtype}{shape}")
        node.args, node.type = (), None
    return lines


def _attributes(
    name: str, graph_module: fx.GraphModule, store: TensorStore, method: str
) -> tuple[list[GraphClass], list[str]]:
    """Classes of the nested graphs, and the lines that set the attributes of the graph up."""
    nested: list[GraphClass] = []
    setup: list[str] = []
    containers: set[str] = set()
    targets = dict.fromkeys(
        str(node.target) for node in graph_module.graph.nodes if node.op in ("get_attr", "call_module")
    )
    for target in targets:
        *path, _ = target.split(".")
        for depth in range(1, len(path) + 1):
            container = ".".join(path[:depth])
            if container not in containers:
                containers.add(container)
                setup.append(f"self.{container} = torch.nn.Module()")
        value = _attribute(graph_module, target)
        if isinstance(value, fx.GraphModule):
            inner = f"{name}_{target.replace('.', '_')}"
            nested.append(graph_class(inner, value, (), store, method, f"The graph {target} inside {name}."))
            setup.append(f"self.{target} = {inner}()")
        elif isinstance(value, torch.nn.Module):
            raise CaptureError(method, f"the graph calls the module {target} ({type(value).__name__}).", ADVICE)
        else:
            setup.append(f"self.{target} = {store.expression(value, f'{name}.{target}')}")
    return nested, setup


def _attribute(graph_module: fx.GraphModule, target: str) -> Any:
    found: Any = graph_module
    for part in target.split("."):
        found = getattr(found, part)
    return found
