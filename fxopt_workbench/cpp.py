"""Builds operators that are written in C++ against the PyTorch that is installed, and remembers what it has built.

`load(source)` in a notebook; `build(source)` for the library as bytes, which nothing has loaded yet. It does what
`torch.utils.cpp_extension` does, in seconds instead of a minute: no headers of Python, and PyTorch's largest headers
compiled ahead, once for each version of PyTorch and of the compiler. What was built is kept by its content, so that the
same source never costs a second build. Imports no torch by itself.

`load_module(name, source)` is for a source that pybind11 makes a module of Python: it gets Python's headers, too, and
takes some ten seconds.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.metadata import version
from importlib.util import find_spec, module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from filelock import FileLock

SECONDS = 110.0
"""Wall time that one build may take: several times its processor time, on a machine that is busy with other things."""

PROCESSOR_SECONDS = 50
"""Processor time that each process of a build may take."""

MEMORY_BYTES = 6 << 30
"""Address space that each process of a build may take."""

AHEAD_SECONDS = 600.0
"""Wall time that compiling the headers ahead may take, once."""

MOST_CHARACTERS = 100_000
"""Longest source, in characters."""

MOST_BYTES = 32 << 20
"""Largest library that is kept, in bytes."""

MOST_KEPT = 400
"""How many libraries and errors are kept; the ones that were asked for longest ago go first."""

CACHE_VARIABLE = "FXOPT_CPP_CACHE"
"""Environment variable that names the folder for what was built, instead of one among the user's caches."""

HEADERS = (
    "torch/library.h",
    "ATen/core/Tensor.h",
    "ATen/Dispatch.h",
    "ATen/Functions.h",
    "ATen/TensorOperators.h",
    "ATen/TensorIterator.h",
    "ATen/native/cpu/Loops.h",
    "ATen/CPUGeneratorImpl.h",
    "ATen/core/DistributionsHelper.h",
)
"""What is compiled ahead. A source still includes what it needs: elsewhere nobody does that for it."""

AUTOGRAD_HEADERS = (*HEADERS, "torch/csrc/autograd/custom_function.h")
"""What is compiled ahead for a source that includes something of autograd; compiling it takes a second more."""

WHOLE = ("torch/torch.h", "torch/all.h", "torch/extension.h")
"""Headers that include nearly all others."""

UNSTABLE_HEADERS, STABLE_HEADERS = ("torch/", "ATen/", "c10/"), ("torch/csrc/stable/", "torch/headeronly/")
"""A source that includes none of the first kind, except of the second, is built without what was compiled ahead."""

NAME = "operators.cpp"
"""What the compiler calls a source in its messages."""

FLAGS = ("-std=c++20", "-O2", "-fPIC", "-w", "-fmax-errors=3", "-fdiagnostics-color=never")

LIBRARIES = ("torch", "torch_cpu", "c10")

NO_UNDEFINED = "-Wl,--no-undefined"
"""Asks the linker to name what is declared and never written, instead of whoever loads the library."""


class NoCompilerError(OSError):
    """No compiler works here, or a header is missing; the message says what to get. Nobody's source is at fault."""


class CompileError(ValueError):
    """A source cannot be built; the message is one line and names the place."""


class EndlessBuildError(CompileError):
    """The compiler came to no end over a source, or was given up for the memory that it took."""


class Ended(NamedTuple):
    """How a command ended: exit code (`None`: it took too long), what it wrote, and what it complained of."""

    code: int | None
    written: bytes
    complaint: str


Run = Callable[[Sequence[str], bytes, Path, float], Ended]
"""Runs a command on bytes, where it may read a folder besides the system's, for so many seconds."""


@dataclass(frozen=True)
class Toolchain:
    """A compiler with what it needs to build against the installed PyTorch.

    Attributes:
        compiler: path.
        compiling: its options up to the source.
        linking: its options after the source.
        digest: of all that decides what it builds, besides the source.
    """

    compiler: str
    compiling: tuple[str, ...]
    linking: tuple[str, ...]
    digest: str


