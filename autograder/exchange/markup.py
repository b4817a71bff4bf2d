"""Messages as HTML, the same in the notebook and on feedback pages."""

from __future__ import annotations

import html
import re

_CODE = re.compile(r"`([^`]+)`")
_STRESSED = re.compile(r"(?<![\w*])\*(?=[^\s*])([^*]+)(?<=\S)\*(?![\w*])")


def heading_anchor(text: str) -> str:
    """How a link names a heading on GitHub and on the website."""
    return re.sub(r"[^\w\- ]", "", text).lower().replace(" ", "-")


def with_code(text: str) -> str:
    """A message as HTML; what stands between backticks is code, and between asterisks, outside of code, is stressed."""
    parts = _CODE.split(html.escape(text))
    return "".join(
        f"<code>{part}</code>" if number % 2 else _STRESSED.sub(r"<em>\1</em>", part)
        for number, part in enumerate(parts)
    )
