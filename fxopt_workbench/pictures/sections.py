"""What a collapsed drawing keeps together and apart: the stages of an architecture and its repeated blocks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from torch import fx

from fxopt_core.graphs.names import is_operation
from fxopt_workbench.structure import Repeat, find_repeats, find_stages, values_in_meta
from fxopt_workbench.structure.stages import UNUSED


@dataclass(frozen=True)
class Section:
    """Where a node belongs.

    Attributes:
        stage: name of its stage; empty where there is but one.
        repeat: the repeated block of which it is part of a copy; `None` where it is not, or where blocks are expanded.
        strays: of a repeated block, how many nodes belong to other stages, and to which.
    """

    stage: str = ""
    repeat: Repeat | None = None
    strays: str = ""


NOWHERE = Section()

LEAST_SAVED = 20
"""A repeated block gets a box of its own if it saves at least this part of all calls: one in twenty."""


def sections(graph: fx.Graph, highlight: frozenset[str], *, expand: bool) -> dict[str, Section]:
    """The section of each call by its name. What no output depends on lies where the call before it does.

    Args:
        graph: of a whole model, with values in its `meta`; without values there are no stages.
        highlight: names of nodes; a repeated block that holds one is left as it is.
        expand: whether all repeated blocks are left as they are.
    """
    values = values_in_meta(graph)
    whole = any(node.op == "output" for node in graph.nodes)
    stages = [stage for stage in find_stages(graph, values) if stage.name != UNUSED] if whole else []
    homes = {node: stage.name for stage in stages for node in stage.nodes} if len(stages) > 1 else {}
    least = sum(map(is_operation, graph.nodes)) / LEAST_SAVED
    repeats = [] if expand else find_repeats(graph, values)
    blocks: dict[fx.Node, Section] = {}
    for repeat in repeats:
        members = [node for copy in repeat.copies for node in copy]
        small = len(members) - len(repeat.copies[0]) < least
        if not repeat.same or small or any(node.name in highlight for node in members):
            continue
        lies_in = Counter(homes.get(node, "") for node in members)
        (stage, _), *others = lies_in.most_common()
        strays = ", ".join(f"{count} nodes of {name}" for name, count in others if name)
        blocks |= dict.fromkeys(members, Section(stage, repeat, strays))
    found: dict[str, Section] = {}
    stage = ""
    for node in graph.nodes:
        if is_operation(node):
            stage = homes.get(node, stage)
            found[node.name] = blocks.get(node) or Section(stage)
    return found
