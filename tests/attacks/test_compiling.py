"""A learner's source against the compiler's sandbox: what it may read there, and what is left of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from classroom import need_bubblewrap

from autograder.exchange.building import built, compilers_run_by
from autograder.grading.compiling import compiler_of, sandboxed_compiler
from fxopt_workbench import cpp
from fxopt_workbench.cpp import CompileError, EndlessBuildError

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    need_bubblewrap()
    monkeypatch.setenv(cpp.CACHE_VARIABLE, str(tmp_path / "kept"))
    return tmp_path / "kept"


def build(source: str) -> bytes:
    with compilers_run_by(sandboxed_compiler):
        return built(source)


def test_a_library_comes_out() -> None:
    assert build('#include <cmath>\nextern "C" double f(double x) { return std::exp(x); }').startswith(b"\x7fELF")


@pytest.mark.parametrize("where", ["autograder/exercises/u5/longest_run/judge.py", "Week1.md"])
def test_no_file_of_the_course_can_be_read(where: str) -> None:
    path = ROOT / where
    assert path.is_file()
    for source in (f'#include "{path}"', f'asm(".incbin \\"{path}\\"");'):
        with pytest.raises(CompileError) as raised:
            build(source)
        assert "No such file" in str(raised.value) or "file not found" in str(raised.value)


def test_what_others_built_cannot_be_read(empty_cache: Path) -> None:
    build('extern "C" int other() { return 7; }')
    [kept] = empty_cache.glob("*.library")
    with pytest.raises(CompileError) as raised:
        build(f'asm(".incbin \\"{kept}\\"");')
    assert "file not found" in str(raised.value)


def test_environment_and_home_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FXOPT_SECRET", "told")
    for path in ("/proc/self/environ", "/proc/1/environ"):
        library = build(f'asm(".globl s\\ns: .incbin \\"{path}\\"");')
        assert b"FXOPT_SECRET" not in library
        assert b"told" not in library


def test_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpp, "SECONDS", 3.0)
    # Two to the power of 200 classes.
    endless = "template <int n, class... T> struct S : S<n - 1, T..., int>, S<n - 1, T..., long> {};\n"
    endless += "template <class... T> struct S<0, T...> {};\nS<200> s;"
    with pytest.raises(EndlessBuildError, match="no end within 3 seconds"):
        build(endless)


def test_a_named_choice_is_kept_to() -> None:
    assert compiler_of(True) is sandboxed_compiler
    assert compiler_of(False) is cpp.run_here
    assert compiler_of(None) is sandboxed_compiler
