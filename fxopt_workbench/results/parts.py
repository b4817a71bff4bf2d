"""The stages and repeated blocks of a model and what each costs: as tables, side by side, and as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from fxopt_core.costs import Cost
from fxopt_workbench.pictures.nodes import shape_and_dtype
from fxopt_workbench.results.costs import HEADINGS, cells
from fxopt_workbench.structure import Block, Part, Structure
from fxopt_workbench.structure.groups import Group
from fxopt_workbench.tables import NONE, Table, format_bytes, format_count

MOST_SHAPES = 3
"""In a table; a pyramid gives as many levels."""


def shapes(part: Part) -> tuple[str, ...]:
    """The shapes of the values that a stage gives, as text."""
    return tuple(shape_and_dtype(value)[0] for value in part.values)


def block_tables(structure: Structure) -> list[Table]:
    """A table with a row for each repeated block and what its first copy costs; none where nothing is repeated."""
    rows = []
    for block, costs, parameters in _block_costs(structure):
        figures = (format_count(parameters), format_count(costs.flops), format_bytes(costs.bytes))
        rows.append((block.name, f"×{len(block.copies)}", str(len(block.copies[0])), *figures))
    notes = [
        f"{block.name}: not the same, but alike; {block.difference}."
        if not block.same
        else f"{block.name}: another such block follows, but {block.difference}."
        for block in structure.blocks
        if block.difference
    ]
    headings = ("block", "times", "nodes each", "parameters each", "FLOPs each", "bytes each")
    title = "Repeated blocks, found by operations, attributes, shapes and edges"
    return [Table(title, headings, rows, tuple(notes))] if rows else []


def block_document(structure: Structure) -> list[dict[str, Any]]:
    """The same figures, exact, as JSON values."""
    return [
        {
            **asdict(block),
            "times": len(block.copies),
            "parameters": parameters,
            "flops": costs.flops,
            "bytes": costs.bytes,
        }
        for block, costs, parameters in _block_costs(structure)
    ]


def _block_costs(structure: Structure) -> list[tuple[Block, Cost, int]]:
    nodes = {node.name: node for node in structure.analysis.nodes}
    found = []
    for block in structure.blocks:
        group = Group(block.name, tuple(nodes[name] for name in block.copies[0]))
        found.append((block, group.cost, group.parameters(structure.analysis.parameter_elements)))
    return found


def stage_table(structure: Structure) -> Table:
    """A row for each stage."""
    rows = [
        (group.name, *cells(group, structure.analysis.parameter_elements), given) for group, given in _rows(structure)
    ]
    notes = tuple(f"{part.name}: {part.why}" for part in structure.parts)
    return Table("Stages, found from operators and shapes alone", ("stage", *HEADINGS, "gives"), rows, notes)


def stage_comparison(structures: Mapping[str, Structure]) -> Table:
    """A row for each stage of each model, with its part of the model's FLOPs."""
    rows = []
    for name, one in structures.items():
        for group, given in _rows(one):
            share = f"{group.cost.flops / one.analysis.total.flops:.0%}" if one.analysis.total.flops else NONE
            rows.append((f"{name}: {group.name}", *cells(group, one.analysis.parameter_elements), share, given))
    return Table("Stages", ("model: stage", *HEADINGS, "of FLOPs", "gives"), rows)


def stage_document(structure: Structure) -> list[dict[str, Any]]:
    """The same figures, exact, as JSON values."""
    groups = {group.name: group for group in structure.stages()}
    return [
        {
            "stage": part.name,
            "why": part.why,
            "gives": list(shapes(part)),
            "nodes": [node.name for node in groups[part.name].nodes],
            "parameters": groups[part.name].parameters(structure.analysis.parameter_elements),
            "flops": groups[part.name].cost.flops,
            "bytes_read": groups[part.name].cost.bytes_read,
            "bytes_written": groups[part.name].cost.bytes_written,
        }
        for part in structure.parts
    ]


def _rows(structure: Structure) -> list[tuple[Group, str]]:
    groups = {group.name: group for group in structure.stages()}
    given = {
        part.name: " ".join(shapes(part)[:MOST_SHAPES]) + " …" * (len(part.values) > MOST_SHAPES)
        for part in structure.parts
    }
    return [(groups[part.name], given[part.name]) for part in structure.parts if groups[part.name].cost.bytes]