@cache
def toolchain() -> Toolchain:
    """The compiler that `CXX` names, or the system's.

    Raises:
        NoCompilerError: there is none.
    """
    wanted = os.environ.get("CXX")
    found = next(
        (path for name in ([wanted] if wanted else ["g++", "clang++", "c++"]) if (path := shutil.which(name))), None
    )
    if found is None:
        raise NoCompilerError(
            f"there is no C++ compiler{f' {wanted!r}, which CXX names' if wanted else ''}: install one (Debian, "
            "Ubuntu: apt-get install g++; macOS: xcode-select --install), and let the variable CXX name it or be unset"
        )
    about = subprocess.run([found, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    spec = find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    home = Path(spec.origin).parent
    include = home / "include"
    compiling = (*FLAGS, f"-I{include}", f"-I{include / 'torch/csrc/api/include'}")
    linking = ("-shared", f"-L{home / 'lib'}", *(f"-l{name}" for name in LIBRARIES))
    if sys.platform == "linux":
        linking = (*linking, NO_UNDEFINED, "-Wl,-s")
    digest = _digest(about, version("torch"), *compiling, *linking, *AUTOGRAD_HEADERS)
    return Toolchain(found, compiling, linking, digest)


def python_toolchain() -> Toolchain:
    """The same compiler, for libraries that Python imports.

    Raises:
        NoCompilerError: there is none, or Python's headers are not there.
    """
    tools = toolchain()
    include = Path(sysconfig.get_paths()["include"])
    if not (include / "Python.h").is_file():
        raise NoCompilerError(
            "the headers of Python (Python.h) are not there: install them (Debian, Ubuntu: apt-get install python3-dev)"
        )
    # Functions of Python come from the program that imports the module: the linker must not mind that it finds none.
    linking = (*(option for option in tools.linking if option != NO_UNDEFINED), "-ltorch_python")
    if sys.platform == "darwin":
        linking = (*linking, "-undefined", "dynamic_lookup")
    compiling = (*tools.compiling, f"-I{include}")
    return Toolchain(tools.compiler, compiling, linking, _digest(tools.digest, sys.version, *compiling, *linking))


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def cache_folder() -> Path:
    """Where what was built is kept."""
    if CACHE_VARIABLE in os.environ:
        return Path(os.environ[CACHE_VARIABLE])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fxopt" / "cpp"


def run_here(command: Sequence[str], given: bytes, readable: Path, seconds: float) -> Ended:
    """Run a command as a plain process."""
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={"PATH": os.environ.get("PATH", os.defpath), "TMPDIR": folder, "LANG": "C.UTF-8"},
            start_new_session=True,
        ) as process,
    ):
        try:
            written, complaint = process.communicate(given, seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return Ended(None, b"", "")
    return Ended(process.returncode, written, complaint.decode(errors="replace"))


# The source comes in and the library goes out through pipes: a sandbox needs no folder that anything outside reads.
_SCRIPT = (
    f"ulimit -t {PROCESSOR_SECONDS}; ulimit -v {MEMORY_BYTES >> 10} 2>/dev/null; "
    'out="$(mktemp -d)/library" && first="$1" && shift && "$first" -o "$out" "$@" && cat "$out"'
)


def build(source: str, run: Run = run_here) -> bytes:
    """The library that a source makes, from the cache where it has been built before. It is not loaded.

    Args:
        source: C++ in one piece, with its includes.
        run: how the compiler is run; what reads a learner's source does so in a sandbox.

    Raises:
        CompileError: it cannot be built, or not within `SECONDS`.
        NoCompilerError: there is no compiler.
    """
    return _build(source, run, toolchain())


def _kept(source: str, tools: Toolchain) -> Path:
    """Where the library of a source lies, once it is built."""
    return cache_folder() / f"{_digest(tools.digest, source)}.library"


def _build(source: str, run: Run, tools: Toolchain) -> bytes:
    if len(source) > MOST_CHARACTERS:
        raise CompileError(f"the source has {len(source)} characters; at most {MOST_CHARACTERS} are built")
    readable = cache_folder() / toolchain().digest
    readable.mkdir(parents=True, exist_ok=True)
    library = _kept(source, tools)
    error = library.with_suffix(".error")
    for path in (library, error):
        with suppress(FileNotFoundError):
            content = path.read_bytes()
            os.utime(path)
            if path == error:
                raise CompileError(content.decode())
            return content
    headers = _headers_for(source)
    included = ("-include", str(headers_ahead(headers))) if headers else ()
    command = ["sh", "-c", _SCRIPT, "sh", tools.compiler, *included, *tools.compiling, "-x", "c++", "-", *tools.linking]
    text = f'#line 1 "{NAME}"\n{source}\n'.encode(errors="replace")
    ended = run(command, text, readable, SECONDS)
    if ended.code == 0 and 0 < len(ended.written) <= MOST_BYTES:
        _keep(library, ended.written)
        return ended.written
    if ended.complaint.startswith("bwrap: "):
        raise NoCompilerError(f"the sandbox in which the compiler runs did not start: {_cut(ended.complaint)}")
    if ended.code is None or ended.code > 128 or any(words in ended.complaint for words in _EXHAUSTED):
        # Whether that happens again may depend on what else the machine does: it is not kept.
        raise EndlessBuildError(f"the compiler came to no end within {SECONDS:.0f} seconds, or needed too much memory")
    if ended.code == 0:
        raise CompileError(f"the library has {len(ended.written)} bytes; at most {MOST_BYTES} are kept")
    said = in_short(ended.complaint)
    _keep(error, said.encode())
    raise CompileError(said)


_EXHAUSTED = ("signal terminated program", "out of memory", "memory exhausted", "cannot allocate memory")
"""What compilers say when somebody ended a part of them, or when it got no more memory."""


def _headers_for(source: str) -> tuple[str, ...]:
    """What a source gets that was compiled ahead. One that keeps to the stable ABI must not be given PyTorch's C++."""
    included = re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)', source, re.MULTILINE)
    unstable = [name for name in included if name.startswith(UNSTABLE_HEADERS) and not name.startswith(STABLE_HEADERS)]
    return (
        (AUTOGRAD_HEADERS if any(name in WHOLE or "autograd" in name for name in unstable) else HEADERS)
        if unstable
        else ()
    )


