"""Messages as HTML, the same in the notebook and on feedback pages."""

from __future__ import annotations

import html
import re


def with_code(text: str) -> str:
    """A message as HTML; what stands between backticks is code."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))
