"""Building C++: what is kept, what is told of errors, and what is nobody's fault."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from fxopt_workbench import cpp
from fxopt_workbench.cpp import CompileError, Ended, NoCompilerError, build, in_short, load_module

ANSWER = 'extern "C" int answer() { return 42; }'


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(cpp.CACHE_VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


class Counting:
    """Runs a compiler and counts how often."""

    def __init__(self, instead: Ended | None = None) -> None:
        self.count, self.instead = 0, instead

    def __call__(self, command: Sequence[str], given: bytes, readable: Path, seconds: float) -> Ended:
        self.count += 1
        return self.instead or cpp.run_here(command, given, readable, seconds)


def test_the_same_source_is_built_once_and_another_one_anew(tmp_path: Path) -> None:
    run = Counting()
    first = build(ANSWER, run)
    assert build(ANSWER, run) == first
    assert run.count == 1
    (tmp_path / "library.so").write_bytes(first)
    assert ctypes.CDLL(str(tmp_path / "library.so")).answer() == 42
    assert build(ANSWER.replace("42", "43"), run) != first
    assert run.count == 2


def test_an_error_is_one_line_with_its_place_and_is_kept(empty_cache: Path) -> None:
    run = Counting()
    for _ in range(2):
        with pytest.raises(CompileError) as raised:
            build("int f() {\n  return missing + 1;\n}", run)
        assert str(raised.value).startswith("line 2: ")
        assert "missing" in str(raised.value)
        assert "\n" not in str(raised.value)
    assert run.count == 1
    assert [path.suffix for path in empty_cache.glob("*.*")] == [".error"]


def test_what_is_declared_and_never_written_is_told() -> None:
    with pytest.raises(CompileError, match=r"`elsewhere\(\)` is declared and used, but nowhere written"):
        build('int elsewhere();\nextern "C" int f() { return elsewhere(); }')


def test_what_another_run_might_do_otherwise_is_not_kept(empty_cache: Path) -> None:
    for ended in (
        Ended(None, b"", ""),
        Ended(137, b"", ""),
        Ended(1, b"", "g++: fatal error: Killed signal terminated program cc1plus"),
    ):
        with pytest.raises(CompileError, match="no end within 110 seconds, or needed too much memory"):
            build(ANSWER, Counting(ended))
    with pytest.raises(NoCompilerError, match="the sandbox in which the compiler runs did not start"):
        build(ANSWER, Counting(Ended(1, b"", "bwrap: No permissions to create new namespace")))
    assert list(empty_cache.glob("*.*")) == []
    assert build(ANSWER)


def test_a_source_or_library_without_measure_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CompileError, match="100001 characters; at most 100000"):
        build(" " * 100_001, Counting(Ended(0, b"never built", "")))
    monkeypatch.setattr(cpp, "MOST_BYTES", 100)
    with pytest.raises(CompileError, match="bytes; at most 100 are kept"):
        build(ANSWER)


def test_a_compiler_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    begun = time.monotonic()
    ended = cpp.run_here(["sh", "-c", f"sleep 60 & echo $! > {tmp_path}/child; wait"], b"", tmp_path, 1.0)
    assert ended.code is None
    assert time.monotonic() - begun < 30
    child = int((tmp_path / "child").read_text())
    for _ in range(200):
        if not _runs(child):
            break
        time.sleep(0.05)
    assert not _runs(child)


def _runs(process: int) -> bool:
    """Whether a process is there, and more than a note of its end that nobody has read."""
    return psutil.pid_exists(process) and psutil.Process(process).status() != psutil.STATUS_ZOMBIE


def test_what_was_asked_for_longest_ago_goes_first(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp, "MOST_KEPT", 2)
    sources = [ANSWER.replace("42", str(number)) for number in range(3)]
    run = Counting()
    for age, source in enumerate(sources[:2]):
        build(source, run)
        for path in empty_cache.glob("*.library"):
            os.utime(path, (1000 + age, 1000 + age))
    build(sources[0], run)  # asked for again, and so the youngest
    for path in empty_cache.glob("*.library"):
        assert path.stat().st_mtime > 1000
    build(sources[2], run)
    assert run.count == 3
    build(sources[0], run)
    assert run.count == 3, "what was asked for again went before what was not"


def test_only_a_source_that_includes_pytorchs_classes_gets_their_headers() -> None:
    stable = "#include <torch/csrc/stable/library.h>\n#include <torch/headeronly/core/ScalarType.h>\n"
    for source, headers in (
        (ANSWER, ()),
        (stable, ()),
        ("  #  include <torch/library.h>", cpp.HEADERS),
        (stable + "#include <ATen/Dispatch.h>", cpp.HEADERS),
        ('#include "torch/csrc/autograd/custom_function.h"', cpp.AUTOGRAD_HEADERS),
        ("#include <torch/extension.h>", cpp.AUTOGRAD_HEADERS),
    ):
        assert cpp._headers_for(source) == headers, source


def test_an_error_inside_a_header_names_the_line_that_led_there() -> None:
    complaint = """In file included from ahead.h:1:
include/torch/library.h: In instantiation of 'void check() [with T = float]':
operators.cpp:14:8:   required from here
include/ATen/core/infer_schema.h:55:17: error: static assertion failed: Please use double
"""
    assert in_short(complaint) == "line 14: static assertion failed: Please use double"
    assert in_short("something else\nmore") == "something else"
    assert in_short("") == "the compiler failed and did not say why"


def test_no_compiler_is_said_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    cpp.toolchain.cache_clear()
    try:
        with pytest.raises(NoCompilerError, match=r"'no-such-compiler', which CXX names: install one"):
            cpp.toolchain()
    finally:
        cpp.toolchain.cache_clear()


MODULE = """#include <pybind11/pybind11.h>
PYBIND11_MODULE(fxopt_small, m) { m.def("answer", [] { return 42; }); }
"""


def test_a_module_of_python_is_built_once_and_imported(empty_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_module("fxopt_small", MODULE).answer() == 42
    (library,) = empty_cache.glob("*.library")
    # The same source for whoever loads no Python is another library: it is built with other options.
    with pytest.raises(CompileError, match=r"Python\.h"):
        build(MODULE)
    monkeypatch.setattr(cpp, "run_here", Counting(Ended(1, b"", "nothing is compiled a second time")))
    assert load_module("fxopt_small", MODULE).answer() == 42
    assert list(empty_cache.glob("*.library")) == [library]


def test_a_library_that_is_no_module_of_that_name_says_so() -> None:
    with pytest.raises(ImportError, match="PyInit_another"):
        load_module("another", ANSWER)


def test_headers_of_python_that_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp.sysconfig, "get_paths", lambda: {"include": str(tmp_path)})
    with pytest.raises(NoCompilerError, match=r"Python\.h.*apt-get install python3-dev"):
        load_module("fxopt_small", MODULE)


def test_two_who_need_pytorchs_headers_at_once_compile_them_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def slowly(command: Sequence[str], given: bytes, readable: Path, seconds: float) -> Ended:
        compiled.append(command)
        time.sleep(0.2)
        Path(command[-1]).write_bytes(b"compiled")
        return Ended(0, b"", "")

    monkeypatch.setattr(cpp, "run_here", slowly)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: cpp.headers_ahead(("cstdio",)), range(2))
    assert first == second
    assert first.with_suffix(".h.gch").read_bytes() == b"compiled"
    assert len(compiled) == 1
