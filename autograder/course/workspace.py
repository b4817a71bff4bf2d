"""Filling the learner's workspace from the released course, without ever overwriting what the learner wrote.

A manifest in the workspace (`.fxopt/manifest.json`) remembers what was handed out. A file whose content is a
version that was handed out is unchanged by the learner and may be replaced; every other file is theirs, and a new
version is laid beside it. Each file and the manifest are replaced atomically, so that an interrupted run leaves
nothing half-written and the next run completes it. Imports no torch.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from autograder.course.tracks import START_PAGE, TRACKS
from autograder.exchange.markup import heading_anchor
from fxopt_workbench.files import write_whole

PRIVATE_FOLDER = ".fxopt"
"""Folder inside the workspace that belongs to the course's tools."""

PAGES = (START_PAGE, *(track.page for track in TRACKS))
"""The pages beside `curriculum/`, the one at which the learner starts first."""

MANIFEST_VERSION = 1


class WorkspaceError(RuntimeError):
    """The workspace cannot be filled; the message says why and what to do."""


@dataclass
class HandedOut:
    """What the manifest remembers of one file.

    Attributes:
        versions: fingerprints of every version that was handed out, oldest first.
        basis: fingerprint of the version that lies in the workspace or that the learner's changes started from;
            `None` when the learner had a file of this name before the course did.
        offered: fingerprint of the version that was laid beside the learner's file last.
        content: hash of the bytes of the released file that was seen last.
    """

    versions: list[str] = field(default_factory=list)
    basis: str | None = None
    offered: str | None = None
    content: str | None = None


@dataclass
class WorkspaceReport:
    """What a run of `fill_workspace` did. Paths are relative to the workspace, with forward slashes.

    Attributes:
        added: files that were new.
        updated: files that the learner had not changed and that were replaced by a new version.
        restored: files that had been handed out before and were missing.
        kept: pairs of a file that the learner changed and the new version that was laid beside it in this run.
        withdrawn: files that are no longer part of the course and were left where they are.
        remarks: what else the learner should know.
    """

    added: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    restored: list[str] = field(default_factory=list)
    kept: list[tuple[str, str]] = field(default_factory=list)
    withdrawn: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """One line for each noteworthy file; new files are counted only. Empty when there is nothing to say."""
        lines = list(self.remarks)
        if self.added:
            files = "file" if len(self.added) == 1 else "files"
            lines.append(f"{len(self.added)} {files} added to the workspace")
        lines += [f"{name}: updated to the new version (you had not changed it)" for name in self.updated]
        lines += [f"{name}: was missing and has been brought back" for name in self.restored]
        lines += [
            f"{name}: you changed this file, so it stays; the new version lies beside it as {Path(beside).name}"
            for name, beside in self.kept
        ]
        lines += [f"{name}: no longer part of the course; your copy stays" for name in self.withdrawn]
        return lines


def fingerprint(name: str, content: bytes) -> str:
    """What makes two versions of a file the same to the learner, as a SHA-256 in hexadecimal.

    Of a notebook (by its name, `.ipynb`) these are the ids, types and sources of its cells: running a notebook
    changes outputs, counts and metadata only, and is no change. Of any other file, and of a notebook that is not
    readable as one, it is the content.
    """
    cells = _cells(content) if name.endswith(".ipynb") else None
    if cells is None:
        return hashlib.sha256(b"file\0" + content).hexdigest()
    essence = [[cell.get("id"), cell.get("cell_type"), _source(cell)] for cell in cells]
    return hashlib.sha256(b"notebook\0" + json.dumps(essence).encode()).hexdigest()


