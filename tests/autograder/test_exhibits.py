"""What a check shows of a rewrite."""

from __future__ import annotations

import linecache
from collections import Counter
from io import StringIO
from typing import Any

import nbformat
import pytest
import torch
from classroom import Classroom, cell
from rich.console import Console
from torch import fx

from autograder.course.progress import latest
from autograder.course.sources import read_source
from autograder.course.task import UNITS
from autograder.course.tasks import find_task
from autograder.exchange.markup import with_code
from autograder.exchange.verdict import (
    DETAIL_LIMIT,
    FIGURES_LIMIT,
    CaseVerdict,
    Finding,
    TaskOutcome,
    outcome_from_verdicts,
)
from autograder.lab.check_command import Exhibits, check_notebook, print_outcome
from autograder.learner_side.check import EXHIBITS_SHOWN, CheckResult, run_check
from autograder.learner_side.exhibits import before_and_after, table_of_change
from autograder.learner_side.worker import describe_error


class Small(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.relu(x) + 1.0)


def changed() -> tuple[fx.GraphModule, fx.GraphModule]:
    before, after = fx.symbolic_trace(Small()), fx.symbolic_trace(Small())
    last = list(after.graph.nodes)[-2]
    last.target = torch.tanh
    after.recompile()
    return before, after


def test_the_table_counts_and_names_what_changed() -> None:
    lines = table_of_change("a case", *changed()).splitlines()
    assert lines[0] == "a case: what your code changed"
    assert ["*", "relu", "2", "1"] in [line.split() for line in lines]
    assert ["*", "tanh", "0", "1"] in [line.split() for line in lines]
    assert ["add", "1", "1"] in [line.split() for line in lines]
    assert ["operations", "in", "all", "3", "3"] in [line.split() for line in lines]
    assert "0 removed, 0 added, 1 changed, 4 kept" in lines


def test_the_pictures_mark_what_is_different() -> None:
    table, before, after = before_and_after("a case", *changed())
    outcome = TaskOutcome("task", "A task", "passed")
    shown = CheckResult(outcome, [table, before, after])
    for text in (repr(shown), shown._repr_html_()):
        assert "a case: before" in text
        assert "a case: after" in text
        assert "what your code changed" in text
    assert "relu_1" in str(before)
    assert str(before) != str(after)
    assert shown._repr_html_().count("<img") == 2
    # What passed is one line, and one thing to open.
    page = shown._repr_html_()
    assert page.index("<details><summary>What your code did</summary>") < page.index("<img")
    assert (
        "<details><summary>What your code did</summary>"
        not in CheckResult(TaskOutcome("task", "A task", "wrong"), [table, before, after])._repr_html_()
    )


def test_a_passed_check_counts_its_cases_and_lists_none() -> None:
    shown = CheckResult(
        outcome_from_verdicts("task", "A task", [CaseVerdict(case, False, ()) for case in ("odd", "even")])
    )
    assert repr(shown).splitlines() == [
        "✔ passed: A task (2 cases)",
        "  Hidden cases are tried when you submit.",
    ]
    assert "odd" not in shown._repr_html_()


def test_messages_name_the_cases_that_they_are_about() -> None:
    def verdict(case: str, *names: str) -> CaseVerdict:
        return CaseVerdict(case, False, tuple(Finding(name, f"You {name}.") for name in names))

    several = [verdict("one", "forgot"), verdict("two"), *(verdict(case, "lost", "forgot") for case in "abcd")]
    shown = CheckResult(outcome_from_verdicts("task", "A task", several))
    for text in (repr(shown), shown._repr_html_()):
        assert "✘ one, a, b and 2 more: You forgot." in text
        assert "✘ a, b, c and 1 more: You lost." in text
        assert "✔ two" in text
        # A case is named where its message stands, and in no list besides.
        assert text.count("✔") + text.count("✘ one") == 2
    unnamed = [CaseVerdict(case, False, (Finding("", f"It is {case}."),)) for case in ("odd", "even")]
    said = repr(CheckResult(outcome_from_verdicts("task", "A task", unnamed)))
    assert "✘ odd: It is odd." in said
    assert "✘ even: It is even." in said
    coded = verdict("one", "forgot `a < b`")
    assert (
        "<li>→ You forgot <code>a &lt; b</code>.</li>"
        in CheckResult(outcome_from_verdicts("task", "A task", [coded]))._repr_html_()
    )
    # With a single case there is nothing to tell apart.
    assert "→ You forgot." in repr(CheckResult(outcome_from_verdicts("task", "A task", several[:1])))


def test_names_with_commas_are_told_apart() -> None:
    verdicts = [CaseVerdict(case, False, (Finding("lost", "You lost."),)) for case in ("one graph, one node", "two")]
    assert "✘ one graph, one node; two: You lost." in repr(CheckResult(outcome_from_verdicts("task", "A", verdicts)))


def test_of_an_answer_that_is_wrong_many_exhibits_are_folded() -> None:
    def page(count: int) -> str:
        exhibits = [f"exhibit {number}." for number in range(count)]
        return CheckResult(TaskOutcome("task", "A task", "wrong"), exhibits)._repr_html_()

    assert "More of what your code did" not in page(EXHIBITS_SHOWN)
    folded = page(EXHIBITS_SHOWN + 1)
    fold = folded.index("More of what your code did")
    assert folded.index(f"exhibit {EXHIBITS_SHOWN - 1}.") < fold < folded.index(f"exhibit {EXHIBITS_SHOWN}.")


