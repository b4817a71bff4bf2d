"""Several models side by side: what each costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fxopt_core.costs import Analysis
    from fxopt_workbench.tables import Table
    from fxopt_workbench.zoo import ZooModel


def analyze_model(
    name: str, dtype: str = "float32", inputs: Sequence[str] | None = None, *, trust: bool = False
) -> Analysis:
    """The costs of a model of the zoo, or of one's own, which is built without weights.

    Args:
        name: as for `zoo.build`.
        dtype: of floating-point weights and inputs.
        inputs: for a model in a file.
        trust: for a model in a file.

    Raises:
        ValueError: there is no such model, or its sizes depend on data.
        CaptureError: it cannot be captured.
    """
    return build_and_analyze(name, dtype, inputs, trust=trust)[1]


def build_and_analyze(
    name: str, dtype: str = "float32", inputs: Sequence[str] | None = None, *, trust: bool = False
) -> tuple[ZooModel, Analysis]:
    """The model, built without weights, and its costs; takes and raises what `analyze_model` does."""
    import torch

    from fxopt_workbench import zoo
    from fxopt_workbench.structure.model_costs import analyze

    chosen = zoo.build(name, "meta", getattr(torch, dtype), inputs=inputs or (), trust=trust)
    return chosen, analyze(chosen.model, chosen.example_inputs)


def comparison(analyses: dict[str, Analysis]) -> Table:
    """A row for each model."""
    from fxopt_workbench.results.costs import HEADINGS, cells
    from fxopt_workbench.structure.groups import Group
    from fxopt_workbench.tables import Table, format_bytes

    rows = [
        (
            name,
            *cells(Group(name, one.nodes), one.parameter_elements),
            format_bytes(one.held_bytes),
            format_bytes(one.peak.live_bytes),
        )
        for name, one in analyses.items()
    ]
    notes = (
        "A multiply-add counts as two FLOPs; only matrix products, convolutions and attention count. held: parameters, "
        "buffers and inputs; peak: most bytes of values alive at once.",
    )
    return Table("Models", ("model", *HEADINGS, "held", "peak"), rows, notes)


def comparison_document(analyses: dict[str, Analysis]) -> list[dict[str, Any]]:
    """The same figures, exact, as JSON values."""
    from fxopt_workbench.results.parts import block_document, stage_document
    from fxopt_workbench.structure import structure_of

    return [
        {
            "model": name,
            "nodes": len(one.nodes),
            "parameters": one.parameters,
            "flops": one.total.flops,
            "uncounted": list(one.total.uncounted),
            "bytes_read": one.total.bytes_read,
            "bytes_written": one.total.bytes_written,
            "held_bytes": one.held_bytes,
            "peak_bytes": one.peak.live_bytes,
            "stages": stage_document(structure_of(one)),
            "blocks": block_document(structure_of(one)),
        }
        for name, one in analyses.items()
    ]
