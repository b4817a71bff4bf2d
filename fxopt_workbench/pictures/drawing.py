"""`draw`: a picture of an FX graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, cast, get_args

import torch
from torch import fx

from fxopt_workbench.pictures.dot import scene_to_dot
from fxopt_workbench.pictures.grouping import MOST_BOXES, grouped_scene
from fxopt_workbench.pictures.nodes import captured_states, describe, exported_states
from fxopt_workbench.pictures.picture import GraphPicture
from fxopt_workbench.pictures.scene import node_scene

if TYPE_CHECKING:
    from fxopt_core.capture.captured_graph import CapturedGraph

Collapse = Literal["auto", "never", "modules", "blocks"]
Direction = Literal["TB", "BT", "LR", "RL"]
Parameters = Literal["show", "hide"]


def draw(
    graph_module: fx.GraphModule | fx.Graph | torch.export.ExportedProgram | CapturedGraph,
    *,
    title: str | None = None,
    collapse: Collapse = "auto",
    highlight: Iterable[fx.Node | str] = (),
    direction: Direction = "TB",
    parameters: Parameters = "show",
) -> GraphPicture:
    """Draw an FX graph.

    The kinds of node differ in shape and label as well as in colour; so do parameters, buffers and constants. Where a
    graph does not say what a placeholder stands for, it is an input. Shapes and dtypes come from
    `node.meta` (`val`, `example_value`, `tensor_meta` or `encoded_value`); where a graph carries none the
    table says `?`. Two drawings of equal graphs are equal, character by character.

    Args:
        graph_module: the graph module, graph, exported program or captured partition; it is not changed.
        title: heading; by default the class name of the graph module.
        collapse: `"auto"` draws each node while the drawing has at most 60 boxes (parameters and the like apart) and
            else does as `"blocks"`: neighbouring nodes of one module become one box, blocks that are repeated
            become one box ("×12"), and the stages of a model of images are framed; `"modules"` leaves repeated
            blocks expanded; `"never"` draws each node, which takes a minute for thousands.
        highlight: nodes, or their names, to draw with a double border, a bold label and another colour.
        direction: where the arrows lead: `"TB"` (down), `"BT"`, `"LR"` or `"RL"`.
        parameters: `"show"` draws what the model holds (parameters, buffers, constants), paler than real inputs
            where it is handed in as they are; `"hide"` leaves it to the table. A collapsed drawing only counts it.

    Raises:
        TypeError: `graph_module` is no graph.
        ValueError: an unknown option, or a highlighted node that is not in the graph.
    """
    _require("collapse", collapse, get_args(Collapse))
    _require("direction", direction, get_args(Direction))
    _require("parameters", parameters, get_args(Parameters))
    graph, states = _graph_of(graph_module)
    nodes = describe(graph, states)
    marked = _highlighted(graph, highlight)
    heading = title if title is not None else _default_title(graph_module)
    boxes = sum(not node.is_state for node in nodes)
    if collapse in ("modules", "blocks") or (collapse == "auto" and boxes > MOST_BOXES):
        scene = grouped_scene(graph, nodes, heading, marked, expand=collapse == "modules")
    else:
        scene = node_scene(nodes, heading, marked, parameters == "show")
    return GraphPicture(scene_to_dot(scene, direction), scene)


def _require(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name}={value!r} is unknown; choose one of {', '.join(map(repr, allowed))}")


def _graph_of(graph_module: object) -> tuple[fx.Graph, Mapping[str, str]]:
    """The graph, and what is known of its placeholders."""
    if isinstance(graph_module, fx.Graph):
        return graph_module, {}
    if isinstance(graph_module, fx.GraphModule):
        return graph_module.graph, {}
    if isinstance(graph_module, torch.export.ExportedProgram):
        return graph_module.graph, exported_states(graph_module)
    if hasattr(graph_module, "inputs") and isinstance(getattr(graph_module, "graph_module", None), fx.GraphModule):
        captured = cast("CapturedGraph", graph_module)
        return captured.graph_module.graph, captured_states(captured)
    raise TypeError(
        "draw() takes an fx.GraphModule, fx.Graph, ExportedProgram or CapturedGraph, "
        f"not {type(graph_module).__name__}; "
        "capture a model first, for example with fxopt_core.capture.capture(model, example_inputs).graphs[0]"
    )


def _default_title(graph_module: object) -> str:
    name = type(getattr(graph_module, "graph_module", graph_module)).__name__
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
