"""The stages and repeated blocks of a model and what each costs: as tables, side by side, and as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from fxopt_core.benchmark.report import format_bytes
from fxopt_core.costs.counting import Cost
from fxopt_workbench.tables import NONE, Sheet, format_count

if TYPE_CHECKING:
    from fxopt_core.costs.report import Analysis, Group


MOST_SHAPES = 3
"""In a table; a pyramid gives as many levels."""


@dataclass(frozen=True)
class Part:
    """A stage in words. For the words see `fxopt_workbench.structure.Stage`.

    Attributes:
        name: such as `backbone`.
        why: what in the graph says so.
        gives: shapes of the values that other stages or the outputs read.
    """

    name: str
    why: str
    gives: tuple[str, ...]


@dataclass(frozen=True)
class Block:
    """A block that comes several times.

    Attributes:
        name: by the modules that it comes from, such as `encoder.layer.0 to encoder.layer.11 (BertLayer)`.
        copies: names of the nodes of each.
        same: whether the copies are the same; else they do the same operations, but differ in attributes or shapes.
        difference: in what they differ first; or, of the same ones, in what a next block of the same operations does.
    """

    name: str
    copies: tuple[tuple[str, ...], ...]
    same: bool
    difference: str


def block_sheets(analysis: Analysis) -> list[Sheet]:
    """A table with a row for each repeated block and what its first copy costs; none where nothing is repeated."""
    rows = []
    for block, costs, parameters in _block_costs(analysis):
        figures = (format_count(parameters), format_count(costs.flops), format_bytes(costs.bytes))
        rows.append((block.name, f"×{len(block.copies)}", str(len(block.copies[0])), *figures))
    notes = [
        f"{block.name}: not the same, but alike; {block.difference}."
        if not block.same
        else f"{block.name}: another such block follows, but {block.difference}."
        for block in analysis.blocks
        if block.difference
    ]
    headings = ("block", "times", "nodes each", "parameters each", "FLOPs each", "bytes each")
    title = "Repeated blocks, found by operations, attributes, shapes and edges"
    return [Sheet(title, headings, rows, tuple(notes))] if rows else []


def block_document(analysis: Analysis) -> list[dict[str, Any]]:
    """The same figures, exact, as JSON values."""
    return [
        {
            **asdict(block),
            "times": len(block.copies),
            "parameters": parameters,
            "flops": costs.flops,
            "bytes": costs.bytes,
        }
        for block, costs, parameters in _block_costs(analysis)
    ]


def _block_costs(analysis: Analysis) -> list[tuple[Block, Cost, int]]:
    from fxopt_core.costs.report import Group

    nodes = {node.name: node for node in analysis.nodes}
    found = []
    for block in analysis.blocks:
        group = Group(block.name, tuple(nodes[name] for name in block.copies[0]))
        found.append((block, group.cost, group.parameters(analysis.parameter_elements)))
    return found


def stage_sheet(analysis: Analysis) -> Sheet:
    """A row for each stage."""
    from fxopt_core.costs.report import HEADINGS

    rows = [(group.name, *group.cells(analysis.parameter_elements), given) for group, given in _rows(analysis)]
    notes = tuple(f"{part.name}: {part.why}" for part in analysis.parts)
    return Sheet("Stages, found from operators and shapes alone", ("stage", *HEADINGS, "gives"), rows, notes)


def stage_comparison(analyses: Mapping[str, Analysis]) -> Sheet:
    """A row for each stage of each model, with its part of the model's FLOPs."""
    from fxopt_core.costs.report import HEADINGS

    rows = []
    for name, one in analyses.items():
        for group, given in _rows(one):
            share = f"{group.cost.flops / one.total.flops:.0%}" if one.total.flops else NONE
            rows.append((f"{name}: {group.name}", *group.cells(one.parameter_elements), share, given))
    return Sheet("Stages", ("model: stage", *HEADINGS, "of FLOPs", "gives"), rows)


def stage_document(analysis: Analysis) -> list[dict[str, Any]]:
    """The same figures, exact, as JSON values."""
    groups = {group.name: group for group in analysis.grouped("stage")}
    return [
        {
            "stage": part.name,
            "why": part.why,
            "gives": list(part.gives),
            "nodes": [node.name for node in groups[part.name].nodes],
            "parameters": groups[part.name].parameters(analysis.parameter_elements),
            "flops": groups[part.name].cost.flops,
            "bytes_read": groups[part.name].cost.bytes_read,
            "bytes_written": groups[part.name].cost.bytes_written,
        }
        for part in analysis.parts
    ]


def _rows(analysis: Analysis) -> list[tuple[Group, str]]:
    groups = {group.name: group for group in analysis.grouped("stage")}
    given = {
        part.name: " ".join(part.gives[:MOST_SHAPES]) + " …" * (len(part.gives) > MOST_SHAPES)
        for part in analysis.parts
    }
    return [(groups[part.name], given[part.name]) for part in analysis.parts if groups[part.name].cost.bytes]
