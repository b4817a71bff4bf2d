"""A learner's cells run as in IPython, and what they put out is kept, up to a limit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from autograder.course.notebooks import clean_outputs
from autograder.grading import sandbox
from autograder.learner_side.learner_shell import CELL_LIMIT, OUTPUT_LIMIT, LearnerShell


@pytest.fixture
def shell() -> LearnerShell:
    return LearnerShell()


def texts(outputs: list[dict[str, Any]], name: str = "stdout") -> str:
    return "".join(item["text"] for item in outputs if item.get("name") == name)


def test_streams_and_the_last_value(shell: LearnerShell) -> None:
    outputs = shell.run_cell("import sys\nprint('out')\nprint('err', file=sys.stderr)\n1 + 1")
    assert texts(outputs) == "out\n"
    assert texts(outputs, "stderr") == "err\n"
    assert [item["data"]["text/plain"] for item in outputs if item["output_type"] == "display_data"] == ["2"]


def test_names_last_from_cell_to_cell(shell: LearnerShell) -> None:
    shell.run_cell("x = 40")
    shell.run_cell("def f(): return x + 2")
    assert shell.namespace["f"]() == 42


def test_magics_and_shell_lines(shell: LearnerShell) -> None:
    assert "42" in texts(shell.run_cell("%who_ls\n!echo 42"))
    assert "error" not in {item["output_type"] for item in shell.run_cell("%%time\nsum(range(10))")}


def test_top_level_await(shell: LearnerShell) -> None:
    outputs = shell.run_cell("import asyncio\nawait asyncio.sleep(0, 'awaited')")
    assert outputs[-1]["data"]["text/plain"] == "'awaited'"


def test_display(shell: LearnerShell) -> None:
    outputs = shell.run_cell("from IPython.display import HTML\ndisplay(HTML('<b>x</b>'))")
    assert outputs[0]["data"]["text/html"] == "<b>x</b>"


@pytest.mark.parametrize(
    "source",
    [
        "%matplotlib inline\nimport matplotlib.pyplot as plt\nfig, ax = plt.subplots(figsize=(2, 1))\ndisplay(fig)",
        "import matplotlib.pyplot as plt\nplt.figure(figsize=(2, 1)).subplots().plot([1, 2])\nplt.show()",
        "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
    ],
)
def test_figures(source: str) -> None:
    # A process of its own, as while grading: matplotlib sets itself up for one shell only.
    code = (
        "import json, sys\nfrom autograder.learner_side.learner_shell import LearnerShell\n"
        "print(json.dumps(LearnerShell().run_cell(sys.argv[1])))"
    )
    environment = os.environ | {"MPLBACKEND": sandbox._environment("")["MPLBACKEND"]}
    done = subprocess.run(
        [sys.executable, "-c", code, source], capture_output=True, text=True, env=environment, check=True
    )
    outputs = json.loads(done.stdout)
    assert "error" not in {item["output_type"] for item in outputs}
    pictures = [item["data"]["image/png"] for item in outputs if "image/png" in item.get("data", {})]
    assert pictures
    assert pictures[0].startswith("iVBOR")


def test_an_error_has_its_traceback_and_stops_the_cell(shell: LearnerShell) -> None:
    outputs = shell.run_cell("def fails():\n    raise ValueError('seven')\nfails()\nprint('after')")
    error = outputs[-1]
    assert (error["output_type"], error["ename"], error["evalue"]) == ("error", "ValueError", "seven")
    assert any("fails()" in line for line in error["traceback"])
    assert "after" not in texts(outputs)
    assert shell.run_cell("def (")[-1]["ename"] == "SyntaxError"


@pytest.mark.parametrize("source", ["import sys\nsys.exit(3)", "raise SystemExit", "raise KeyboardInterrupt"])
def test_leaving_is_an_error_like_another(shell: LearnerShell, source: str) -> None:
    assert shell.run_cell(source)[-1]["output_type"] == "error"
    assert texts(shell.run_cell("print('still here')")) == "still here\n"


def test_output_is_cut_and_says_so(shell: LearnerShell) -> None:
    outputs = shell.run_cell(f"for _ in range(50): print('x' * {OUTPUT_LIMIT // 10})")
    assert OUTPUT_LIMIT <= len(texts(outputs)) < OUTPUT_LIMIT + 100
    assert "output cut" in texts(outputs)
    big = shell.run_cell(f"from IPython.display import HTML\nHTML('y' * {2 * OUTPUT_LIMIT})")
    assert "y" * 100 not in json.dumps(big)
    many = shell.run_cell(f"for _ in range(100): display(HTML('y' * {OUTPUT_LIMIT // 2}))")
    assert len(json.dumps(many)) < CELL_LIMIT + 1000
    assert "left out" in texts(many, "stderr")


def test_what_is_not_text_is_no_output(shell: LearnerShell) -> None:
    outputs = shell.run_cell(
        "class Odd:\n    def _repr_mimebundle_(self, **k):\n"
        "        return {'text/plain': 'odd', 'x/y': object(), 5: b'z'}\nOdd()"
    )
    json.dumps(outputs)
    assert outputs[-1]["data"]["text/plain"] == "odd"


def test_muted_keeps_nothing_and_ends(shell: LearnerShell) -> None:
    with shell.muted():
        print("hidden")
        outputs = shell.run_cell("x = 1")
    assert outputs == []
    assert texts(shell.run_cell("print('seen')")) == "seen\n"


def test_two_shells_share_nothing() -> None:
    first, second = LearnerShell(), LearnerShell()
    first.run_cell("x = 1")
    assert second.run_cell("x")[-1]["ename"] == "NameError"


def test_outputs_are_rebuilt_before_they_are_kept(shell: LearnerShell) -> None:
    outputs = shell.run_cell("print('\\ud800')\n'value'")
    kept, size = clean_outputs(outputs, 10_000)
    assert json.dumps(kept, ensure_ascii=False).encode()
    assert size > 0
    assert [item["output_type"] for item in kept] == ["stream", "display_data"]
    cut, _ = clean_outputs(outputs, 10)
    assert cut[-1]["text"] == "… further output was left out\n"
