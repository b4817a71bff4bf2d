"""Names in options: which models, which methods."""

from __future__ import annotations

import difflib
from collections.abc import Sequence


def chosen_names(kind: str, given: str | None, known: Sequence[str]) -> list[str]:
    """The names in a list with commas, each once; all if there is none.

    Raises:
        ValueError: a name is not known; it offers near ones.
    """
    if given is None:
        return list(known)
    names = [name.strip() for name in given.split(",") if name.strip()]
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            hint = (
                f"did you mean {' or '.join(near)}?"
                if near
                else f"they are {', '.join(known[:12])}{'…' * (len(known) > 12)}"
            )
            raise ValueError(f"there is no {kind} {name!r}; {hint}")
    if not names:
        raise ValueError(f"{given!r} names no {kind}; expected names with commas between them.")
    return list(dict.fromkeys(names))
