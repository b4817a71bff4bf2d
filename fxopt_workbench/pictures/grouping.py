"""Drawing a large graph with few boxes: neighbouring nodes of one module become one box.

Boxes are runs of consecutive nodes in the order of the graph. That order is topological, so no arrow can
lead backwards, whatever the runs are; a module whose nodes lie apart becomes several boxes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import groupby

from torch import fx

from fxopt_core.graphs.module_paths import Path, module_path
from fxopt_workbench.pictures.nodes import UNKNOWN, NodeDescription, count_states, states_in_words
from fxopt_workbench.pictures.scene import LONGEST_LINE, Arrow, Box, Scene, most_frequent, not_drawn, shorten, summarise
from fxopt_workbench.pictures.sections import NOWHERE, Section, sections
from fxopt_workbench.structure import block_name

MOST_BOXES = 60
"""A drawing with more boxes than this is no longer read as a whole."""

MOST_FRAMED = 36
"""The same where stages are framed: they are to be seen at a glance."""

MOST_INPUTS = 8
"""More inputs than this share one box."""

MOST_ARROWS = 6
"""A box that more boxes than this read gets one arrow; the other boxes name it in their labels."""


@dataclass(frozen=True)
class _Group:
    kind: str
    name: str
    nodes: list[NodeDescription]
    section: Section = NOWHERE


@dataclass(frozen=True)
class _Member:
    description: NodeDescription
    path: Path
    classes: dict[Path, str]
    section: Section


def grouped_scene(
    graph: fx.Graph, nodes: list[NodeDescription], title: str, highlight: frozenset[str], *, expand: bool = False
) -> Scene:
    """A drawing of at most 60 boxes, each standing for consecutive nodes of one module or neighbourhood, or for a block
    that is repeated, unless `expand`. Very many stages and blocks may make it more."""
    inputs = [node for node in nodes if node.kind == "input"]
    outputs = [node for node in nodes if node.kind == "output"]
    groups: list[_Group] = []
    if len(inputs) > MOST_INPUTS:
        groups.append(_Group("group", f"{len(inputs)} inputs", inputs))
    else:
        groups += [_Group("input", f"input {node.name}", [node]) for node in inputs]
    members = _members(graph, nodes, sections(graph, highlight, expand=expand))
    framed = any(member.section.stage for member in members)
    runs, level = _runs(members, (MOST_FRAMED if framed else MOST_BOXES) - len(groups) - 1)
    for (name, group), run in zip(_name(runs, level), runs, strict=True):
        groups.append(_Group("block" if run[0].section.repeat else "group", name, group, run[0].section))
    groups += [_Group("output", "output", [node]) for node in outputs]
    return _scene(groups, nodes, title, highlight)


def _members(graph: fx.Graph, nodes: list[NodeDescription], homes: Mapping[str, Section]) -> list[_Member]:
    """What the boxes are made of: calls, each preceded by the attributes that it is the first to read."""
    by_name = {node.name: node for node in graph.nodes}
    described = {node.name: node for node in nodes}
    members = []
    waiting = {node.name for node in nodes if node.kind == "attribute"}
    for node in nodes:
        if node.kind not in ("function", "method", "module"):
            continue
        path, classes = module_path(by_name[node.name])
        for source in node.inputs:
            if source in waiting:
                waiting.remove(source)
                members.append(_Member(described[source], path, classes, homes[node.name]))
        members.append(_Member(node, path, classes, homes[node.name]))
    return members


def _runs(members: list[_Member], most: int) -> tuple[list[list[_Member]], int]:
    """Cut `members` into at most `most` runs, along modules where there are any, else along operations.

    Returns:
        The runs, and how deep in the model the modules lie that they were cut along.
    """
    depth = max((len(member.path) for member in members), default=0)
    if depth == 0:
        return _merge(_split(members, lambda member: (member.description.operation,)), most), 0
    levels = [
        _split(members, lambda member, level=level: member.path[:level])  # type: ignore[misc]
        for level in range(depth + 1)
    ]
    # Deeper levels only cut finer, so the last that fits is the most detailed one.
    fitting = max((level for level, runs in enumerate(levels) if len(runs) <= most), default=-1)
    if fitting == depth or (fitting >= 0 and len(levels[fitting]) >= most // 4):
        return levels[fitting], fitting
    # One level says too little and the next too much: put neighbours of the next together.
    return _merge(levels[fitting + 1], most), fitting + 1


def _split(members: list[_Member], key: Callable[[_Member], Path]) -> list[list[_Member]]:
    # A repeated block stays whole, and nothing reaches over the edge of a stage.
    keys = [(member.section, () if member.section.repeat else key(member)) for member in members]
    pairs = groupby(zip(keys, members, strict=True), lambda pair: pair[0])
    return [[member for _, member in run] for _, run in pairs]


def _merge(runs: list[list[_Member]], most: int) -> list[list[_Member]]:
    if len(runs) <= most:
        return runs
    # Every run that is closed holds at least `target` members, and one may be left open where a section ends.
    sections = sum(1 for _ in groupby(run[0].section for run in runs))
    loose = sum(len(run) for run in runs if not run[0].section.repeat)
    target = -(-loose // max(1, most - sections))
    merged: list[list[_Member]] = [[]]
    for run in runs:
        if merged[-1] and merged[-1][-1].section != run[0].section:
            merged.append([])
        # A single run may be longer than a box should stand for.
        for member in run:
            if len(merged[-1]) >= 2 * target and not member.section.repeat:
                merged.append([])
            merged[-1].append(member)
        if len(merged[-1]) >= target:
            merged.append([])
    return [run for run in merged if run]


def _name(runs: list[list[_Member]], level: int) -> list[tuple[str, list[NodeDescription]]]:
    """Name each run after its module at depth `level`, or from its first to its last; repeats are numbered."""
    names = [_run_name(run, level) for run in runs]
    repeated = Counter(names)
    part: Counter[str] = Counter()
    named = []
    for name, run in zip(names, runs, strict=True):
        part[name] += 1
        unique = f"{name}, part {part[name]}" if repeated[name] > 1 else name
        named.append((unique, [member.description for member in run]))
    return named


def _run_name(run: list[_Member], level: int) -> str:
    if (repeat := run[0].section.repeat) is not None:
        return f"{len(repeat.copies)} × {block_name(repeat.copies)}"
    first, last = run[0].path[:level], run[-1].path[:level]
    if first and first == last:
        found = run[0].classes.get(first)
        return ".".join(first) + (f" ({found})" if found else "")
    start = ".".join(first) or run[0].description.name
    end = ".".join(last) or run[-1].description.name
    return start if len(run) == 1 else f"{start} to {end}"


def _scene(groups: list[_Group], nodes: list[NodeDescription], title: str, highlight: frozenset[str]) -> Scene:
    states = {node.name: node for node in nodes if node.is_state}
    held = count_states(nodes)
    arrows = _arrows(groups)
    stages = list(dict.fromkeys(group.section.stage for group in groups if group.section.stage))
    boxes, rows = [], []
    for group in groups:
        marked = sum(node.name in highlight for node in group.nodes)
        sources = {source for node in group.nodes for source in node.inputs}
        read = count_states(states[source] for source in sources & states.keys())
        arriving = [arrow for arrow in arrows if arrow.target == group.name]
        lines = _lines(group, read, [arrow for arrow in arriving if not arrow.drawn])
        if marked:
            lines.append(f"{marked} highlighted")
        members = tuple(node.name for node in group.nodes)
        boxes.append(Box(group.name, group.kind, tuple(lines), marked > 0, members, group.section.stage))
        rows.append(
            (
                ("* " if marked else "") + group.name,
                *([group.section.stage] if stages else []),
                str(len(group.nodes)),
                *(str(read.get(one, 0)) for one in held),
                ("each: " if group.kind == "block" else "") + most_frequent(_once(group), 3),
                ", ".join(f"{arrow.source} ×{arrow.values}" for arrow in arriving),
            )
        )
    notes = [f'{len(nodes)} nodes in {len(boxes)} boxes; draw(..., collapse="never") draws each node.']
    if any(arrow.values > 1 and arrow.drawn for arrow in arrows):
        notes.append("A number at an arrow counts the values that pass along it; none means one.")
    if states:
        notes.append(not_drawn(nodes))
    if highlight:
        notes.append("* holds highlighted nodes")
    blocks = [group.name for group in groups if group.kind == "block"]
    summary = summarise(nodes, title, highlight)
    for group in groups:
        if group.section.strays:
            notes.append(f"{group.name} holds {group.section.strays} too.")
    if blocks:
        times = blocks[0].partition(" ")[0]
        notes.append(f'"{times} ×" means a block that comes {times} times in a row; collapse="modules" draws each.')
        summary += f" Repeated blocks: {', '.join(blocks)}."
    if stages:
        notes.append("Stages are found from operators and shapes, not from names.")
        summary += f" Stages: {', '.join(stages)}."
    columns = ("nodes", *(f"{one}s" for one in held), "most frequent operations", "values from")
    header = ("box", *(["stage"] if stages else []), *columns)
    return Scene(title, tuple(notes), tuple(boxes), arrows, header, tuple(rows), summary)


def _arrows(groups: list[_Group]) -> tuple[Arrow, ...]:
    """Arrows between groups; of a source that very many read, such as a mask, only the first is drawn."""
    home = {node.name: group.name for group in groups for node in group.nodes}
    crossing: dict[tuple[str, str], set[str]] = {}
    for group in groups:
        for node in group.nodes:
            for source in node.inputs:
                if source in home and home[source] != group.name:
                    crossing.setdefault((home[source], group.name), set()).add(source)
    targets: dict[str, list[str]] = {}
    for source, target in crossing:
        targets.setdefault(source, []).append(target)
    return tuple(
        Arrow(source, target, len(values), len(targets[source]) <= MOST_ARROWS or target == targets[source][0])
        for (source, target), values in crossing.items()
    )


def _lines(group: _Group, read: Mapping[str, int], named: list[Arrow]) -> list[str]:
    lines = [shorten(group.name, 44)]
    if group.kind == "block":
        # The end of a long path tells it from its neighbours.
        path, _, found = group.name.partition(" × ")[2].removesuffix(")").partition(" (")
        lines = [f"{group.name.partition(' × ')[0]} × {found or 'block'}"]
        lines.append(path if len(path) <= LONGEST_LINE else f"…{path[1 - LONGEST_LINE :]}")
    if group.kind in ("group", "block"):
        counts = [_count(len(group.nodes), "node")]
        if (repeat := group.section.repeat) is not None:
            counts = [f"{len(repeat.copies[0])} nodes each, {len(group.nodes)} in all"]
            counts += [f"with {group.section.strays}"] if group.section.strays else []
        if read:
            counts.append(states_in_words(read))
        lines += counts if repeat or len(", ".join(counts)) > LONGEST_LINE else [", ".join(counts)]
        operations = most_frequent(_once(group), 3)
        if operations:
            lines += [shorten(line) for line in operations.removesuffix(", …").split(", ")]
            lines[-1] += ", …" if operations.endswith("…") else ""
    elif group.nodes[0].shape not in ("", UNKNOWN):
        lines.append(f"{group.nodes[0].dtype}{group.nodes[0].shape}")
    lines += [shorten(f"reads {arrow.source}", 44) for arrow in named]
    return lines


def _once(group: _Group) -> list[NodeDescription]:
    """The nodes of a group, of a repeated block those of one copy."""
    if group.section.repeat is None:
        return group.nodes
    first = {node.name for node in group.section.repeat.copies[0]}
    return [node for node in group.nodes if node.name in first]


def _count(number: int, singular: str) -> str:
    return f"{number} {singular if number == 1 else singular + 's'}"