def fill_workspace(curriculum: Path, workspace: Path) -> WorkspaceReport:
    """Bring the workspace up to date with the released course.

    Copies every file of `curriculum`, and the pages of the tracks that lie beside it, whose links into the
    curriculum are made to lead into the workspace. A file that the learner did not change is replaced when there is
    a new version; a notebook keeps the outputs of those cells whose id and source stay the same. A file that the
    learner changed stays, and a new version is laid beside it, once, as `NAME.new.ipynb`. A file that was handed out
    and is missing is brought back. A file that the learner made is never touched.

    Args:
        curriculum: the folder of released notebooks.
        workspace: the learner's folder; made when absent.

    Raises:
        WorkspaceError: there is no curriculum, a released notebook is not readable, or something of the learner's
            stands where a folder must be.
    """
    if not curriculum.is_dir():
        raise WorkspaceError(f"{curriculum} is not there; run `make notebooks` in the course's folder to build it")
    _make_folder(workspace, workspace / PRIVATE_FOLDER)
    report = WorkspaceReport()
    manifest = _Manifest(workspace, report)
    released = dict(_released_files(curriculum))
    for name, content in released.items():
        _fill_file(workspace, name, content, manifest, report)
    for name in sorted(set(manifest.files) - set(released)):
        if (workspace / name).exists():
            report.withdrawn.append(name)
        del manifest.files[name]
    manifest.save()
    return report


def _fill_file(workspace: Path, name: str, content: bytes, manifest: _Manifest, report: WorkspaceReport) -> None:
    target = workspace / name
    entry = manifest.files.setdefault(name, HandedOut())
    version = fingerprint(name, content)
    seen_before = entry.content == (digest := hashlib.sha256(content).hexdigest())

    if not target.is_symlink() and not target.exists():
        (report.restored if entry.basis else report.added).append(name)
        manifest.announce(name, version)
        _make_folder(workspace, target.parent)
        write_atomically(workspace, target, content)
        entry.basis = version
    else:
        current = target.read_bytes() if target.is_file() else None
        present = None if current is None else fingerprint(name, current)
        if present == version and seen_before and entry.basis == version:
            return
        if current is not None and (present == version or present in entry.versions):
            renewed = _with_outputs_of(current, content) if name.endswith(".ipynb") else content
            # The same version in other clothes (metadata, or found after an interrupted run) is not worth a line.
            if present != version:
                report.updated.append(name)
            manifest.announce(name, version)
            if renewed != current:
                write_atomically(workspace, target, renewed)
            entry.basis = version
        elif version not in (entry.basis, entry.offered):
            beside = _place_beside(target, version, entry)
            manifest.announce(name, version)
            if not beside.exists() or fingerprint(name, beside.read_bytes()) != version:
                write_atomically(workspace, beside, content)
                report.kept.append((name, beside.relative_to(workspace).as_posix()))
            entry.offered = version
    entry.content = digest
    manifest.save()


def _place_beside(target: Path, version: str, entry: HandedOut) -> Path:
    """Where to lay a new version: a free name, or that of an earlier offer which the learner has not changed."""
    number = 1
    while True:
        middle = ".new" if number == 1 else f".new-{number}"
        beside = target.with_name(target.stem + middle + target.suffix)
        if not beside.is_symlink() and not beside.exists():
            return beside
        if beside.is_file() and fingerprint(beside.name, beside.read_bytes()) in (version, *entry.versions):
            return beside
        number += 1


class _Manifest:
    """The manifest of a workspace: read on creation, saved as a whole."""

    def __init__(self, workspace: Path, report: WorkspaceReport) -> None:
        self._workspace = workspace
        self._path = workspace / PRIVATE_FOLDER / "manifest.json"
        self.files: dict[str, HandedOut] = {}
        if not self._path.exists():
            return
        try:
            document = json.loads(self._path.read_bytes())
            if document["version"] != MANIFEST_VERSION:
                raise ValueError(f"version {document['version']!r}")
            self.files = {name: HandedOut(**entry) for name, entry in document["files"].items()}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self.files = {}
            report.remarks.append(
                f"{self._path} could not be read ({type(error).__name__}: {error}) and is made anew; every file that "
                "differs from the course counts as changed by you"
            )

    def announce(self, name: str, version: str) -> None:
        """Remember a version before it is written: were the run interrupted, it must not pass for the learner's."""
        if version not in self.files[name].versions:
            self.files[name].versions.append(version)
            self.save()

    def save(self) -> None:
        """Write the manifest."""
        files = {name: asdict(entry) for name, entry in sorted(self.files.items())}
        document = {"version": MANIFEST_VERSION, "files": files}
        write_atomically(self._workspace, self._path, (json.dumps(document, indent=1) + "\n").encode())


