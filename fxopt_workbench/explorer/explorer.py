"""A picture of a graph with zoom, search, and what is known of the node that was clicked.

It is one piece of HTML: an image, a table of all nodes, and a script that puts the image's SVG in its place and reads
the table. A notebook that was not run here, GitHub and others that take scripts out show the image and the table. So it
needs neither a widget extension nor a kernel, asks no other machine for anything, and works in nbconvert's pages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import torch
from torch import fx

from fxopt_core.capture import Captured, CapturedGraph
from fxopt_core.costs import Cost, NodeCost, analyze_graph
from fxopt_core.display import choose_kinds
from fxopt_core.graphs.module_paths import module_path
from fxopt_workbench.files import replacing
from fxopt_workbench.pictures import GraphPicture, PictureError, draw
from fxopt_workbench.pictures.dot import box_identifier
from fxopt_workbench.pictures.drawing import Collapse, Direction, Parameters
from fxopt_workbench.pictures.nodes import captured_states, describe, exported_states
from fxopt_workbench.results.costs import notes as cost_notes
from fxopt_workbench.results.source_lines import source_line, without_folders
from fxopt_workbench.tables import Table, aligned, format_bytes, format_count

SCRIPT = Path(__file__).with_name("explorer.js")

WORDS = ("operation", "inputs", "shape", "dtype", "path", "source")
FIGURES = ("FLOPs", "read", "written", "alive")


_HEAD = """<!doctype html><html lang="en"><head><meta charset="utf-8"><style>
:root { color-scheme: light dark; font: 15px/1.4 system-ui, sans-serif; }
table { border-collapse: collapse; } th, td { padding: .2rem .5rem; border-bottom: 1px solid; vertical-align: top; }
</style>"""


@dataclass(frozen=True)
class GraphExplorer:
    """A graph to walk through in a notebook; elsewhere its text.

    Attributes:
        picture: what is drawn.
        table: all nodes of the graph, one row each.
        costs: of the nodes that have one, by their names.
    """

    picture: GraphPicture
    table: Table
    costs: Mapping[str, NodeCost] = field(default_factory=dict, repr=False)

    @property
    def text(self) -> str:
        """The text twin: every node with its shape, dtype, module, source line and costs."""
        lines = aligned(self.table.headings, self.table.rows)
        return "\n".join([self.table.title, "", *lines, "", *self.table.notes])

    def __str__(self) -> str:
        return self.text

    def _repr_mimebundle_(
        self, include: Collection[str] | None = None, exclude: Collection[str] | None = None
    ) -> dict[str, str]:
        """What a notebook shows. Where the picture cannot be drawn, the table remains, with the reason."""
        bundle = {"text/plain": self.text}
        try:
            bundle["text/html"] = self.html()
        except PictureError as error:
            bundle["text/plain"] += f"\n\n{error}"
            bundle["text/html"] = Table("", notes=(str(error),)).html() + self.table.html()
        return choose_kinds(bundle, include, exclude)

    def html(self) -> str:
        """The picture, the table and the script.

        Raises:
            PictureError: the picture cannot be drawn.
        """
        # A name in a graph may hold what ends a script.
        boxes = json.dumps(self._boxes).replace("<", "\\u003c")
        return (
            f"<div>{self.picture.figure_html()}<details><summary>All nodes as a table</summary>{self.table.html()}"
            f"</details><script>({SCRIPT.read_text()})(document.currentScript.parentElement, {boxes})</script></div>"
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a page (`.html`) that needs nothing else and asks no other machine. Returns the path.

        Raises:
            ValueError: another suffix.
            PictureError: the picture cannot be drawn.
        """
        target = Path(path)
        if target.suffix != ".html":
            raise ValueError(f"cannot save a graph to walk through as {target.name!r}: its suffix must be .html")
        title = escape(self.table.title)
        with replacing(target) as temporary:
            page = f"{_HEAD}<title>{title}</title></head><body>{self.html()}</body></html>\n"
            temporary.write_text(page, encoding="utf-8")
        return target

    @cached_property
    def _boxes(self) -> dict[str, dict[str, Any]]:
        """By the title of each box in the SVG, the places of its nodes in the table, and what to say of them."""
        place = {name: number for number, (name, *_) in enumerate(self.table.rows)}
        found = {}
        for box in self.picture.scene.boxes:
            names = box.nodes or (box.name,)
            cost = sum((self.costs[name].cost for name in names if name in self.costs), Cost())
            figures = ", ".join(
                f"{figure} {heading}" for figure, heading in zip(_figures(cost), FIGURES[:3], strict=True)
            )
            about = box.name if len(names) == 1 else f"{box.name}: {len(names)} nodes, together {figures}"
            found[box_identifier(box.name)] = {"rows": [place[name] for name in names], "about": about}
        return found


