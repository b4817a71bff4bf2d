"""What the notebooks are run with is not what the tests are run with."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROBE = """
import os

def test_the_device_is_this_machines():
    assert "FXOPT_AS_IF" not in os.environ
"""


def test_the_stand_in_for_mps_is_for_notebooks_only(tmp_path: Path) -> None:
    probe = tmp_path / "test_probe.py"
    probe.write_text(PROBE)
    notebook = ROOT / "solutions" / "day0_start" / "start_here.ipynb"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    found = subprocess.run(
        [*command, str(probe), str(notebook), "-k", "test_probe"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert "1 passed" in found.stdout, found.stdout + found.stderr
