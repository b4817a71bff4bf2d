"""The first page of the website, with the picture of a graph as a learner changes it."""

from __future__ import annotations

import re
from pathlib import Path

import torch
from torch import nn

from autograder.course.course import Course
from autograder.website.sources import Chapter, WebsiteError
from fxopt_core import GraphOptimizer
from fxopt_workbench.files import write_whole
from fxopt_workbench.results.optimizations import draw_changes

PICTURES = ("learners-graph-before.svg", "learners-graph-after.svg")


def write_front(course: Course, folder: Path, chapters: list[Chapter], badges: str) -> None:
    """Write `index.md`: what the course is (from the README), a learner's graph, and the table of contents.

    Args:
        course: whose README is quoted.
        folder: of the website's sources.
        chapters: what the navigation shows.
        badges: Markdown that leads to hosted notebooks, or `""`.

    Raises:
        WebsiteError: the README has no introduction between its title and its first section.
    """
    found = re.match(r"# ([^\n]+)\n(.*?)^## ", (course.root / "README.md").read_text(), re.DOTALL | re.MULTILINE)
    if found is None or not found[2].strip():
        raise WebsiteError(f"{course.root / 'README.md'} has to begin with a title, an introduction and a section")
    words = _draw_a_learners_graph(folder)
    contents = "\n".join(
        "\n".join(("```{toctree}", ":hidden:", f":caption: {chapter.title}", "", *chapter.pages, "```", ""))
        for chapter in chapters
    )
    write_whole(
        folder / "index.md",
        f"""\
# {found[1]}

{badges}
{found[2].strip()}

## A graph before and after the rewrites of day 2

:::{{container}} graphs
![The graph before the rewrite]({PICTURES[0]})
![The graph after the rewrite]({PICTURES[1]})
:::

*The pictures in words:* {words}

## Where to begin

Week 1 takes you from a model to a graph that you have changed, checked and timed: [the schedule](Week1.md). After it,
[Inside PyTorch](Internals.md) follows a call down to its kernel. You can read every lesson here, with its output. To
answer the exercises, get the course onto your machine and type `make lab`.

{contents}""",
    )


class _Learner(nn.Module):
    """The model of the picture: what day 2 rewrites, at a size that fits a page."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(images)) * 1.0)


def _draw_a_learners_graph(folder: Path) -> str:
    """Write the two pictures; what they show, in words."""
    torch.manual_seed(0)
    report = GraphOptimizer(_Learner().eval(), (torch.randn(1, 3, 8, 8),)).optimize().report
    pictures = draw_changes(report)[0]
    for name, picture in zip(PICTURES, pictures, strict=True):
        write_whole(folder / name, picture.svg)
    words = [picture.alt_text() for picture in pictures]
    return " ".join(text[0].upper() + text[1:] for text in words)
