"""The stages of a model and what each costs: as a table, side by side for several models, and as JSON values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fxopt_core.analysis.tables import NONE, Sheet

if TYPE_CHECKING:
    from fxopt_core.analysis.report import Analysis, Group


@dataclass(frozen=True)
class Part:
    """A stage in words. For the words see `fxopt_core.structure.Stage`.

    Attributes:
        name: such as `backbone`.
        why: what in the graph says so.
        gives: shapes of the values that other stages or the outputs read.
    """

    name: str
    why: str
    gives: tuple[str, ...]


def stage_sheet(analysis: Analysis) -> Sheet:
    """A row for each stage."""
    from fxopt_core.analysis.report import HEADINGS

    rows = [(group.name, *group.cells(analysis.parameter_elements), given) for group, given in _rows(analysis)]
    notes = tuple(f"{part.name}: {part.why}" for part in analysis.parts)
    return Sheet("Stages, found from operators and shapes alone", ("stage", *HEADINGS, "gives"), rows, notes)


def stage_comparison(analyses: Mapping[str, Analysis]) -> Sheet:
    """A row for each stage of each model, with its part of the model's FLOPs."""
    from fxopt_core.analysis.report import HEADINGS

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
    return [(groups[part.name], " ".join(part.gives)) for part in analysis.parts if groups[part.name].cost.bytes]
