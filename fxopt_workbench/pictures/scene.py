"""A drawing before it has a form: boxes, the arrows between them, and the table that says the same in text."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from fxopt_workbench.pictures.nodes import (
    UNKNOWN,
    NodeDescription,
    count_states,
    readable_parameter_name,
    states_in_words,
)

LONGEST_LINE = 34
"""Characters in one line of a label; what is longer is cut in the middle (the table keeps it whole)."""


@dataclass(frozen=True)
class Box:
    """One box of a drawing.

    Attributes:
        name: unique; for a single node the node's name.
        kind: a key of `fxopt_workbench.pictures.style.STYLES`.
        lines: the label, from top to bottom.
        highlighted: whether it is drawn with a double border and a bold label.
        nodes: names of the nodes that it stands for; empty for a single node, which has the box's name.
        stage: the frame that it is drawn in; empty for none.
    """

    name: str
    kind: str
    lines: tuple[str, ...]
    highlighted: bool = False
    nodes: tuple[str, ...] = ()
    stage: str = ""


@dataclass(frozen=True)
class Arrow:
    """An arrow from the box `source` to the box `target` that carries `values` different values.

    One that is not `drawn` is named in the label of its target instead.
    """

    source: str
    target: str
    values: int = 1
    drawn: bool = True


@dataclass(frozen=True)
class Scene:
    """Everything that is drawn.

    Attributes:
        title: heading of the picture.
        notes: what the picture leaves out, one sentence each.
        boxes: in the order of the graph.
        arrows: in the order of the graph.
        header: names of the table's columns.
        rows: the table, one row a box (and one for each parameter, buffer and constant that is not drawn).
        summary: one sentence for a reader who sees no picture.
    """

    title: str
    notes: tuple[str, ...]
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    summary: str


def shorten(text: str, longest: int = LONGEST_LINE) -> str:
    """`text` cut in the middle to at most `longest` characters."""
    if len(text) <= longest:
        return text
    head = (longest - 1) // 2
    return f"{text[:head]}…{text[-(longest - 1 - head) :]}"


def node_scene(nodes: list[NodeDescription], title: str, highlight: frozenset[str], show_states: bool) -> Scene:
    """A drawing with one box a node; what the model holds is drawn or only listed in the table."""
    drawn = [node for node in nodes if show_states or not node.is_state]
    names = {node.name for node in drawn}
    boxes = tuple(Box(node.name, node.kind, _label(node), node.name in highlight) for node in drawn)
    arrows = tuple(Arrow(source, node.name) for node in drawn for source in node.inputs if source in names)
    rows = tuple(
        (
            ("* " if node.name in highlight else "") + readable_parameter_name(node.name),
            node.operation,
            node.arguments,
            node.shape,
            node.dtype,
        )
        for node in nodes
    )
    notes = []
    if len(drawn) < len(nodes):
        notes.append(not_drawn(nodes))
    if highlight:
        notes.append("* highlighted")
    if any(UNKNOWN in (node.shape, node.dtype) for node in nodes):
        notes.append(f"{UNKNOWN} the graph does not carry this shape or dtype.")
    return Scene(
        title,
        tuple(notes),
        boxes,
        arrows,
        ("node", "operation", "inputs", "shape", "dtype"),
        rows,
        summarise(nodes, title, highlight),
    )


def not_drawn(nodes: list[NodeDescription]) -> str:
    """The sentence that says how many parameters, buffers and constants a drawing leaves out."""
    counts = count_states(nodes)
    return f"{states_in_words(counts)} {'is' if sum(counts.values()) == 1 else 'are'} not drawn."


def _label(node: NodeDescription) -> tuple[str, ...]:
    name = readable_parameter_name(node.name) if node.kind == node.word else node.operation.partition(":")[2]
    # The end of a parameter's path tells it from its neighbours.
    name = f"…{name[1 - LONGEST_LINE :]}" if node.is_state and len(name) > LONGEST_LINE else shorten(name)
    kind = f"{node.dtype}{node.shape}"
    last = () if UNKNOWN in (node.shape, node.dtype) or not kind else (shorten(kind),)
    match node.kind:
        case _ if node.is_state or node.kind == "input":
            first: tuple[str, ...] = (node.word, name)
        case "output":
            first = ("output",)
        case "attribute":
            first = ("attribute", shorten(node.operation.partition(":")[2]))
        case "module":
            first = (shorten(f"module {node.operation}"), name)
        case _:
            first = (shorten(node.operation), name)
    # A node named after its operation says nothing new in a second line.
    return tuple(dict.fromkeys(first)) + last


def summarise(nodes: list[NodeDescription], title: str, highlight: frozenset[str]) -> str:
    """One sentence: how many nodes of which kind, and the most frequent operations."""
    kinds = Counter(node.word for node in nodes)
    plural = ", ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in kinds.items())
    operations = most_frequent(nodes, 5)
    text = f"{title}: {len(nodes)} nodes ({plural})"
    if operations:
        text += f"; most frequent: {operations}"
    if highlight:
        named = sorted(highlight)
        text += f"; highlighted: {', '.join(named[:5])}" + (" and others" if len(named) > 5 else "")
    return text + "."


def most_frequent(nodes: list[NodeDescription], most: int) -> str:
    """The `most` most frequent operations, such as `linear ×6, add ×3`; ties in the order of the graph."""
    counts = Counter(node.operation for node in nodes if node.kind in ("function", "method", "module"))
    text = ", ".join(f"{operation} ×{count}" for operation, count in counts.most_common(most))
    return f"{text}, …" if len(counts) > most else text
