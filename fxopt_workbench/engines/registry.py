"""The engines by name, as entry points bring them."""

from __future__ import annotations

import importlib
from importlib.metadata import entry_points
from typing import Any

from fxopt_core.optimizer.engines import GROUP
from fxopt_core.suggestions import did_you_mean
from fxopt_workbench.engines.engine import EAGER, Engine


def references() -> dict[str, str]:
    """Where each installed engine is, as `module:name`; `eager` first."""
    found = {point.name: point.value for point in entry_points(group=GROUP)}
    names = sorted(found, key=lambda name: (name != EAGER, name))
    return {name: found[name] for name in names if isinstance(load(found[name]), Engine)}


def load(reference: str) -> Any:
    """What a reference names."""
    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)


def chosen_references(only: tuple[str, ...] | None) -> dict[str, str]:
    """The engines to try: those named, and `eager` always; all if none are named.

    Raises:
        ValueError: there is no such engine; the message offers the nearest names.
    """
    known = references()
    for name in only or ():
        if name not in known:
            raise ValueError(f"there is no engine {name!r}.{did_you_mean(name, known)} They are {', '.join(known)}.")
    return {name: where for name, where in known.items() if only is None or name in only or name == EAGER}
