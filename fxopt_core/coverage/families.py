"""Families of models whose configurations need a word that the names of the sizes do not say."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

Change = Callable[[Any], None]

FAMILIES: tuple[tuple[str, Change], ...] = ()
"""Model types (a regular expression for the whole name), and what to change in their shrunk configurations."""


def adapt_config(model_type: str, config: Any) -> None:
    """Change what the model's family needs, in place."""
    for pattern, change in FAMILIES:
        if re.fullmatch(pattern, model_type):
            change(config)
