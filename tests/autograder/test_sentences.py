"""Each rule of a task's text has a case that tries it and a wrong answer that breaks it."""

from functools import cache
from pathlib import Path

import pytest

from autograder.authoring import sentences as module
from autograder.authoring.gate import GATE_SEED
from autograder.authoring.sentences import (
    Sentence,
    SentencesError,
    off,
    one_line,
    read_sentences,
    rules_text,
    uncovered,
    untied,
)
from autograder.course.course import Course
from autograder.course.judges import hidden_cases, visible_cases
from autograder.course.sources import read_source
from autograder.course.task import UNITS, Task
from autograder.course.tasks import all_tasks, find_task

COURSE = Course(Path(__file__).resolve().parents[2])

MISSING: dict[str, int] = {
    "choose_engine": 3,
    "strided_tensor": 2,
    "view_strides": 1,
    "memory_formats": 4,
    "broadcast_strides": 3,
}
"""How many words of each task's text stand in no key yet. Fill them in and lower the number; none may rise."""

MOST_MISSING = 13
"""What they come to together. It only becomes less."""


@cache
def text_of(task: Task) -> str:
    return rules_text(read_source(COURSE.sources_of(UNITS[task.unit]) / f"{task.notebook}.py"), task)


def test_no_rule_is_without_a_case_but_those_that_are_listed() -> None:
    found = {task.name: uncovered(text_of(task), read_sentences(task)) for task in all_tasks()}
    grown = [f"{name}: {rule}" for name, rules in found.items() if len(rules) > MISSING.get(name, 0) for rule in rules]
    assert grown == [], "each needs a case, a wrong answer and a key in sentences.toml"
    fewer = {name: len(rules) for name, rules in found.items() if len(rules) < MISSING.get(name, 0)}
    assert fewer == {}, "lower these numbers in MISSING"
    assert sum(MISSING.values()) <= MOST_MISSING
    assert set(MISSING) <= set(found)


@pytest.mark.parametrize("task", [task for task in all_tasks() if read_sentences(task)], ids=lambda task: task.name)
def test_every_key_names_what_is_there(task: Task) -> None:
    cases = [*visible_cases(task), *hidden_cases(task, GATE_SEED)]
    assert off(task, text_of(task), read_sentences(task), [case.name for case in cases]) == []


TEXT = "Each node must stay. Go on without it; nothing else."
TASK = find_task("walk_graph")


def test_a_rule_without_a_key_is_listed() -> None:
    assert [rule.split("*")[1] for rule in uncovered(TEXT, [])] == ["Each", "must", "stay", "without", "nothing"]
    keys = [Sentence("Each node must stay"), Sentence("nothing else", no_rule="a reason")]
    assert uncovered(TEXT, keys) == ["…Each node must stay. Go on *without* it; nothing else.…"]
    assert uncovered("mustard", []) == []


def test_a_key_that_names_what_is_not_there_is_listed() -> None:
    right = Sentence("Each node", ("a case",), (sorted((TASK.folder / "wrong").glob("*.py"))[0].stem,))
    assert off(TASK, TEXT, [right], ["a case"]) == []
    assert off(TASK, TEXT, [Sentence("Each nodes")], []) == ["walk_graph: the text does not say 'Each nodes'"]
    lines = off(TASK, TEXT, [Sentence("Each", ("a case", "no case"), ("no_such_answer",))], ["a case"])
    assert lines == ["walk_graph: no case is named 'no case'", "walk_graph: there is no wrong/no_such_answer.py"]


def test_a_wrong_answer_must_fail_in_the_case_of_its_sentence() -> None:
    keys = [Sentence("Each node", ("one", "two"), ("mine",)), Sentence("Go on", no_rule="a reason")]
    assert untied(keys, {"mine": ("two", "three")}) == []
    assert untied(keys, {"mine": ("three",)}) == [
        "mine breaks 'Each node', but fails in ['three'], not in ['one', 'two']"
    ]
    assert untied(keys, {}) == ["mine breaks 'Each node', but fails in [], not in ['one', 'two']"]


def test_hints_and_headings_are_no_rules() -> None:
    task = find_task("build_mlp")
    text = text_of(task)
    assert "Hint" not in text
    assert "node by node" not in text
    assert one_line("The graph must pass\n`graph.lint()`") in text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[sentence", "is no TOML"),
        ("[[other]]\na = 1", "only `\\[\\[sentence\\]\\]` may stand there, not other"),
        ('[[sentence]]\nquote = "a"\ncases = ["b"]', "one name of each at least"),
        ('[[sentence]]\nquote = "a"\ncases = []\nwrong = ["b"]', "one name of each at least"),
        ('[[sentence]]\nquote = "a"\ncases = ["b", 1]\nwrong = ["b"]', "one name of each at least"),
        ('[[sentence]]\nquote = "a"\nno_rule = "it is none"', "'it is none' does not say why"),
    ],
)
def test_a_file_of_keys_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    path = tmp_path / "sentences.toml"
    path.write_text(text)
    monkeypatch.setattr(module, "FILE", str(path))
    with pytest.raises(SentencesError, match=says) as caught:
        read_sentences(TASK)
    assert "sentences.toml" in str(caught.value)
