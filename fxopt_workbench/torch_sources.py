"""`source("c10/core/TensorImpl.h", "storage_offset_")`: lines of PyTorch's own source, from what is installed here.

The wheel brings the C++ headers, the operator definitions with their derivatives, the code generator and all of Python.
A quotation is found by file and symbol and never copied into a text: with another release of torch it shows what that
release says, and where the symbol is gone it says so instead of showing something stale.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
import torchgen

REPOSITORY = "https://github.com/pytorch/pytorch/blob"

MOST_LINES = 40
"""Longest quotation unless asked otherwise, in lines; what is longer is cut, and says so."""

_TORCH, _TORCHGEN = (Path(next(iter(package.__path__))) for package in (torch, torchgen))

_PLACES = (
    # Where in the repository, and where in the wheel; the first that fits counts.
    ("c10/", _TORCH / "include" / "c10"),
    ("aten/src/ATen/native/native_functions.yaml", _TORCHGEN / "packaged/ATen/native/native_functions.yaml"),
    ("aten/src/ATen/native/tags.yaml", _TORCHGEN / "packaged/ATen/native/tags.yaml"),
    ("aten/src/ATen/", _TORCH / "include" / "ATen"),
    ("tools/autograd/", _TORCHGEN / "packaged" / "autograd"),
    ("torchgen/", _TORCHGEN),
    ("torch/csrc/", _TORCH / "include" / "torch" / "csrc"),
    ("torch/", _TORCH),
    ("torch/", _TORCH / "include" / "torch"),
)

GENERATED = re.compile(
    r"^(aten/src/ATen/(ops/.*|(Functions|TensorBody|Operators|CPUFunctions\w*|NativeFunctions)\.h)"
    r"|torch/csrc/autograd/generated/.*\.h)$"
)
"""Headers that the build makes; the repository does not hold them."""


class SourceNotFoundError(LookupError):
    """The file or the symbol is not in this release of torch; the message says what comes near."""


@dataclass(frozen=True)
class Quotation:
    """Some lines of PyTorch's source. Shows itself in a notebook as code with a link.

    Attributes:
        file: path in PyTorch's repository.
        symbol: what was looked for.
        first: number of the first line, from 1.
        last: number of the last line shown.
        text: the lines.
        cut: how many further lines belong to it that are not shown.
        link: the same lines on GitHub, at the tag of this release; `None` for a file that the build makes.
        version: the release of torch.
    """

    file: str
    symbol: str
    first: int
    last: int
    text: str
    cut: int
    link: str | None
    version: str

    @property
    def where(self) -> str:
        """File and lines in words."""
        lines = f"line {self.first}" if self.first == self.last else f"lines {self.first} to {self.last}"
        return f"{self.file}, {lines} (torch {self.version})"

    def __str__(self) -> str:
        return "\n".join([f"{self.where}:", self.text, *self._notes()])

    def _repr_markdown_(self) -> str:
        language = {".py": "python", ".yaml": "yaml"}.get(Path(self.file).suffix, "cpp")
        # `__init__.py` is a name, and not in bold.
        escaped = self.where.replace("_", r"\_")
        where = f"[{escaped}]({self.link})" if self.link else escaped
        return "\n\n".join([where, f"```{language}\n{self.text}\n```", *self._notes()])

    def _notes(self) -> list[str]:
        notes = [f"({self.cut} more lines are not shown.)"] if self.cut else []
        return notes if self.link else [*notes, "(The build makes this file; the repository does not hold it.)"]


def source(file: str, symbol: str, *, occurrence: int | None = None, most: int = MOST_LINES) -> Quotation:
    """The lines of PyTorch's source that define a symbol, read from the torch that is installed.

    Args:
        file: path in PyTorch's repository, as `c10/core/TensorImpl.h`, `aten/src/ATen/native/native_functions.yaml`,
            `tools/autograd/derivatives.yaml`, `torch/csrc/autograd/engine.h` or `torch/nn/modules/module.py`.
        symbol: a name that the file defines: a class, function, member, macro or enumerator; in a YAML file the name of
            an entry (`add.Tensor`); in Python also `Class.method`.
        occurrence: which of the places that mention the symbol to quote, from 1 in the order of the file; without it,
            the definition.
        most: longest quotation, in lines.

    Raises:
        SourceNotFoundError: this release has no such file, or the file no such symbol.
    """
    path = installed(file)
    content = path.read_text(encoding="utf-8")
    lines = content.splitlines()
    places = [number for number, line in enumerate(lines) if _mentions(line, symbol, path)]
    found = _definition(path, lines, symbol) if occurrence is None else _chosen(lines, places, occurrence, file, symbol)
    if found is None:
        raise SourceNotFoundError(
            f"{file} of torch {torch.__version__} does not define {symbol!r}.{_near(symbol, content, places)} "
            "It may have moved in this release: look for it on GitHub, and correct the locator."
        )
    first, last = found
    shown = lines[first : min(last, first + most)]
    version = torch.__version__.split("+")[0]
    link = None
    if not GENERATED.match(file):
        link = f"{REPOSITORY}/v{version}/{file}#L{first + 1}-L{first + len(shown)}"
    text = "\n".join(shown)
    return Quotation(file, symbol, first + 1, first + len(shown), text, last - first - len(shown), link, version)


def installed(file: str) -> Path:
    """Where a file of PyTorch's repository lies in the wheel.

    Raises:
        SourceNotFoundError: the wheel does not bring it, or this release does not have it.
    """
    places = [place for place in _PLACES if file == place[0] or (place[0].endswith("/") and file.startswith(place[0]))]
    for prefix, place in places:
        path = place / file.removeprefix(prefix) if prefix.endswith("/") else place
        if path.is_file():
            return path
    if not places:
        known = ", ".join(dict.fromkeys(prefix for prefix, _ in _PLACES if prefix.endswith("/")))
        raise SourceNotFoundError(
            f"{file!r} is no path in PyTorch's repository of which the wheel brings anything; such paths begin {known}"
        )
    others = [
        prefix + path.relative_to(place).as_posix() for prefix, place in places for path in _beside(file, prefix, place)
    ]
    near = difflib.get_close_matches(file, others, 3, 0.5)
    hint = f" Near it lie {', '.join(near)}." if near else ""
    raise SourceNotFoundError(
        f"the installed torch {torch.__version__} brings no {file}.{hint} Of C++ the wheel holds headers (.h) only."
    )


def _beside(file: str, prefix: str, place: Path) -> list[Path]:
    """The files in the folder where a file would lie, or in the nearest one above it."""
    folder = (place / file.removeprefix(prefix)).parent
    while not folder.is_dir() and folder != place.parent:
        folder = folder.parent
    return [path for path in sorted(folder.iterdir()) if path.is_file() and path.is_relative_to(place)]


def _near(symbol: str, text: str, places: list[int]) -> str:
    if places:
        lines = "line" if len(places) == 1 else "lines"
        return f" It mentions it in {len(places)} {lines}; `occurrence=1` quotes the first."
    words = sorted(set(re.findall(r"[A-Za-z_][\w.]{2,}", text)))
    near = difflib.get_close_matches(symbol, words, 3, 0.75)
    return f" It mentions {', '.join(near)}." if near else ""


def _mentions(line: str, symbol: str, path: Path) -> bool:
    comment = "#" if path.suffix in (".py", ".yaml") else "//"
    return re.search(rf"(?<!\w){re.escape(symbol)}(?!\w)", line.split(comment)[0]) is not None


def _chosen(lines: list[str], places: list[int], occurrence: int, file: str, symbol: str) -> tuple[int, int]:
    if not 1 <= occurrence <= len(places):
        raise SourceNotFoundError(
            f"{file} of torch {torch.__version__} mentions {symbol!r} in {len(places)} lines; there is no occurrence "
            f"{occurrence}."
        )
    return _extent(lines, places[occurrence - 1])


def _definition(path: Path, lines: list[str], symbol: str) -> tuple[int, int] | None:
    if path.suffix == ".py":
        return _python_definition("\n".join(lines), symbol)
    if path.suffix == ".yaml":
        return _yaml_entry(lines, symbol)
    name = re.escape(symbol)
    kinds = (
        rf"^\s*(template\s*<.*>\s*)?((class|struct|enum(\s+(class|struct))?|union|namespace)\s+([A-Z0-9_]+\s+)?{name}\b(?![^{{]*;\s*$)"
        rf"|#\s*define\s+{name}\b|using\s+{name}\s*=|typedef\b.*\b{name}\s*;)",
        # A function with its body, a member, then what is only declared.
        rf"^(?!\s*(return|//|\*|#)).*[\w>&*\]]\s+[&*]*(\w+::)*{name}\s*\([^;]*$",
        rf"^(?!\s*(return|//|\*|#)).*[\w>&*\]]\s+[&*]*{name}\s*(\{{.*\}}|=[^=].*|\[.*\]|:\s*\d+)?\s*;",
        rf"^(?!\s*(return|//|\*|#)).*[\w>&*\]]\s+[&*]*(\w+::)*{name}\s*\(",
        rf"^\s*{name}\s*(=[^=].*)?,\s*(//.*)?$",
        rf"^\s*{name}\s*\([^;]*$",
    )
    for kind in kinds:
        for number, line in enumerate(lines):
            if re.search(kind, line):
                return _extent(lines, number)
    return None


def _python_definition(text: str, symbol: str) -> tuple[int, int] | None:
    body: list[ast.stmt] = ast.parse(text).body
    node: ast.stmt | None = None
    for part in symbol.split("."):
        node = next((one for one in _statements(body) if part in _binds(one)), None)
        if node is None:
            return None
        body = getattr(node, "body", [])
    assert node is not None
    decorators = [decorator.lineno for decorator in getattr(node, "decorator_list", [])]
    return min([node.lineno, *decorators]) - 1, node.end_lineno or node.lineno


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a body, and of the conditions at its top."""
    for one in body:
        yield one
        if isinstance(one, ast.If | ast.Try):
            yield from _statements([*one.body, *one.orelse])


