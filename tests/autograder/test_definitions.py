"""What a function needs of the cells around it."""

from __future__ import annotations

import pytest

from autograder.course.definitions import MissingDefinitionError, definitions_of

CELLS = [
    "import torch\nfrom torch import nn, fx\nimport os.path as paths",
    "limit = 3\nunused = torch.zeros(limit)",
    "def helper(x):\n    return nn.functional.relu(x) * limit",
    "%matplotlib inline\nthis is no Python",
    "@torch.no_grad()\ndef answer(x):\n    # a comment\n    n = [limit for limit in range(2)]\n    return helper(x), n",
    "def answer_of_another_task():\n    return unused",
]


def test_imports_helpers_and_decorators_come_along_and_nothing_else() -> None:
    found = definitions_of(CELLS, ["answer"])
    assert found.imports == ("import torch", "from torch import nn")
    assert [sorted(statement.binds) for statement in found.statements] == [["limit"], ["helper"], ["answer"]]
    assert "@torch.no_grad()" in found.source
    assert "# a comment" in found.source
    namespace: dict = {}
    exec(found.source, namespace)
    assert [value.item() for value in namespace["answer"](namespace["torch"].ones(1))[0]] == [3.0]


def test_local_names_pull_nothing_in() -> None:
    cells = ["x = open('nowhere')", "def f(x):\n    y = x + 1\n    return [x for x in range(y)]"]
    assert len(definitions_of(cells, ["f"]).statements) == 1


def test_the_last_definition_counts() -> None:
    cells = ["def f():\n    return 1", "def f():\n    return 2"]
    assert "return 2" in definitions_of(cells, ["f"]).source
    assert "return 1" not in definitions_of(cells, ["f"]).source


def test_aliases_keep_their_names() -> None:
    cells = ["import os.path as paths, torch.fx", "def f():\n    return paths.join('a'), torch.fx"]
    assert definitions_of(cells, ["f"]).imports == ("import os.path as paths", "import torch.fx")


def test_what_is_defined_nowhere_is_named() -> None:
    with pytest.raises(MissingDefinitionError, match="`nowhere`, which `f` needs, is defined in no cell"):
        definitions_of(["def f():\n    return nowhere + len('x')"], ["f"])
    with pytest.raises(MissingDefinitionError, match="star import"):
        definitions_of(["from math import *", "def f():\n    return pi"], ["f"])
