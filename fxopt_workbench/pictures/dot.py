"""From a scene to DOT, the language of Graphviz."""

from __future__ import annotations

import textwrap
from itertools import pairwise

import graphviz

from fxopt_workbench.pictures.scene import Box, Scene
from fxopt_workbench.pictures.style import (
    BOLD_FONT,
    BORDER_COLOUR,
    FONT,
    HIGHLIGHT_COLOUR,
    OTHER_STAGE,
    QUIET_COLOUR,
    STAGES,
    STYLES,
    TEXT_COLOUR,
)

_LARGE = 300
"""From this many boxes on, straight arrows and a bounded layout keep drawing within seconds."""


def scene_to_dot(scene: Scene, direction: str) -> str:
    """DOT source of a scene, the same for the same scene."""
    graph = graphviz.Digraph(
        name="graph",
        graph_attr={
            "rankdir": direction,
            "label": _text(scene.title),
            "labelloc": "t",
            "fontname": BOLD_FONT,
            "fontcolor": TEXT_COLOUR,
            "bgcolor": "white",
            "nodesep": "0.2",
            "ranksep": "0.3",
            "tooltip": _text(scene.title),
        },
        node_attr={
            "fontname": FONT,
            "fontsize": "11",
            "fontcolor": TEXT_COLOUR,
            "color": BORDER_COLOUR,
            "margin": "0.1,0.04",
            "height": "0.3",
        },
        edge_attr={"color": BORDER_COLOUR, "fontname": FONT, "fontsize": "10", "arrowsize": "0.7"},
    )
    if len(scene.boxes) > _LARGE:
        graph.attr(splines="line", nslimit="1", nslimit1="1", mclimit="0.2")
    _legend(graph, scene)
    kinds = {}
    for box in scene.boxes:
        kinds[box.name] = box.kind
        with graph.subgraph(name=f"cluster_stage_{box.stage}" if box.stage else None) as frame:
            if box.stage:
                _frame(frame, box.stage)
            frame.node(
                box_identifier(box.name), label=_text("\n".join(box.lines)), tooltip=_text(box.name), **_look(box)
            )
    for arrow in (arrow for arrow in scene.arrows if arrow.drawn):
        quiet = {"color": QUIET_COLOUR, "style": "dashed"} if _is_quiet(kinds[arrow.source]) else {}
        count = {"label": f" {arrow.values}"} if arrow.values > 1 else {}
        graph.edge(box_identifier(arrow.source), box_identifier(arrow.target), **quiet, **count)
    return graph.source


def _frame(frame: graphviz.Digraph, stage: str) -> None:
    colour = STAGES.get(stage, OTHER_STAGE)
    # Graphviz sets the label at the very edge.
    frame.attr(
        label=_text(f"\N{EM SPACE}{stage}"), labeljust="l", fontname=BOLD_FONT, fontsize="16", fontcolor=TEXT_COLOUR
    )
    frame.attr(style="filled,rounded", fillcolor=colour, color=QUIET_COLOUR, margin="14", tooltip=_text(stage))


def _is_quiet(kind: str) -> bool:
    return STYLES[kind].border == "dashed"


def _look(box: Box) -> dict[str, str]:
    style = STYLES[box.kind]
    look = {"shape": style.shape, "style": f"filled,{style.border}", "fillcolor": style.fill}
    if _is_quiet(box.kind):
        look |= {"color": QUIET_COLOUR, "fontsize": "10"}
    room = {"hexagon": "0,0", "ellipse": "0,0", "octagon": "0,0", "trapezium": "0,0", "box3d": "0.18,0.08"}
    room |= {"note": "0.14,0.06"}
    # Slanted and round sides leave room around the text by themselves; a drawn depth takes some away.
    if style.shape in room:
        look["margin"] = room[style.shape]
    elif box.highlighted:
        look["margin"] = "0.24,0.1"
    if box.highlighted:
        look |= {"peripheries": "2", "penwidth": "2.5", "color": HIGHLIGHT_COLOUR, "fontname": BOLD_FONT}
    return look


def _legend(graph: graphviz.Digraph, scene: Scene) -> None:
    """A column with one sample of every kind that the scene contains, and what the picture leaves out."""
    present = [kind for kind in STYLES if any(box.kind == kind for box in scene.boxes)]
    samples = [Box(f"legend {kind}", kind, (STYLES[kind].meaning,)) for kind in present]
    if any(box.highlighted for box in scene.boxes):
        samples.append(Box("legend highlight", "function", ("highlighted",), highlighted=True))
    with graph.subgraph(name="cluster_legend") as legend:
        legend.attr(label="Legend", fontname=BOLD_FONT, fontsize="11", color=QUIET_COLOUR, style="dashed")
        for sample in samples:
            legend.node(sample.name, label=_text("\n".join(sample.lines)), tooltip="legend", **_look(sample))
        names = [sample.name for sample in samples]
        notes = [note for note in scene.notes if not note.startswith(("*", "?"))]
        if notes:
            names.append("legend notes")
            text = "\n".join(line for note in notes for line in textwrap.wrap(note, 26))
            legend.node(names[-1], label=_text(text), shape="plaintext", fontsize="10", tooltip="notes")
        for above, below in pairwise(names):
            legend.edge(above, below, style="invis")


def box_identifier(name: str) -> str:
    """The name of a box in DOT, which is the title of its group in the SVG."""
    # graphviz reads a colon in an edge's end as the start of a port.
    return name.replace(":", " ")


def _text(text: str) -> str:
    # What stands in angle brackets would else be read as HTML.
    return graphviz.nohtml("\\n".join(graphviz.escape(line) for line in text.split("\n")))
