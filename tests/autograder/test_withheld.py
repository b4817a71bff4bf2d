"""Modules that would answer a task: importing one says "write your own", and nothing else is disturbed."""

from __future__ import annotations

import builtins
import importlib
from typing import Any

import pytest

from autograder.learner_side.withheld import WithheldImportError, withheld_use, withhold

WITHHELD = ("json.tool", "wave")


def learner(source: str) -> dict[str, Any]:
    """Run source as a cell runs."""
    namespace: dict[str, Any] = {}
    exec(compile(source, "<ipython-input-1-abc>", "exec"), namespace)
    return namespace


@pytest.mark.parametrize(
    "source",
    [
        "import wave",
        "import wave as w",
        "from wave import open",
        "import json.tool",
        "from json import tool",
        "from json.tool import main",
        "__import__('wave')",
        "import importlib\nimportlib.import_module('json.tool')",
        "def late():\n    import wave\nlate()",
    ],
)
def test_importing_a_withheld_module_says_write_your_own(source: str) -> None:
    with withhold(WITHHELD), pytest.raises(WithheldImportError, match="write your own"):
        learner(source)


@pytest.mark.parametrize("source", ["import json", "from json import loads", "import json.decoder", "import waves_x"])
def test_other_modules_are_as_ever(source: str) -> None:
    with withhold(WITHHELD):
        if "waves_x" in source:
            with pytest.raises(ModuleNotFoundError):
                learner(source)
        else:
            learner(source)


def test_code_that_is_not_the_learners_imports_freely() -> None:
    with withhold(WITHHELD):
        assert importlib.import_module("wave").__name__ == "wave"
        import wave

        assert wave.__name__ == "wave"


def test_everything_is_as_before_afterwards() -> None:
    before = builtins.__import__, importlib.import_module
    guard = withhold(WITHHELD)
    guard.__enter__()
    assert builtins.__import__ is not before[0]
    assert guard.__exit__(RuntimeError, RuntimeError(), None) is False
    assert (builtins.__import__, importlib.import_module) == before
    learner("import wave")


def test_an_answer_that_is_or_uses_a_withheld_module_is_found() -> None:
    found = learner(
        "import wave\nfrom wave import Wave_read\nimport json\n"
        "def direct(): return wave.open('x')\n"
        "def through_a_name(): return Wave_read\n"
        "def nested():\n    return lambda: wave\n"
        "def calls(): return direct()\n"
        "class Inherits(Wave_read): pass\n"
        "class Method:\n    def run(self): return wave\n"
        "def innocent(): return json.dumps({})\n"
        "def recursive(n): return recursive(n - 1)\n"
    )
    for name in ("Wave_read", "wave", "direct", "through_a_name", "nested", "calls", "Inherits", "Method"):
        assert withheld_use(found[name], WITHHELD) == "wave", name
    for name in ("innocent", "recursive", "json"):
        assert withheld_use(found[name], WITHHELD) is None, name