def _released_files(curriculum: Path) -> Iterator[tuple[str, bytes]]:
    """Relative path and content of each released file, in a stable order."""
    for path in sorted(curriculum.rglob("*")):
        relative = path.relative_to(curriculum)
        hidden = any(part.startswith(".") or part == "__pycache__" for part in relative.parts)
        if hidden or not path.is_file():
            continue
        content = path.read_bytes()
        if path.suffix == ".ipynb" and _cells(content) is None:
            raise WorkspaceError(f"{path} is not a notebook; run `make notebooks` to build it again")
        yield relative.as_posix(), content
    places = [curriculum.parent / page for page in PAGES]
    pages = {place.name: place.read_bytes().decode() for place in places if place.is_file()}
    headings = {name: _headings(text) for name, text in pages.items()}
    for name, text in pages.items():
        yield name, _links_to_headings(_links_into_workspace(text, curriculum.name), name, headings).encode()


def _links_into_workspace(markdown: str, curriculum: str) -> str:
    """Markdown whose links into the curriculum's folder are relative to the workspace instead."""
    return re.sub(rf"(\]\(<?)(?:\./)?{re.escape(curriculum)}/", r"\1", markdown)


def _headings(markdown: str) -> dict[str, str]:
    """For each heading how a link names it on GitHub and on the website, and how JupyterLab names it."""
    texts = re.findall(r"^#+ +(.*?) *$", markdown, re.MULTILINE)
    return {heading_anchor(text): text.replace(" ", "-") for text in texts}


def _links_to_headings(markdown: str, page: str, headings: dict[str, dict[str, str]]) -> str:
    """Markdown whose links to headings work in JupyterLab, too.

    It calls a heading by its text as it stands, and finds it only if the link names the page, even its own.
    """

    def renamed(link: re.Match[str]) -> str:
        target, anchor = link[1] or page, link[2]
        known = headings.get(target, {})
        return f"]({target}#{known[anchor]})" if anchor in known else link[0]

    return re.sub(r"\]\(([^()#\s]*)#([^()\s]+)\)", renamed, markdown)


def _with_outputs_of(current: bytes, new: bytes) -> bytes:
    """The new version of a notebook, with the outputs of those code cells that stay the same."""
    notebook = json.loads(new)
    before = {cell.get("id"): cell for cell in _cells(current) or [] if cell.get("cell_type") == "code"}
    for cell in notebook["cells"]:
        old = before.get(cell.get("id"))
        if cell.get("cell_type") == "code" and old is not None and _source(old) == _source(cell):
            cell["outputs"] = old.get("outputs", [])
            cell["execution_count"] = old.get("execution_count")
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


def _cells(content: bytes) -> list[dict[str, Any]] | None:
    """The cells of a notebook, or `None` when the content is no notebook."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return None
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        return None
    return cells


def _source(cell: dict[str, Any]) -> str:
    source = cell.get("source", "")
    return "".join(map(str, source)) if isinstance(source, list) else str(source)


def _make_folder(workspace: Path, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise WorkspaceError(
            f"{error.filename} is a file, but the course needs a folder of this name in {workspace}; "
            "rename or move your file and run this again"
        ) from error


def write_atomically(workspace: Path, target: Path, content: bytes) -> None:
    """Replace a file of the workspace in one step: readers see the old content or the new, never a part."""
    scratch = workspace / PRIVATE_FOLDER
    scratch.mkdir(exist_ok=True)
    write_whole(target, content, scratch)
