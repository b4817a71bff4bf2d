"""On which line of a TOML file a key stands, which `tomllib` does not say. Imports no torch."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any


class TomlLines:
    """Finds lines of keys in the text of a TOML document that parses.

    The first lines of a document are mostly a document themselves: the key stands right after the longest such
    beginning that does not have it. So the reading is tomllib's own, and no second grammar can disagree with it.
    """

    def __init__(self, text: str) -> None:
        """Take a document.

        Args:
            text: TOML that `tomllib.loads` reads.
        """
        self._lines = text.splitlines(keepends=True)

    def line_of(self, path: Sequence[str | int]) -> int:
        """The line, counted from 1, on which the statement begins that gives this key or list entry.

        Args:
            path: keys and positions in lists, from the outside in.

        Raises:
            LookupError: the document does not have it.
        """
        has_not, has = 0, len(self._lines)
        if not self._has(has, path):
            raise LookupError(f"the document has no {path}")
        # A beginning that ends inside a value is none: the search takes the nearest one before it.
        while has - has_not > 1:
            middle = (has_not + has) // 2
            while middle > has_not and self._beginning(middle) is None:
                middle -= 1
            if middle == has_not:
                middle = (has_not + has) // 2 + 1
                while middle < has and self._beginning(middle) is None:
                    middle += 1
                if middle == has:
                    break
            if self._has(middle, path):
                has = middle
            else:
                has_not = middle
        return has_not + 1

    def _beginning(self, lines: int) -> dict[str, Any] | None:
        try:
            return tomllib.loads("".join(self._lines[:lines]))
        except tomllib.TOMLDecodeError:
            return None

    def _has(self, lines: int, path: Sequence[str | int]) -> bool:
        found: Any = self._beginning(lines)
        for key in path:
            if isinstance(found, dict):
                if key not in found:
                    return False
            elif not (isinstance(found, list) and isinstance(key, int) and key < len(found)):
                return False
            found = found[key]
        return found is not None