def explore(
    graph: Captured | CapturedGraph | fx.GraphModule | torch.export.ExportedProgram,
    *,
    number: int = 0,
    title: str | None = None,
    collapse: Collapse = "auto",
    highlight: Iterable[fx.Node | str] = (),
    direction: Direction = "TB",
    parameters: Parameters = "show",
) -> GraphExplorer:
    """A graph to walk through in a notebook: zoom, search, and click a node (or press Enter on it) for what is known.

    Args:
        graph: what was captured, one of its partitions, a graph module or an exported program; it is not changed.
        number: which graph, from 0, of what was captured in several.
        title: as for `draw`, like the following.
        collapse: of a box that stands for several nodes all of them are listed.
        highlight: nodes to mark.
        direction: where the arrows lead.
        parameters: whether they are drawn.

    Raises:
        CaptureError: the graph is TorchScript's, which is no FX graph.
        IndexError: there are fewer graphs.
        TypeError, ValueError: as for `draw`.
    """
    notes: tuple[str, ...] = ()
    if isinstance(graph, Captured):
        count = len(graph.graphs)
        if not 0 <= number < count:
            raise IndexError(f"number is {number}, but there are {count} graphs, counted from 0.")
        if count > 1:
            notes = (f"graph {number} of {count}, counted from 0; explore(captured, number=…) shows the others.",)
        graph = graph.partitions[number]
    paths: Mapping[str, str] = {}
    states: Mapping[str, str] = {}
    if isinstance(graph, CapturedGraph):
        paths = {one.name: one.source for one in graph.inputs}
        states = captured_states(graph)
    elif isinstance(graph, torch.export.ExportedProgram):
        paths = {spec.arg.name: spec.target for spec in graph.graph_signature.input_specs if spec.target}
        states = exported_states(graph)
    picture = draw(
        graph, title=title, collapse=collapse, highlight=highlight, direction=direction, parameters=parameters
    )
    module = graph if isinstance(graph, fx.GraphModule) else graph.graph_module
    costs, why_not = _costs(module, {name: paths[name] for name, one in states.items() if one == "parameter"})
    rows = []
    for node, described in zip(module.graph.nodes, describe(module.graph, states), strict=True):
        held = str(node.target) if described.is_state and node.op == "get_attr" else ""
        path = paths.get(node.name) or held or ".".join(module_path(node)[0])
        source = source_line(node.meta.get("stack_trace"))
        words = (described.operation, described.arguments, described.shape, described.dtype, path)
        line = without_folders(source) if source else ""
        cost = costs.get(node.name)
        figures = (*_figures(cost.cost), format_bytes(cost.live_bytes)) if cost else ("",) * len(FIGURES)
        rows.append((node.name, *words, line, *figures))
    heading = picture.scene.title
    return GraphExplorer(
        picture,
        Table(heading, ("node", *WORDS, *FIGURES), rows, (*picture.scene.notes, *why_not, *notes), WORDS),
        costs,
    )


def _costs(module: fx.GraphModule, parameters: Mapping[str, str]) -> tuple[dict[str, NodeCost], tuple[str, ...]]:
    """The cost of each node that has one, and what to say of them."""
    try:
        analysis = analyze_graph(module, parameters)
    except ValueError as error:
        return {}, (f"No costs: {error}",)
    meaning = "alive: bytes of all values made by the graph that are alive while the node runs."
    return {node.name: node for node in analysis.nodes}, (*cost_notes(analysis), meaning)


def _figures(cost: Cost) -> tuple[str, str, str]:
    flops = format_count(cost.flops) + ("+?" if cost.uncounted else "")
    return flops, format_bytes(cost.bytes_read), format_bytes(cost.bytes_written)
