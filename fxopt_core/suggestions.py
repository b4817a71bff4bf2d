"""What somebody may have meant who misspelt a name. Imports no torch."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: object, known: Iterable[str], most: int = 2) -> str:
    """A sentence that offers the known names nearest to `name`, such as ` Did you mean 'relu'?`; else nothing.

    Args:
        name: what was asked for.
        known: what there is.
        most: how many names to offer at most.
    """
    near = difflib.get_close_matches(str(name), list(known), n=most)
    return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
