"""Capstones that were handed in, or might be: one that is right, cheats, and passes without this or that check.

Each is the template in which one file (in `candidates/`) takes the place of the example.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import getsource
from pathlib import Path

from autograder.capstone.capstone import Package, new_package, read_package
from fxopt_core import costs
from fxopt_core.passes import common_subexpressions

HERE = Path(__file__).parent / "candidates"
EXAMPLE = "recognise_gelu"


def written(name: str) -> str:
    """The source of a candidate."""
    return (HERE / f"{name}.py").read_text()


def without(check: str) -> str:
    """The right candidate without the lines of one check."""
    lines = written("merged_layers").splitlines(keepends=True)
    kept = [line for line in lines if f"# check: {check}" not in line]
    assert len(kept) < len(lines)
    return "".join(kept)


def _template() -> str:
    return (Path(new_package.__code__.co_filename).parent / f"template/own_pass/my_capstone/{EXAMPLE}.py").read_text()


def _renamed() -> str:
    """A pass of the course under other names."""
    source = getsource(common_subexpressions)
    names = sorted(set(re.findall(r"\b_?[a-z]+_[a-z_]+\b(?=\()", source)))
    for number, name in enumerate(name for name in names if f"def {name}(" in source and name not in PASS_METHODS):
        source = re.sub(rf"\b{name}\b", f"own_{number}", source)
    source = source.replace("CommonSubexpressions", "MyOwnIdea").replace('"common_subexpressions', '"my_own_idea')
    return re.sub(r'"""(.|\n)*?"""', '"""Mine."""', source)


PASS_METHODS = ("analyze", "transform", "verify", "run")


def _seen_by_nobody() -> str:
    """The right candidate, which does not ask who sees strides."""
    source = written("merged_layers")
    return source.replace("        return self.seen_by(layer.node, sliced)\n", "        return None\n")


def _without_dtypes() -> str:
    """The template without its check of the dtype, under another name."""
    return _template().replace(", checks=(is_float,)", "")


CANDIDATES: dict[str, Callable[[], tuple[str, str]]] = {
    "merged_layers": lambda: (written("merged_layers"), "MergedLayers"),
    "template": lambda: (_template(), "RecogniseGelu"),
    "other_spelling": lambda: (written("other_spelling"), "OtherSpelling"),
    "the_courses_own": lambda: (written("the_courses_own"), "TheCoursesOwn"),
    "renamed": lambda: (_renamed(), "MyOwnIdea"),
    "merged_calls": lambda: (written("merged_calls"), "MergedCalls"),
    "dropped_copies": lambda: (written("dropped_copies"), "DroppedCopies"),
    "without writes": lambda: (without("writes"), "MergedLayers"),
    "without modes": lambda: (without("modes"), "MergedLayers"),
    "without dtypes": lambda: (without("dtypes"), "MergedLayers"),
    "without strides": lambda: (_seen_by_nobody(), "MergedLayers"),
    "template without dtypes": lambda: (_without_dtypes(), "RecogniseGelu"),
}
"""Source and class of each."""


def make(name: str, folder: Path) -> Package:
    """A candidate as a package in a new folder."""
    source, class_ = CANDIDATES[name]()
    new_package(folder)
    module = folder / "my_capstone" / f"{EXAMPLE}.py"
    module.write_text(source)
    (folder / "tests" / f"test_{EXAMPLE}.py").unlink()
    project = folder / "pyproject.toml"
    registered = re.search(r'@register_pass\("(\w+)"\)', source)
    assert registered is not None
    text = project.read_text().replace('name = "my-capstone"', f'name = "{re.sub(r"[ _]", "-", name)}"')
    text = re.sub(r"recognise_gelu = .*", f'{registered[1]} = "my_capstone.{EXAMPLE}:{class_}"', text)
    project.write_text(text)
    return read_package(folder)


def copied_cost_tool(folder: Path) -> Package:
    """A cost tool that is the course's own, put into one file."""
    new_package(folder, "cost")
    room = Path(costs.__file__).parent
    parts = [(room / f"{name}.py").read_text() for name in ("costs", "counting")]
    module = next((folder / "my_capstone").glob("count_*.py"))
    own = module.read_text()
    body = "\n".join(re.sub(r"^from __future__.*\n", "", part, flags=re.M) for part in parts)
    body = re.sub(r"^from fxopt_core\.costs\S* import (\([^)]*\)|.*)\n", "", body, flags=re.M)
    module.write_text(f"from __future__ import annotations\n{body}\n{own}")
    return read_package(folder)
