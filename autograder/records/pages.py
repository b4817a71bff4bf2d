"""nbgrader's page templates, made strict: only scripts of ours run in them, and nothing is loaded from outside.

The templates are nbgrader's and nbconvert's, read as they are installed; what this module changes is changed in their
text, before anything of a submission is in it. So a script of ours and a script that came with a submission can be told
apart for certain: ours carry a number that is drawn for each page, and the browser is told to run no others.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Callable
from typing import Any

from jinja2 import BaseLoader, Environment
from markupsafe import Markup

FEEDBACK_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; font-src data:; base-uri 'none'; form-action 'none'"
)
"""What a feedback page may do: be read."""

NO_MATHJAX = """<script>
    // nbgrader waits for MathJax before it goes to the answer that is to be graded, and before keys mean anything.
    window.MathJax = { Hub: { Startup: { signal: { Interest: tell => setTimeout(tell, 0, "End") } } } };
</script>
"""
"""What stands in the place of MathJax, of which the form grader only asks when it is done."""

_SCRIPT = re.compile(r"<script\b.*?</script>", re.DOTALL)
_FONT = re.compile(r"@font-face\s*\{[^}]*\}")
_SCORE = re.compile(r"Score: \{\{[^}]*\.score[^}]*\}\} / \{\{[^}]*\.points[^}]*\}\}(?= <a )")
"""What nbgrader's feedback says beside a graded cell, also where nobody has graded it."""

_HANDLER = re.compile(r"""\son[a-z]+="([^"{}]*)\"""", re.IGNORECASE)


def page_policy(nonce: str, handlers: frozenset[str]) -> str:
    """The content security policy of a page of the form grader.

    Args:
        nonce: the number that this page's own scripts carry.
        handlers: texts of the `onclick` and the like that the templates themselves hold.
    """
    hashes = " ".join(
        sorted(
            "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'" for text in handlers
        )
    )
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'nonce-{nonce}'",
            f"script-src-attr 'unsafe-hashes' {hashes}" if hashes else "script-src-attr 'none'",
            "style-src 'self' 'unsafe-inline'",
            "img-src 'self' data:",
            "font-src 'self' data:",
            "connect-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'self'",
        )
    )


class StrictTemplates(BaseLoader):
    """Templates of another loader, with a nonce on each script, or without scripts and with a policy of their own."""

    def __init__(self, inner: BaseLoader, nonce: str | None) -> None:
        """Wrap a loader.

        Args:
            inner: finds the templates.
            nonce: expression of the templates for a page's nonce; `None` takes all scripts out.
        """
        self._inner, self._nonce = inner, nonce

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Callable[[], bool] | None]:
        """The changed text of a template, its file, and whether that is still as it was."""
        source, file, current = self._inner.get_source(environment, template)
        if template.endswith("mathjax.html.j2"):
            # It comes from the network. Formulas stay as they were written.
            source = "{%- macro mathjax(url='') -%}{%- endmacro -%}"
        elif template.endswith(".css"):
            # A page that stands alone has no fonts beside it.
            source = source if self._nonce else _FONT.sub("", source)
        elif self._nonce is None:
            source = _SCORE.sub("{{ cell.metadata.nbgrader.said | e }}", _SCRIPT.sub("", source))
            policy = f'<meta http-equiv="Content-Security-Policy" content="{FEEDBACK_POLICY}" />'
            source = source.replace("<head>", f"<head>\n{policy}", 1)
        else:
            if template.endswith("formgrade_macros.html.j2"):
                source = source.replace("<script", f"{NO_MATHJAX}<script", 1)
            source = source.replace("<script", f'<script nonce="{{{{ {self._nonce} }}}}"')
        return source, file, current

    def list_templates(self) -> list[str]:
        """Names of all templates."""
        return self._inner.list_templates()


def handlers_of(source: str) -> set[str]:
    """Texts of the event handlers that a template holds."""
    return set(_HANDLER.findall(source))


def harmless(value: Any) -> Any:
    """Text for a page, where it may stand between tags, in an attribute or in a string of a script.

    What is no text, or is HTML that was made safe, is left as it is.
    """
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    escaped = html.escape("".join(sign if sign.isprintable() else " " for sign in value))
    return Markup(escaped.replace("\\", "&#92;").replace("`", "&#96;"))
