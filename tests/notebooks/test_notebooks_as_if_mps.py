"""The pass of nbval over the notebooks refuses what MPS lacks."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]


def test_a_notebook_that_needs_double_precision_on_the_device_fails(tmp_path: Path) -> None:
    shutil.copy(ROOT / "solutions" / "conftest.py", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    before = "import torch\nfrom fxopt_core.devices import choose_device\n"
    for name, source in (
        ("breaks", f"{before}torch.zeros(1, device=choose_device()).double()"),
        ("works", f"{before}torch.zeros(1, device=choose_device()).cpu().double()"),
    ):
        cells = [nbformat.v4.new_code_cell(source)]
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / f"{name}.ipynb")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "breaks.ipynb", "works.ipynb"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "LackingOnMPSError" in done.stdout, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout
