"""How each kind of node looks: a shape, a word and a colour, so that colour is never the only sign."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """The look of one kind of node.

    Attributes:
        shape: Graphviz shape; no two kinds share both shape and border.
        fill: background colour; every one gives `TEXT_COLOUR` a contrast above 10:1.
        border: Graphviz border style (`solid` or `dashed`).
        meaning: what the legend says.
    """

    shape: str
    fill: str
    border: str
    meaning: str


TEXT_COLOUR = "#1a1a1a"
BORDER_COLOUR = "#4d4d4d"
QUIET_COLOUR = "#767676"
"""Borders and arrows of what the model holds and hands in as inputs; 4.5:1 on white."""
HIGHLIGHT_COLOUR = "#b34700"
"""Vermilion, darkened to 5.5:1 on white; told from the other borders by its width and doubling as well."""
FONT = "Helvetica"
BOLD_FONT = "Helvetica-Bold"

# Fills are tints of the colour-blind-safe palette of Okabe and Ito (https://jfly.uni-koeln.de/color/).
STYLES: dict[str, Style] = {
    "input": Style("ellipse", "#bfe8da", "solid", "input"),
    "parameter": Style("note", "#f7f7f7", "dashed", "parameter"),
    "buffer": Style("cylinder", "#fdf8d2", "dashed", "buffer"),
    "constant": Style("octagon", "#f1ece4", "dashed", "constant"),
    "object": Style("trapezium", "#ececec", "dashed", "object"),
    "get_attr parameter": Style("note", "#f7f7f7", "solid", "get_attr: parameter"),
    "get_attr buffer": Style("cylinder", "#fdf8d2", "solid", "get_attr: buffer"),
    "get_attr constant": Style("octagon", "#f1ece4", "solid", "get_attr: constant"),
    "get_attr object": Style("trapezium", "#ececec", "solid", "get_attr: object"),
    "attribute": Style("cds", "#fbf3a8", "solid", "get_attr"),
    "function": Style("box", "#cfe6f6", "solid", "call_function"),
    "method": Style("hexagon", "#f3d9e7", "solid", "call_method"),
    "module": Style("box3d", "#f8dfb0", "solid", "call_module"),
    "output": Style("invhouse", "#ffd0b0", "solid", "output"),
    "group": Style("folder", "#e3e9f1", "solid", "several nodes"),
    "block": Style("component", "#d9cdf0", "solid", "repeated block"),
}
"""One row a kind of node, in the order of the legend. What a model holds has one shape for each kind, dashed where it
is handed in like an input, and solid where the graph reads it from its module."""

STAGES = {
    "backbone": "#eaf4fb",
    "neck": "#fdf3dc",
    "transformer": "#f3eefb",
    "head": "#fbe9e1",
}
"""Background of the frame around each stage, whose name stands in its corner."""
OTHER_STAGE = "#f2f2f2"
