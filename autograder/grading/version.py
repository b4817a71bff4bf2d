"""The version of a grader: what changes when the same notebook might come to other points. Imports no torch."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path

import autograder
import fxopt_core
from autograder.course.course import Course

ROOMS = ("exchange", "course", "learner_side", "exercises", "grading", "traps")
"""The rooms of `autograder` that decide on points."""

LEFT_OUT = {"wrong", "right", "__pycache__"}
"""Folders of answers that are only tried by the gate."""

DIGITS = 16
"""How many hexadecimal digits of a hash a version has."""


@cache
def code_version() -> str:
    """Version of all code that decides on points, and of the Python and the torch that it runs with."""
    hasher = hashlib.sha256(f"{sys.version_info[:2]} {version('torch')}".encode())
    home = Path(next(iter(autograder.__path__)))
    for folder in [*(home / room for room in ROOMS), Path(next(iter(fxopt_core.__path__)))]:
        for path in sorted(folder.rglob("*.py")):
            if not LEFT_OUT & set(path.relative_to(folder).parts):
                hasher.update(f"{folder.name}/{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return hasher.hexdigest()[:DIGITS]


def grader_version(course: Course, assignment: str) -> str:
    """Version of the grader of one assignment of a course: its code, the released notebooks and the secret seed."""
    hasher = hashlib.sha256(f"{code_version()} {course.seed()}".encode())
    for path in sorted((course.curriculum / assignment).glob("*.ipynb")):
        hasher.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return hasher.hexdigest()[:DIGITS]
