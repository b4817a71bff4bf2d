"""The stages and repeated blocks of a model whose costs are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from torch import fx

from fxopt_core.costs import Analysis
from fxopt_core.graphs.module_paths import Path, module_path
from fxopt_workbench.structure.groups import Group
from fxopt_workbench.structure.repeats import find_repeats
from fxopt_workbench.structure.stages import find_stages


@dataclass(frozen=True)
class Part:
    """A stage in words. For the words see `fxopt_workbench.structure.Stage`.

    Attributes:
        name: such as `backbone`.
        why: what in the graph says so.
        values: those that other stages or the outputs read, on fake tensors.
    """

    name: str
    why: str
    values: tuple[Any, ...]


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


@dataclass(frozen=True)
class Structure:
    """What a model is made of, beside what it costs.

    Attributes:
        analysis: its costs.
        parts: the stages in order.
        blocks: the blocks that come several times, in order.
        stage_of: the stage of each node, by names.
    """

    analysis: Analysis
    parts: tuple[Part, ...]
    blocks: tuple[Block, ...]
    stage_of: Mapping[str, str]

    def stages(self) -> list[Group]:
        """The nodes of each stage, in the order of the graph."""
        groups: dict[str, list[Any]] = {}
        for node in self.analysis.nodes:
            groups.setdefault(self.stage_of[node.name], []).append(node)
        return [Group(name, tuple(members)) for name, members in groups.items()]


def structure_of(analysis: Analysis) -> Structure:
    """The stages and repeated blocks of a graph, found from its shape alone."""
    graph, values = analysis.graph, analysis.values
    stages = find_stages(graph, values)
    parts = (Part(one.name, one.why, tuple(values[node] for node in one.gives)) for one in stages)
    blocks = (
        Block(block_name(one.copies), tuple(tuple(map(str, copy)) for copy in one.copies), one.same, one.difference)
        for one in find_repeats(graph, values)
    )
    homes = {node.name: stage.name for stage in stages for node in stage.nodes}
    return Structure(analysis, tuple(parts), tuple(blocks), homes)


def block_name(copies: Sequence[Sequence[fx.Node]]) -> str:
    """What to call repeated blocks by the modules of their nodes, such as `encoder.layer.0–11 (BertLayer)`.

    Where the modules do not tell them apart, it is the first node and the last.
    """
    first, last = (_shared([module_path(node)[0] for node in copies[place]]) for place in (0, -1))
    if first == last:
        return f"{copies[0][0].name} to {copies[-1][-1].name}"
    differs = len(_shared([first, last]))
    start, end = ".".join(first[: differs + 1]), ".".join(last[differs : differs + 1])
    found = module_path(copies[0][0])[1].get(first[: differs + 1])
    return f"{start}–{end}" + (f" ({found})" if found else "")


def _shared(paths: Sequence[Path]) -> Path:
    """What all begin with."""
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*paths, strict=False))
    return tuple(column[0] for column in columns)