def test_what_failed_is_shown_before_what_passed() -> None:
    task = find_task("operation_histogram")
    wrong = run_check(task, (lambda graph_modules: Counter() if len(graph_modules) > 1 else counted(graph_modules),))
    assert [verdict.passed for verdict in wrong.outcome.cases] == [True, False, True]
    assert "two graphs" in str(wrong.exhibits[0])


def counted(graph_modules: list[fx.GraphModule]) -> Counter[str]:
    """A right answer to `operation_histogram`."""
    found: Counter[str] = Counter()
    for graph_module in graph_modules:
        for node in graph_module.graph.nodes:
            if node.op == "call_module":
                found[type(graph_module.get_submodule(node.target)).__name__] += 1
            elif node.op.startswith("call"):
                found[getattr(node.target, "__name__", node.target)] += 1
    return found


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("What it *is* matters.", "What it <em>is</em> matters."),
        ("The first call compiles *and computes*.", "The first call compiles <em>and computes</em>."),
        ("0.7 + n * 0.3 against 8 + n * 0.12", "0.7 + n * 0.3 against 8 + n * 0.12"),
        ("2*k*m, *args and **kwargs", "2*k*m, *args and **kwargs"),
        ("`a *b* c` < *d*", "<code>a *b* c</code> &lt; <em>d</em>"),
    ],
)
def test_asterisks_stress_words_and_multiply_numbers(text: str, shown: str) -> None:
    assert with_code(text) == shown


def test_the_case_that_is_told_stands_with_its_figures() -> None:
    for figures, told in (
        ("(expected 2, found 3)", "(in the case 'b': expected 2, found 3)"),
        ("(f(x) is 3)", "(in the case 'b': f(x) is 3)"),
        ("found f(x)", "(in the case 'b': found f(x))"),
        ("(2, 3) and not (3, 2)", "(in the case 'b': (2, 3) and not (3, 2))"),
        ("(expected [1, 2", "(in the case 'b': expected [1, 2)"),
        ("", "(in the case 'b')"),
    ):
        finding = Finding("other", "Other values.", figures, "other", (), 1)
        outcome = outcome_from_verdicts("task", "A task", [CaseVerdict("b", False, (finding,))])
        assert outcome.messages == [f"Other values. {told}"]


def test_an_exception_names_the_line_of_the_cell() -> None:
    source, name = "def answer():\n    first = [1]\n    return first[7]\n", "/tmp/ipykernel_1/2.py"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {}
    exec(compile(source, name, "exec"), namespace)
    with pytest.raises(IndexError) as caught:
        namespace["answer"]()
    said = describe_error(caught.value)["text"]
    assert said == "IndexError: list index out of range (in your line `return first[7]`)"
    assert describe_error(ValueError("no cell"))["text"] == "ValueError: no cell"


def test_fxopt_check_shows_tables_and_writes_pictures(classroom: Classroom) -> None:
    task = find_task("rewriting_backend")
    source = read_source(classroom.course.sources_of(UNITS[task.unit]) / f"{task.notebook}.py")
    notebook = classroom.answered(cell(source, task.answer_id).source, task)
    path = classroom.workspace_file
    nbformat.write(notebook, path)
    exhibits = Exhibits()
    found = check_notebook(path, exhibits.watch)
    assert found.exit_code == 1
    assert [outcome.status for outcome in found.outcome.tasks if outcome.task == task.name] == ["passed"]
    assert found.to_json()["saved"] == found.saved
    # As after a check in the notebook: the answer is in the learner's package, and counts towards the checklist.
    assert found.saved[task.name].startswith("Saved ")
    names = ", ".join(task.provides)
    [line] = [
        line
        for line in (classroom.course.workspace / "my_fxopt" / "__init__.py").read_text().splitlines()
        if names in line
    ]
    assert line.startswith(f"from my_fxopt.{task.export} import")
    assert latest(classroom.course.workspace)["check", task.name] == "passed"
    console = Console(width=200, record=True, file=StringIO())
    print_outcome(found, console, exhibits, path.parent / "pictures")
    text = console.export_text()
    assert "three exact GELUs: what your code changed" in text
    assert "3 changed" in text
    assert "three exact GELUs: before" in text
    pictures = sorted((path.parent / "pictures").iterdir())
    assert [picture.name for picture in pictures] == [f"rewriting_backend-{number}.svg" for number in range(1, 9)]
    assert "<svg" in pictures[0].read_text()


def test_figures_are_told_to_their_end_and_what_an_exception_quotes_is_not() -> None:
    figures = f"(found {[0] * 200}, wanted {[1] * 200})"
    assert DETAIL_LIMIT < len(figures) < FIGURES_LIMIT
    for name, wanted in (("off by one", figures), ("raised", figures[:DETAIL_LIMIT])):
        verdict = CaseVerdict("odd", False, (Finding(name, "Almost.", figures),))
        assert outcome_from_verdicts("task", "A task", [verdict]).messages == [f"Almost. {wanted}"]
