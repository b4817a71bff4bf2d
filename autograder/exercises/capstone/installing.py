"""On the learner's side: install a package from its files, and say which passes it registers. Imports no torch."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from base64 import b64decode
from collections.abc import Mapping
from importlib.metadata import distributions
from pathlib import Path

ENTRY_POINTS = "fxopt.passes"
"""The entry-point group of passes, as `fxopt_core.passes.registry` reads it."""


class InstallError(RuntimeError):
    """The package cannot be installed; the message is the end of what the installer printed."""


def install(files: Mapping[str, str]) -> tuple[str, ...]:
    """Install a package into a folder of its own, which this process then imports from.

    Args:
        files: content of each file in base64, by its path in the package's folder.

    Returns:
        The names of the passes that it registers by entry point, in the order of their names.

    Raises:
        InstallError: it cannot be built or installed without the network.
    """
    folder = Path(tempfile.mkdtemp(prefix="capstone-"))
    source, site = folder / "source", folder / "site"
    for name, content in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b64decode(content))
    flags = ["--no-index", "--no-deps", "--no-build-isolation", "--no-cache-dir", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", *flags, "--target", str(site), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise InstallError(f"pip cannot install it: {done.stderr.strip()[-1500:]}")
    sys.path.append(str(site))
    own = (point for found in distributions(path=[str(site)]) for point in found.entry_points)
    return tuple(sorted(point.name for point in own if point.group == ENTRY_POINTS))
