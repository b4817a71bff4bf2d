"""The tracks of the course, and the units that each consists of. Imports nothing.

A track is what somebody learns as a whole: Week 1, or Inside PyTorch. It has a page beside `curriculum/` with its
schedule and its success checklist. A unit is a folder of notebooks that one assignment is made of: a day of Week 1, a
unit of Inside PyTorch.
"""

from __future__ import annotations

from dataclasses import dataclass

START_PAGE = "Start.md"
"""The page at which everybody starts: it leads to the tracks."""


@dataclass(frozen=True)
class Unit:
    """One assignment.

    Attributes:
        name: short, as in `check.day1` and `exercises/day1`.
        folder: its folder in `curriculum/` and in the workspace, and the name of nbgrader's assignment.
        heading: how the section about it begins on the track's page.
    """

    name: str
    folder: str
    heading: str


@dataclass(frozen=True)
class Track:
    """Units that belong together.

    Attributes:
        name: for tables.
        page: the file beside `curriculum/` with schedule and checklist.
        inside: the folder in `solutions/` that holds the folders of the units; `""` when they lie there themselves.
        units: in the order in which they are taken. Only those that are built.
    """

    name: str
    page: str
    inside: str
    units: tuple[Unit, ...]


WEEK_1 = Track(
    "Week 1",
    "Week1.md",
    "",
    (
        Unit("day0", "day0_start", "Day 0"),
        Unit("day1", "day1_compile_stack", "Day 1"),
        Unit("day2", "day2_fx_graphs", "Day 2"),
        Unit("day3", "day3_model_extraction", "Day 3"),
        Unit("day4", "day4_huggingface", "Day 4"),
        Unit("day5", "day5_review", "Day 5"),
    ),
)

INTERNALS = Track(
    "Inside PyTorch",
    "Internals.md",
    "internals",
    (
        Unit("u1", "u1_architecture", "Unit 1"),
        Unit("u2", "u2_tensors", "Unit 2"),
        Unit("u3", "u3_dispatcher", "Unit 3"),
        Unit("u4", "u4_autograd", "Unit 4"),
        Unit("u5", "u5_operators", "Unit 5"),
        Unit("u6", "u6_memory", "Unit 6"),
        Unit("u7", "u7_ecosystem", "Unit 7"),
        Unit("u8", "u8_contributing", "Unit 8"),
    ),
)

TRACKS = (WEEK_1, INTERNALS)


def unit_title(folder: str) -> str:
    """An assignment's folder in words, such as `Day 1: compile stack`."""
    unit = next((unit for track in TRACKS for unit in track.units if unit.folder == folder), None)
    if unit is None:
        return folder
    words = folder.removeprefix(unit.name).replace("_", " ").strip()
    return f"{unit.heading}: {words}"
