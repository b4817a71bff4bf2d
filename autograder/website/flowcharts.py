"""Flowcharts of guides, drawn without a browser: the few lines of Mermaid that our guides use, through Graphviz."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import graphviz

from fxopt_workbench.files import write_whole
from fxopt_workbench.pictures.rendering import render_svg

_BLOCK = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)

DRAWN = "A flowchart, which the text below it puts into words"
"""What a screen reader says of a drawn flowchart. Guides have to keep the promise."""

_GROUP = re.compile(r'subgraph (\w+)\["(.+)"\]')


class FlowchartError(ValueError):
    """A flowchart says something that this reader does not know; the message quotes the line."""


def with_drawn_flowcharts(text: str, beside: Path) -> str:
    """The Markdown with each Mermaid flowchart replaced by a picture, written beside the page.

    Args:
        text: of a guide.
        beside: path of the page without suffix; pictures are called `NAME-1.svg` and so on.

    Raises:
        FlowchartError: a line is neither an arrow, nor the beginning or end of a group.
    """
    pieces, end = [], 0
    for number, found in enumerate(_BLOCK.finditer(text), start=1):
        picture = beside.with_name(f"{beside.name}-{number}.svg")
        write_whole(picture, render_svg(read_flowchart(found[1]).source, DRAWN))
        pieces += [text[end : found.start()], f"![{DRAWN}]({picture.name})"]
        end = found.end()
    return "".join([*pieces, text[end:]])


def read_flowchart(lines: str) -> graphviz.Digraph:
    """A drawing of `flowchart BT` or `flowchart TB` with groups and chains of arrows, `a & b --> c` among them.

    Raises:
        FlowchartError: as above.
    """
    first, *rest = [line.strip() for line in lines.strip().splitlines()]
    if first not in ("flowchart BT", "flowchart TB"):
        raise FlowchartError(f"a flowchart begins with `flowchart BT` or `flowchart TB`, not with {first!r}")
    drawing = graphviz.Digraph(
        graph_attr={"rankdir": first[-2:], "compound": "true", "bgcolor": "white", "fontname": "Helvetica"},
        node_attr={"shape": "box", "style": "rounded", "fontname": "Helvetica", "fontsize": "11"},
    )
    # Groups are drawn last, when every node that stands for one of them is known.
    groups: dict[str, tuple[str, list[str]]] = {}
    outside: list[str] = []
    inside: list[str] | None = None
    for line in rest:
        if found := _GROUP.fullmatch(line):
            inside = []
            groups[found[1]] = (found[2], inside)
        elif line == "end":
            inside = None
        elif "-->" in line:
            (outside if inside is None else inside).append(line)
        else:
            raise FlowchartError(f"neither an arrow nor a group: {line!r}")
    members: dict[str, list[str]] = {}
    for name, (title, chains) in groups.items():
        with drawing.subgraph(name=f"cluster_{name}") as group:
            group.attr(label=title, style="rounded", color="#767676")
            members[name] = _draw_chains(group, chains, {})
    _draw_chains(drawing, outside, members)
    return drawing


def _draw_chains(drawing: graphviz.Digraph, chains: list[str], groups: dict[str, list[str]]) -> list[str]:
    """Draw the arrows of some lines; the names in them, in order. An arrow to a group ends at its border."""
    names: list[str] = []
    for chain in chains:
        steps = [[name.strip() for name in step.split("&")] for step in chain.split("-->")]
        names += [name for step in steps for name in step]
        for sources, targets in pairwise(steps):
            for source in sources:
                for target in targets:
                    # Groups stand side by side: an arrow between two of them lifts neither.
                    borders = {"constraint": "false"} if {source, target} & set(groups) else {}
                    if source in groups:
                        borders["ltail"] = f"cluster_{source}"
                    if target in groups:
                        borders["lhead"] = f"cluster_{target}"
                    drawing.edge(groups.get(source, [source])[-1], groups.get(target, [target])[0], **borders)
    for name in dict.fromkeys(names):
        if name not in groups:
            drawing.node(name)
    return list(dict.fromkeys(names))