def _binds(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _yaml_entry(lines: list[str], symbol: str) -> tuple[int, int] | None:
    starts = re.compile(rf"^-\s*(func|name|tag):\s*{re.escape(symbol)}(?![\w.])")
    for number, line in enumerate(lines):
        if starts.match(line):
            last = number + 1
            while last < len(lines) and not lines[last].startswith("- ") and lines[last].strip():
                last += 1
            return number, last
    return None


_NOT_CODE = re.compile(r"""\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])'|//.*|/\*.*?\*/|^\s*(\*|/\*(?!.*\*/)).*""")
"""Strings and comments, in whose braces nothing begins or ends."""


def _extent(lines: list[str], number: int) -> tuple[int, int]:
    """From the comment above a line to the end of what the line begins."""
    first = number
    while first and re.match(r"\s*(//|///|\*|/\*|template\s*<)", lines[first - 1]) and number - first < 12:
        first -= 1
    depth, last, opened = 0, number, False
    inside, left_out = 0, False
    while last < len(lines):
        code = _NOT_CODE.sub("", lines[last])
        if directive := re.match(r"\s*#\s*(if|else|elif|endif)", code):
            # The same beginning may be written twice, for two systems: only the brace of the first counts.
            if directive[1] == "if":
                inside += 1
            elif inside:
                inside -= directive[1] == "endif"
            elif directive[1] == "endif":
                left_out = False
            else:
                left_out = True
                first -= first > 0 and re.match(r"\s*#\s*if", lines[first - 1]) is not None
        if left_out:
            last += 1
            continue
        depth += code.count("{") - code.count("}") + code.count("(") - code.count(")")
        opened = opened or "{" in code
        last += 1
        ended = code.rstrip().endswith((";", ",", "}")) or (opened and depth <= 0) or code.lstrip().startswith("#")
        if depth <= 0 and ended and not code.rstrip().endswith("\\"):
            break
    return first, last
