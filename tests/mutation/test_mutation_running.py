"""Runs over tasks: what is known is not graded again, and what is wrong with the files is told."""

import json
import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from autograder.authoring import contents
from autograder.commands.mutate import mutate as command
from autograder.course.course import Course
from autograder.course.tasks import all_tasks, find_task
from autograder.mutation import equivalents, recorded, running
from autograder.mutation.answers import AuthoredNotebook
from autograder.mutation.cache import VerdictCache
from autograder.mutation.equivalents import EquivalentsError, read_equivalents
from autograder.mutation.mutants import mutants_of
from autograder.mutation.results import TaskMutation
from autograder.mutation.running import Portion, mutate
from autograder.mutation.trials import NotPassedError, Verdict

ROOT = Path(__file__).resolve().parents[2]
COURSE = Course(ROOT)
TASK = find_task("conv_output_shape")


@pytest.fixture
def graded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Portion]:
    """No graders: one mutant survives, the others are killed; what was asked."""
    asked: list[Portion] = []

    def try_portion(portion: Portion) -> list[Verdict]:
        asked.append(portion)
        return [
            Verdict("survived", "", False, 0.1)
            if "return out_channels, batch" in source
            else Verdict("killed", "a case", True, 0.1)
            for source in portion.mutants
        ]

    monkeypatch.setattr(running, "try_portion", try_portion)
    monkeypatch.setenv("FXOPT_MUTATION_CACHE", str(tmp_path / "records" / "mutation.db"))
    monkeypatch.setattr(equivalents, "FILE", "no-such-file.toml")
    return asked


def only(results: list[TaskMutation]) -> TaskMutation:
    (result,) = results
    return result


def test_what_was_graded_is_not_graded_again(graded: list[Portion]) -> None:
    first = only(list(mutate(COURSE, [TASK.name])))
    assert not first.cached
    assert sum(len(portion.mutants) for portion in graded) == len(first.rows) > 100
    graded.clear()
    again = only(list(mutate(COURSE, [TASK.name])))
    assert graded == []
    assert again.cached == len(again.rows)
    assert again.rows == first.rows
    list(mutate(COURSE, [TASK.name], seeds=4))
    assert graded  # other seeds, other verdicts


def test_a_verdict_depends_on_the_judge_and_on_what_it_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    task = find_task("replace_relu")
    before = contents.grading_digest(task), contents.content_digest(COURSE, task)
    for path, changes in (
        (task.folder / "judge.py", (True, True)),
        (task.folder / "visible.py", (True, True)),
        (task.folder.parents[1] / "graph_comparison.py", (True, True)),
        (ROOT / "autograder" / "grading" / "runner.py", (True, False)),
        (ROOT / "fxopt_core" / "graphs" / "effects.py", (True, False)),
        (find_task("record_graphs").folder / "reference.py", (True, False)),
        (task.folder / "right" / "copies_with_a_transformer.py", (False, True)),
        (task.folder / "wrong" / "not_there.py", (False, False)),
        (find_task("walk_graph").folder / "judge.py", (False, False)),
        (task.folder.parent / "__init__.py", (True, False)),
    ):
        if path.parent.name == "right":
            path = sorted(path.parent.glob("*.py"))[0]
        real = contents._digest_of

        def other(asked: Path, path: Path = path, real=real) -> str:
            return "another" if asked == path else real(asked)

        with monkeypatch.context() as patch:
            patch.setattr(contents, "_digest_of", other)
            after = contents.grading_digest(task), contents.content_digest(COURSE, task)
        assert tuple(a != b for a, b in zip(before, after, strict=True)) == changes, path


def test_two_runs_may_write_at_once(tmp_path: Path) -> None:
    verdict = Verdict("killed", "a case", True, 0.1)
    with VerdictCache(tmp_path / "new" / "mutation.db") as one, VerdictCache(tmp_path / "new" / "mutation.db") as other:
        for number in range(50):
            one.put(f"a{number}", verdict)
            other.put(f"b{number}", verdict)
            one.put("both", verdict)
            other.put("both", verdict)
        assert one.get("b49") == other.get("a49") == one.get("both") == verdict
        assert one.get("c") is None


def with_equivalents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> None:
    path = tmp_path / "equivalent.toml"
    path.write_text(text)
    # Joined to a folder, an absolute path stays as it is.
    monkeypatch.setattr(equivalents, "FILE", str(path))


ENTRY = """[[equivalent]]
reason = "{reason}"
mutants = [{{ answer = "reference", before = "{before}", after = "{after}" }}]
"""
REASON = "Nothing that a case can hold tells the two apart."
BEFORE = "return batch, out_channels, height, width"