def headers_ahead(headers: tuple[str, ...] = HEADERS) -> Path:
    """A header that includes these, beside which they lie compiled; made when it is first asked for.

    Raises:
        NoCompilerError: the compiler cannot read PyTorch's headers.
    """
    tools = toolchain()
    folder = cache_folder() / tools.digest
    folder.mkdir(parents=True, exist_ok=True)
    header = folder / f"ahead{len(headers)}.h"
    compiled = header.with_suffix(".h.gch")
    if compiled.is_file():
        return header
    # Half a minute of processor time: whoever wants them meanwhile waits for them.
    with FileLock(folder / f"ahead{len(headers)}.lock"):
        if compiled.is_file():
            return header
        _keep(header, "".join(f"#include <{name}>\n" for name in headers).encode())
        with tempfile.TemporaryDirectory(dir=folder) as made:
            path = Path(made) / "made.gch"
            command = [tools.compiler, *tools.compiling, "-x", "c++-header", str(header), "-o", str(path)]
            ended = run_here(command, b"", folder, AHEAD_SECONDS)
            if ended.code != 0:
                raise NoCompilerError(f"PyTorch's headers cannot be compiled here: {in_short(ended.complaint)}")
            path.replace(compiled)
    return header


def _keep(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, and make room for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
        file.write(content)
    Path(file.name).replace(path)
    kept = [one for kind in ("library", "error") for one in path.parent.glob(f"*.{kind}")]
    if len(kept) > MOST_KEPT:
        for old in sorted(kept, key=lambda one: one.stat().st_mtime)[: len(kept) - MOST_KEPT]:
            old.unlink(missing_ok=True)


_PLACE = re.compile(rf"^{re.escape(NAME)}:(\d+):\d+: (?:fatal )?error: (.*)$")
_ELSEWHERE = re.compile(r"^[^:\n]+:\d+:\d+: (?:fatal )?error: (.*)$")
_FROM = re.compile(rf"{re.escape(NAME)}:(\d+)(?::\d+)?")
_ASSEMBLER = re.compile(r"^[^:\n]+:\d+: Error: (.*)$")
_LINKER = re.compile(r"undefined reference to [`'](.*)'$")

MOST_TOLD = 260
"""Characters of an error that are told."""


def in_short(complaint: str) -> str:
    """The first thing that a compiler complains of, in one line: where in the source, what, and the line itself."""
    lines = complaint.splitlines()
    for number, line in enumerate(lines):
        if place := _PLACE.match(line):
            shown = next((one.partition("|")[2].strip() for one in lines[number + 1 : number + 3] if "|" in one), "")
            return _cut(f"line {place[1]}: {place[2]}") + (f" (in `{_cut(shown, 100)}`)" if shown else "")
        if elsewhere := _ELSEWHERE.match(line):
            # In one of PyTorch's headers: the line of the source that led there stands around it.
            before = [found[1] for one in lines[:number] if (found := _FROM.search(one))]
            after = [found[1] for one in lines[number:] if (found := _FROM.search(one))]
            led = (before[-1:] or after[:1] or [""])[0]
            return _cut((f"line {led}: " if led else "") + elsewhere[1])
    for line in lines:
        if found := _LINKER.search(line):
            return _cut(f"`{found[1]}` is declared and used, but nowhere written")
        if found := _ASSEMBLER.match(line):
            return _cut(f"in its assembly: {found[1]}")
    told = [line.strip() for line in lines if line.strip()]
    return _cut(told[0] if told else "the compiler failed and did not say why")


def _cut(text: str, most: int = MOST_TOLD) -> str:
    return text if len(text) <= most else f"{text[:most]} …"


def load(source: str) -> Path:
    """Build a source and load its operators into this process; the library's file.

    A process can load one version of a namespace: after a change, restart the kernel, or give it another name.

    Raises:
        CompileError: it cannot be built.
        NoCompilerError: there is no compiler.
        OSError: it cannot be loaded; the message says why.
    """
    import torch

    build(source)
    path = _kept(source, toolchain())
    torch.ops.load_library(path)
    return path


def load_module(name: str, source: str) -> ModuleType:
    """Build a source with `PYBIND11_MODULE(name, …)` in it and import it; what it registers as operators is there, too.

    Args:
        name: that of the module, as the source says it.
        source: C++ in one piece, with its includes.

    Raises:
        CompileError: it cannot be built.
        NoCompilerError: there is no compiler, or Python has no headers here.
        ImportError: it cannot be imported; the message says why.
    """
    import torch  # noqa: F401 - its libraries must be in the process before those that need them

    tools = python_toolchain()
    _build(source, run_here, tools)
    loader = ExtensionFileLoader(name, str(_kept(source, tools)))
    spec = spec_from_loader(name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
