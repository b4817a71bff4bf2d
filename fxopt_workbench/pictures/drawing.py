"""`draw`: a picture of an FX graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

import torch
from torch import fx

from fxopt_workbench.pictures.dot import scene_to_dot
from fxopt_workbench.pictures.grouping import MOST_BOXES, grouped_scene
from fxopt_workbench.pictures.nodes import describe
from fxopt_workbench.pictures.picture import GraphPicture
from fxopt_workbench.pictures.scene import node_scene

Collapse = Literal["auto", "never", "modules", "blocks"]
Direction = Literal["TB", "BT", "LR", "RL"]
Parameters = Literal["show", "hide"]


def draw(
    graph_module: fx.GraphModule | fx.Graph | torch.export.ExportedProgram,
    *,
    title: str | None = None,
    collapse: Collapse = "auto",
    highlight: Iterable[fx.Node | str] = (),
    direction: Direction = "TB",
    parameters: Parameters = "show",
) -> GraphPicture:
    """Draw an FX graph.

    The kinds of node differ in shape and label as well as in colour. Shapes and dtypes come from
    `node.meta` (`val`, `example_value`, `tensor_meta` or `encoded_value`); where a graph carries none the
    table says `?`. Two drawings of equal graphs are equal, character by character.

    Args:
        graph_module: the graph module, graph or exported program; it is not changed.
        title: heading; by default the class name of the graph module.
        collapse: `"auto"` draws each node while the drawing has at most 60 boxes (parameters apart) and
            else does as `"blocks"`: neighbouring nodes of one module become one box, blocks that are repeated
            become one box ("×12"), and the stages of a model of images are framed; `"modules"` leaves repeated
            blocks expanded; `"never"` draws each node, which takes a minute for thousands.
        highlight: nodes, or their names, to draw with a double border, a bold label and another colour.
        direction: where the arrows lead: `"TB"` (down), `"BT"`, `"LR"` or `"RL"`.
        parameters: `"show"` draws parameters and buffers paler than real inputs; `"hide"` leaves them to
            the table. A collapsed drawing only counts them.

    Raises:
        TypeError: `graph_module` is no graph.
        ValueError: an unknown option, or a highlighted node that is not in the graph.
    """
    _require("collapse", collapse, get_args(Collapse))
    _require("direction", direction, get_args(Direction))
    _require("parameters", parameters, get_args(Parameters))
    graph, known_parameters = _graph_of(graph_module)
    nodes = describe(graph, known_parameters)
    marked = _highlighted(graph, highlight)
    heading = title if title is not None else _default_title(graph_module)
    boxes = sum(not node.is_parameter for node in nodes)
    if collapse in ("modules", "blocks") or (collapse == "auto" and boxes > MOST_BOXES):
        scene = grouped_scene(graph, nodes, heading, marked, expand=collapse == "modules")
    else:
        scene = node_scene(nodes, heading, marked, parameters == "show")
    return GraphPicture(scene_to_dot(scene, direction), scene)


def _require(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is unknown; choose one of {', '.join(map(repr, allowed))}")


def _graph_of(graph_module: object) -> tuple[fx.Graph, frozenset[str]]:
    if isinstance(graph_module, fx.Graph):
        return graph_module, frozenset()
    if isinstance(graph_module, fx.GraphModule):
        return graph_module.graph, frozenset()
    if isinstance(graph_module, torch.export.ExportedProgram):
        signature = graph_module.graph_signature
        states = (*signature.inputs_to_parameters, *signature.inputs_to_buffers)
        return graph_module.graph, frozenset(states)
    raise TypeError(
        f"draw() takes an fx.GraphModule, fx.Graph or ExportedProgram, not {type(graph_module).__name__}; "
        "capture a model first, for example with fxopt_core.capture.capture(model, example_inputs).graphs[0]"
    )


def _default_title(graph_module: object) -> str:
    name = type(graph_module).__name__
    # Graph modules made by code generation are of a class made on the spot, named by nothing useful.
    return "FX graph" if name in ("GraphModuleImpl", "Graph", "GraphModule") else name


def _highlighted(graph: fx.Graph, highlight: Iterable[fx.Node | str]) -> frozenset[str]:
    if isinstance(highlight, (str, fx.Node)):
        highlight = (highlight,)
    names = [item if isinstance(item, str) else item.name for item in highlight]
    here = [node.name for node in graph.nodes]
    unknown = sorted(set(names) - set(here))
    if unknown:
        shown = ", ".join(here[:10]) + (", …" if len(here) > 10 else "")
        raise ValueError(f"highlight names {', '.join(unknown)}, which the graph does not have; it has {shown}")
    return frozenset(names)