def test_equivalent_mutants_need_a_reason_and_must_be_there(
    graded: list[Portion], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    survivor = only(list(mutate(COURSE, [TASK.name]))).of("survivor")[0].mutant
    entry = ENTRY.format(reason=REASON, before=survivor.before, after=survivor.after)
    with_equivalents(monkeypatch, tmp_path, entry)
    result = only(list(mutate(COURSE, [TASK.name])))
    assert [row.mutant for row in result.of("equivalent")] == [survivor]
    assert result.of("equivalent")[0].reason == REASON
    assert survivor not in [row.mutant for row in result.of("survivor")]

    with_equivalents(monkeypatch, tmp_path, ENTRY.format(reason=REASON, before="gone", after="pass"))
    result = only(list(mutate(COURSE, [TASK.name])))
    assert "no such mutant" in result.problems[0]
    assert "gone" in result.problems[0]

    with_equivalents(monkeypatch, tmp_path, ENTRY.format(reason=REASON, before=BEFORE, after="return None"))
    result = only(list(mutate(COURSE, [TASK.name])))
    assert "said to be equivalent, but killed by a case" in result.false_claims[0]
    assert not result.ok


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[equivalent", "is no TOML"),
        ("[other]\na = 1", "only `\\[\\[equivalent\\]\\]` may stand there, not other"),
        (ENTRY.format(reason="same", before="a", after="b"), "'same' is no reason"),
        (ENTRY.format(reason=REASON, before="a", after="b").replace("before", "line"), "answer, before, after"),
        (f'[[equivalent]]\nreason = "{REASON}"\nmutants = []', "a list of `mutants`"),
        (f"{ENTRY}\n{ENTRY}".format(reason=REASON, before="a", after="b"), "named 2 times"),
    ],
)
def test_a_file_of_equivalents_that_cannot_be_used_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, says: str
) -> None:
    with_equivalents(monkeypatch, tmp_path, text)
    with pytest.raises(EquivalentsError, match=says) as caught:
        read_equivalents(TASK)
    assert "equivalent.toml" in str(caught.value)


ALWAYS = ("check_stack", "layer_costs", "read_snapshot")
"""Tasks whose equivalent mutants are looked up in every run."""


@pytest.mark.sampled
def test_every_equivalent_mutant_of_a_changed_task_is_a_mutant() -> None:
    """What is recorded was refused unless each was one, and goes with the answers and the file that were recorded."""
    left = {task.name for task in (all_tasks() if "FXOPT_LONG" in os.environ else recorded.changed(COURSE))} | {*ALWAYS}
    tried = []
    for task in all_tasks():
        told = read_equivalents(task)
        if task.name not in left or not told.reasons:
            continue
        named = {answer for answer, *_ in told.reasons}
        answers = AuthoredNotebook(COURSE, task.notebook).answers(task)
        mutants = [mutant for name, answer in answers.items() if name in named for mutant in mutants_of(name, answer)]
        assert told.unmatched(mutants) == []
        tried.append(task.name)
    assert {*ALWAYS} <= {*tried}


def test_an_answer_that_does_not_pass_is_a_problem_of_its_task_only(
    graded: list[Portion], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = running.try_portion

    def try_portion(portion: Portion) -> list[Verdict]:
        if portion.answer == "slides_the_window":
            raise NotPassedError("conv_output_shape: slides_the_window does not pass itself")
        return good(portion)

    monkeypatch.setattr(running, "try_portion", try_portion)
    result = only(list(mutate(COURSE, [TASK.name])))
    assert result.problems == ["conv_output_shape: slides_the_window does not pass itself"]
    others = {*AuthoredNotebook(COURSE, TASK.notebook).answers(TASK)} - {"slides_the_window"}
    assert len(others) > 1
    assert {row.mutant.answer for row in result.rows} == others
    assert not result.ok
    with pytest.raises(ValueError, match="conv_output_shape is not recorded"):
        recorded.record(COURSE, [result], 3)


def app() -> typer.Typer:
    made = typer.Typer()
    made.command()(command)
    made.command("other")(lambda: None)
    return made


def test_the_command_lists_survivors_and_writes_every_mutant(
    graded: list[Portion], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FXOPT_ROOT", str(ROOT))
    monkeypatch.setattr(recorded, "FILE", tmp_path / "recorded.json")
    done = CliRunner().invoke(app(), ["mutate", TASK.name, "--json", str(tmp_path / "out.json"), "--record"])
    assert done.exit_code == 1, done.output
    assert "survived: reference:" in done.output
    (written,) = json.loads((tmp_path / "out.json").read_text())
    assert written["task"] == TASK.name
    assert {row["kind"] for row in written["rows"]} == {"killed", "survivor"}
    entry = recorded.recorded()[TASK.name]
    assert entry["counts"] == written["counts"]
    assert len(entry["survivors"]) == written["counts"]["survivors"] > 0
    assert TASK.name not in [task.name for task in recorded.changed(COURSE)]
    assert "count_parameters" in [task.name for task in recorded.changed(COURSE)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["conv_output"], "no task is named 'conv_output'. Did you mean"),
        (["day9"], "no task is named 'day9'"),
        (["day0", "--record", "--seeds", "2"], "the committed table is made with 3 seeds"),
        (["day0", "--seeds", "0"], "--seeds"),
        (["day0", "--jobs", "0"], "--jobs"),
    ],
)
def test_bad_input_is_refused_by_name(
    graded: list[Portion], monkeypatch: pytest.MonkeyPatch, arguments: list[str], says: str
) -> None:
    monkeypatch.setenv("FXOPT_ROOT", str(ROOT))
    done = CliRunner().invoke(app(), ["mutate", *arguments])
    assert done.exit_code == 2, done.output
    assert says in done.output
    assert graded == []
