"""Writes feedback pages: nbconvert's exporter, without what it does for each page and needs to do once.

A class hands in the same notebook, and most of its cells are as they were handed out. So templates are compiled once in
a process, and the HTML of a cell is kept by its text. Imports no torch.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from jinja2 import BytecodeCache, Environment, pass_context
from jinja2.bccache import Bucket
from jinja2.runtime import Context
from nbconvert.exporters import HTMLExporter, TemplateExporter
from nbconvert.filters import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbconvert.filters.widgetsdatatypefilter import WidgetsDataTypeFilter
from nbformat import NotebookNode
from traitlets import default

from autograder.course.notebooks import heading_of
from autograder.course.tasks import written_tasks
from autograder.records.pages import StrictTemplates

KEPT_CELLS = 512
"""How many cells' HTML is kept, of code and of text each."""

KEPT_LENGTH = 20_000
"""Most characters of a cell whose HTML is kept."""

NO_DESCRIPTION = "No description has been provided for this image"
"""What nbconvert lets a screen reader say of a picture that tells nothing of itself."""

_IMAGE_WITHOUT_ALT = re.compile(r"<img\b(?![^>]*\salt=)")


class FeedbackExporter(HTMLExporter):
    """Writes feedback pages without scripts, from a template that builds on nbgrader's and finds it by its folder."""

    @default("template_paths")
    def _template_paths(self, prune: bool = True, root_dirs: list[str] | None = None) -> list[str]:
        return [*super()._template_paths(prune, root_dirs), *self.extra_template_basedirs]

    def _create_environment(self) -> Environment:
        environment = super()._create_environment()
        environment.loader = StrictTemplates(environment.loader, None)
        environment.bytecode_cache = _compiled
        return environment

    def from_notebook_node(  # type: ignore[override]  # as nbconvert's own exporters do
        self, nb: NotebookNode, resources: dict[str, Any] | None = None, **options: Any
    ) -> tuple[str, dict[str, Any]]:
        """A graded notebook as a page.

        As `HTMLExporter` does it, which then parses the whole page and writes it anew, to describe pictures and to mark
        elements that this page does not have.
        """
        language = nb.metadata.get("language_info", {})
        lexer = language.get("pygments_lexer", language.get("name", None))

        def highlight_code(source: str, language: str | None = None, metadata: dict[str, Any] | None = None) -> str:
            if len(source) > KEPT_LENGTH or "magics_language" in (metadata or {}):
                return str(Highlight2HTML(pygments_lexer=lexer, parent=self)(source, language, metadata))
            return _highlighted(source, language, lexer)

        resources = self._init_resources(resources)
        resources["heading"] = heading_of(nb.cells)
        # Checks bring the titles of their tasks; a question that is answered in words has no check.
        resources["titles"] = {task.name: task.title for task in written_tasks()}
        widgets = WidgetsDataTypeFilter(notebook_metadata=self._nb_metadata, parent=self, resources=resources)
        self.register_filter("highlight_code", highlight_code)
        self.register_filter("filter_data_type", widgets)
        page, resources = TemplateExporter.from_notebook_node(self, nb, resources, **options)
        return _IMAGE_WITHOUT_ALT.sub(f'<img alt="{NO_DESCRIPTION}"', page), resources

    @pass_context
    def markdown2html(self, context: Context, source: str) -> str:
        """Markdown of a cell as HTML."""
        if len(source) > KEPT_LENGTH or context.get("cell", {}).get("attachments"):
            return str(super().markdown2html(context, source))
        return _rendered(source, self.anchor_link_text, self.exclude_anchor_links)


class _CompiledTemplates(BytecodeCache):
    """Keeps compiled templates in this process. jinja2 compares their text, so a changed one is compiled anew."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        """Fill a bucket with what is kept of its template."""
        if bucket.key in self._kept:
            bucket.bytecode_from_string(self._kept[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Keep what a bucket holds."""
        self._kept[bucket.key] = bucket.bytecode_to_string()


_compiled = _CompiledTemplates()


@lru_cache(KEPT_CELLS)
def _highlighted(source: str, language: str | None, lexer: str | None) -> str:
    return str(Highlight2HTML(pygments_lexer=lexer)(source, language))


@lru_cache(KEPT_CELLS)
def _rendered(source: str, anchor_link_text: str, exclude_anchor_links: bool) -> str:
    renderer = IPythonRenderer(
        escape=False, attachments={}, anchor_link_text=anchor_link_text, exclude_anchor_links=exclude_anchor_links
    )
    return str(MarkdownWithMath(renderer=renderer).render(source))
