"""The website, built with Sphinx into a folder that appears whole or stays as it was."""

from __future__ import annotations

import io
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace, patch_docutils

from autograder.course.course import Course
from autograder.website import mathematics, reference
from autograder.website.badges import badges_for
from autograder.website.flowcharts import FlowchartError
from autograder.website.front import write_front
from autograder.website.sources import Chapter, WebsiteError, lay_out

OURS = ".made-by-fxopt-site"
"""A folder with this file in it was made here, and may be replaced."""

_SETTINGS: dict[str, Any] = {
    "project": "fxopt",
    "author": "the fxopt team",
    "extensions": [
        "myst_nb",
        "sphinx.ext.autodoc",
        "sphinx.ext.napoleon",
        mathematics.__name__,
        reference.__name__,
    ],
    "html_theme": "furo",
    "html_title": "fxopt",
    "html_math_renderer": mathematics.NAME,
    "html_copy_source": False,
    "html_show_sphinx": False,
    "html_show_copyright": False,
    "html_static_path": ["_static"],
    "html_css_files": ["fxopt.css"],
    # What the notebooks printed when they were built is what is shown.
    "nb_execution_mode": "off",
    # Widgets would be loaded from another server.
    "nb_ipywidgets_js": {},
    "nb_merge_streams": True,
    "myst_heading_anchors": 4,
    "myst_enable_extensions": ["dollarmath", "colon_fence"],
    "autodoc_typehints": "signature",
    "autodoc_member_order": "bysource",
    "napoleon_use_ivar": True,
    "python_use_unqualified_type_names": True,
    # The search finds names; a list of all of them beside it says nothing more.
    "html_use_index": False,
    "html_domain_indices": False,
}

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

_STYLE = """\
/* Pictures of the course are drawn on white; in the dark they keep their paper. */
.cell_output img, .graphs img, article img[src$=".svg"] { background: white; border-radius: 4px; padding: 4px; }
.graphs { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
.graphs p { display: contents; }
.graphs img { max-width: 45%; min-width: 16rem; height: auto; }
.cell_output { overflow-x: auto; }
.cell_output table { border-collapse: collapse; }
.cell_output th, .cell_output td { padding: 0.1rem 0.6rem; }
"""


def build_website(course: Course, target: Path, repository: str | None = None) -> list[Chapter]:
    """Build the website of a course.

    Args:
        course: with executed lessons, as `make notebooks` leaves them.
        target: the folder of the website, which is made or replaced whole.
        repository: address of the repository on GitHub, to which badges for hosted notebooks lead; `None`: no badges.

    Returns:
        The chapters, in the order of the navigation.

    Raises:
        WebsiteError: the target is a folder that was not made here, a notebook is missing, a link leads nowhere or a
            docstring cannot be read; the message lists each.
        ValueError: the repository is no address on GitHub.
    """
    badges = badges_for(repository)
    if target.exists() and not (target / OURS).is_file():
        raise WebsiteError(f"{target} is there and was not made by `fxopt site`: name another folder, or remove it")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}.") as scratch:
        pages, made = Path(scratch, "pages"), Path(scratch, "made")
        pages.mkdir()
        try:
            chapters = lay_out(course, pages)
        except FlowchartError as error:
            raise WebsiteError(f"a flowchart cannot be drawn: {error}") from error
        chapters.append(Chapter("fxopt_core", tuple(reference.write_reference(pages))))
        write_front(course, pages, chapters, badges)
        (pages / "_static").mkdir()
        (pages / "_static" / "fxopt.css").write_text(_STYLE)
        _run_sphinx(pages, made, Path(scratch, "doctrees"))
        (made / OURS).touch()
        if target.exists():
            shutil.move(target, Path(scratch, "before"))
        made.rename(target)
    return chapters


def _run_sphinx(pages: Path, made: Path, doctrees: Path) -> None:
    complaints = io.StringIO()
    with patch_docutils(), docutils_namespace():
        app = Sphinx(pages, None, made, doctrees, "html", confoverrides=_SETTINGS, status=None, warning=complaints)
        app.build()
    lines = [
        line.replace(f"{pages}/", "") for line in _COLOUR.sub("", complaints.getvalue()).splitlines() if line.strip()
    ]
    if lines or app.statuscode:
        raise WebsiteError("Sphinx complains about the pages:\n" + "\n".join(lines))
