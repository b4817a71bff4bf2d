"""The capstone: a package of the learner's own, of one of three kinds. It is no day: no notebook holds the answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from autograder.course.task import Task

EVERY = "FXOPT_CAPSTONE_EVERY"
"""Environment variable of the judge: of traps and random programs take every n-th, for a quick look."""

FAMILIES = "FXOPT_CAPSTONE_FAMILIES"
"""Environment variable of the judge: how many families of models passes and cost tools are tried on; all by default."""

Item = TypeVar("Item")


@dataclass(frozen=True)
class Kind:
    """One kind of capstone.

    Attributes:
        name: as the command line knows it.
        group: the entry-point group through which a package registers what it brings.
        task: how it is tried.
        what: what it is, for messages.
    """

    name: str
    group: str
    task: Task
    what: str


def chosen(items: Sequence[Item]) -> Sequence[Item]:
    """Those to try: all, or every n-th where `EVERY` asks for that."""
    return items[:: int(os.environ.get(EVERY, "1"))]


def few(families: Sequence[Item]) -> Sequence[Item]:
    """Those families of models to try: all, or as many as `FAMILIES` asks for."""
    return families[: int(os.environ.get(FAMILIES, len(families)))]


def _task(name: str, title: str, checklist: str, withheld: tuple[str, ...] = ()) -> Task:
    return Task(
        name=name,
        unit="capstone",
        notebook="capstone_guide",
        title=title,
        provides=("registered",),
        evidence="artefact",
        withheld=withheld,
        seconds=240.0,
        compiles=True,
        checklist=(checklist,),
    )


KINDS = (
    Kind("pass", "fxopt.passes", _task("own_pass", "A pass of your own", "write-passes"), "pass"),
    Kind(
        "capture",
        "fxopt.captures",
        _task("own_capture", "A capture tool of your own", "extract-graphs", ("fxopt_core.capture",)),
        "capture tool",
    ),
    Kind(
        "cost",
        "fxopt.costs",
        _task("own_cost", "A cost tool of your own", "extract-graphs", ("fxopt_core.costs",)),
        "cost tool",
    ),
)
"""What a capstone may be."""
