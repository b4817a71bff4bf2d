"""The list of an answer's mutants: the same in every run, each a program of its own."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from autograder.course.tasks import all_tasks
from autograder.mutation.mutants import mutants_of

SOURCE = '''def f(values, limit):
    """The first value beyond a limit."""
    for value in values:
        if value > limit:
            return value
    for value in values:
        if value > limit:
            return value
    return None
'''


def test_each_mutant_is_another_program_and_there_once() -> None:
    trees = [ast.dump(ast.parse(mutant.source)) for mutant in mutants_of("reference", SOURCE)]
    assert len(trees) > 10
    assert len(set(trees)) == len(trees)
    assert ast.dump(ast.parse(SOURCE)) not in trees


def test_two_edits_that_come_to_the_same_are_one() -> None:
    # The opposite of the condition, and of the comparison that it is.
    mutants = mutants_of("reference", "if a == b:\n    f()\n")
    assert [mutant.after for mutant in mutants].count("if a != b:") == 1


def test_what_is_no_program_is_left_out() -> None:
    # A default before a parameter without one, `*` and nothing behind it, `return` outside: none may come out.
    answer = "def f(a, *b, c=1, **d):\n    x, *y = b\n    return [*y, x], {**d}\n"
    for mutant in mutants_of("reference", answer):
        compile(mutant.source, "mutant", "exec")
    assert all("= *" not in mutant.after for mutant in mutants_of("reference", answer))


def test_a_mutant_is_named_by_what_changes_in_its_lines() -> None:
    mutants = mutants_of("reference", SOURCE)
    boundaries = [mutant for mutant in mutants if mutant.after == "if value >= limit:"]
    assert [(m.before, m.occurrence, m.line) for m in boundaries] == [
        ("if value > limit:", 1, 4),
        ("if value > limit:", 2, 7),
    ]
    assert len({mutant.key for mutant in mutants}) == len(mutants)
    moved = [mutant.key for mutant in mutants_of("reference", "\n# a comment\n" + SOURCE)]
    assert moved == [mutant.key for mutant in mutants]
    added = next(mutant for mutant in mutants if mutant.operator == "loop: one pass")
    assert (added.before, added.after) == ("return value", "return value\nbreak")


def test_an_edit_of_many_lines_is_told_by_its_first() -> None:
    body = "".join(f"    g({number})\n" for number in range(9))
    dropped = next(m for m in mutants_of("reference", f"for a in b:\n{body}") if m.operator == "loop: dropped")
    assert dropped.described() == "reference:1: for a in b: … and 9 lines more  →  pass  [loop: dropped]"


def test_the_order_does_not_depend_on_the_process(tmp_path: Path) -> None:
    (tmp_path / "answer.py").write_text(SOURCE)
    code = (
        "import sys; from pathlib import Path; from autograder.mutation.mutants import mutants_of\n"
        "print(*(mutant.digest for mutant in mutants_of('a', Path(sys.argv[1]).read_text())))"
    )
    told = [
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "answer.py")],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout.split()
        for seed in ("1", "2")
    ]
    assert told[0] == told[1] == [mutant.digest for mutant in mutants_of("a", SOURCE)]


@pytest.mark.parametrize(
    "task", [task for task in all_tasks() if task.unit in ("day0", "day5")], ids=lambda task: task.name
)
def test_right_and_wrong_answers_of_all_forms_can_be_mutated(task) -> None:
    path = sorted((task.folder / "right").glob("*.py"))[0]
    mutants = mutants_of(path.stem, path.read_text())
    assert len(mutants) > len(path.read_text().splitlines())
    assert len({mutant.key for mutant in mutants}) == len(mutants)
