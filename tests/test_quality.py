"""Style and types: ruff and mypy, with the settings of pyproject.toml, find nothing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy"]],
    ids=lambda command: " ".join(command),
)
def test_nothing_is_found(command: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_tried_in_part_is_tried_whole_by_make_test_long() -> None:
    """Who looks at FXOPT_LONG promises more in `make test-long`, which runs only what is marked."""
    (selected,) = re.findall(r"FXOPT_LONG=1 .* -m '(.*)'", (ROOT / "Makefile").read_text())
    assert selected == "long or sampled"
    in_part = [path for path in (ROOT / "tests").rglob("test_*.py") if '"FXOPT_LONG" ' in path.read_text()]
    in_part.remove(Path(__file__))
    assert len(in_part) >= 3
    assert [path.name for path in in_part if "pytest.mark.sampled" not in path.read_text()] == []
