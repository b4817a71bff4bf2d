"""The subcommand `fxopt site`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from autograder.commands.refusal import refuse
from fxopt_workbench.commands.output import check_folder


def site(
    out: Annotated[Path, typer.Option(help="Folder of the website; replaced whole.")] = Path("site"),
    repository: Annotated[
        str | None,
        typer.Option(help="Address on GitHub, for links that open the course in Codespaces and on Binder."),
    ] = None,
) -> None:
    """Build the course as a static website: lessons with their outputs, exercises, glossary, guides and reference.

    Open OUT/index.html, or put the folder on any web server. No page asks another machine for anything.
    """
    from autograder.course.course import NoCourseError, find_course

    try:
        from autograder.website.building import build_website
        from autograder.website.sources import WebsiteError
    except ModuleNotFoundError as error:
        raise refuse(
            f'{error.name} is not installed, which builds the pages: run `pip install "fxopt[site]"`'
        ) from None
    try:
        check_folder(out)
    except OSError as error:
        raise refuse(f"--out {error}") from None
    try:
        chapters = build_website(find_course(), out.resolve(), repository)
    except (NoCourseError, WebsiteError, ValueError) as error:
        raise refuse(error) from None
    pages = sum(len(chapter.pages) for chapter in chapters) + 1
    Console(soft_wrap=True).print(f"{pages} pages: open {out / 'index.html'}")
