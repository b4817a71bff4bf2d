"""On the learner's side: install a package from its files, and say what it registers. Imports no torch."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from base64 import b64decode
from collections.abc import Mapping, Sequence
from importlib.metadata import distributions, entry_points
from pathlib import Path
from typing import Any

from build import BuildBackendException, BuildException, ProjectBuilder
from pyproject_hooks import quiet_subprocess_runner

from autograder.exchange.verdict import write_your_own
from autograder.learner_side.withheld import WithheldImportError


class InstallError(RuntimeError):
    """The package cannot be installed; the message is the end of what the installer printed."""


def install(files: Mapping[str, str], group: str) -> tuple[str, ...]:
    """Install a package into a folder of its own, which this process then imports from.

    Args:
        files: content of each file in base64, by its path in the package's folder.
        group: an entry-point group.

    Returns:
        The names that it registers in that group, in order.

    Raises:
        InstallError: it cannot be built or installed without the network.
    """
    folder = Path(tempfile.mkdtemp(prefix="capstone-"))
    source, site = folder / "source", folder / "site"
    for name, content in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b64decode(content))
    site.mkdir()
    try:
        # What `pip install` does, in a third of the time: of all it brings nothing but the package is needed here.
        wheel = ProjectBuilder(source, runner=quiet_subprocess_runner).build("wheel", folder)
        with zipfile.ZipFile(wheel) as packed:
            packed.extractall(site)
    except BuildException as error:
        raise InstallError(f"its pyproject.toml says nothing that could be built: {error}") from error
    except BuildBackendException as error:
        raise InstallError(f"no wheel can be built of it: {_said(error)}") from error
    sys.path.append(str(site))
    own = (point for found in distributions(path=[str(site)]) for point in found.entry_points)
    return tuple(sorted(point.name for point in own if point.group == group))


def _said(error: BuildBackendException) -> str:
    """The end of what the build printed, where it printed something."""
    cause = error.exception
    printed = cause.output.decode(errors="replace") if isinstance(cause, subprocess.CalledProcessError) else ""
    return (printed.strip() or str(error))[-1500:]


def load(group: str, name: str, withheld: Sequence[str]) -> Any:
    """What a package registers under a name.

    Raises:
        WithheldImportError: it imports what it is to write itself.
    """
    (point,) = (point for point in entry_points(group=group) if point.name == name)
    try:
        return point.load()
    except ImportError as error:
        # What is withheld is empty, or not there at all.
        missing = str(error.name)
        if any(missing == module or missing.startswith(f"{module}.") for module in withheld):
            raise WithheldImportError(write_your_own(missing)) from error
        raise
