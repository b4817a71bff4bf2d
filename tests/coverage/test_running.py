"""Verdicts, limits, and runs that are killed."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from transformers import DynamicCache
from transformers.modeling_outputs import BaseModelOutputWithPast
from typer.testing import CliRunner

from fxopt_workbench.cli import app
from fxopt_workbench.huggingface.coverage import METHODS, code
from fxopt_workbench.huggingface.coverage.building import TooLargeError
from fxopt_workbench.huggingface.coverage.checks import CHECKS as EVERY_CHECK
from fxopt_workbench.huggingface.coverage.code import code_version
from fxopt_workbench.huggingface.coverage.methods import METHODS_OF_OTHERS
from fxopt_workbench.huggingface.coverage.outputs import compare, named_tensors, without_caches
from fxopt_workbench.huggingface.coverage.page import coverage_page
from fxopt_workbench.huggingface.coverage.plans import UnknownArgumentError
from fxopt_workbench.huggingface.coverage.rows import (
    NOT_RUN,
    RESULTS_FILE,
    Results,
    ResultsError,
    Row,
    count_causes,
    count_verdicts,
    judge,
)
from fxopt_workbench.huggingface.coverage.running import run_coverage
from fxopt_workbench.huggingface.coverage.worker import CannotTellError, cause

HERE = Path(__file__).parent
CHECKS = tuple(EVERY_CHECK)
VERSIONS = {"torch": "1", "transformers": "2"}

GOOD = dict.fromkeys(CHECKS, 0.0) | {"other_sizes": 1e-7}
TEXT = [check for check in CHECKS if "images" not in check]
ALL = dict.fromkeys(GOOD, True)


def captured(errors, tolerated=None):
    right = {check: True for check, error in errors.items() if error != "refused"}
    return Row("bert", "export", "captured", errors=errors, tolerated=right | (tolerated or {}))


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (captured(GOOD), "general"),
        (captured(GOOD | {"other_sizes": "refused"}), "specialised"),
        *((captured(GOOD | {check: "refused"}), "specialised") for check in CHECKS[2:] if check != "bool_mask"),
        (captured(GOOD | {"bool_mask": "refused"}), "general"),
        *((captured(GOOD | {check: 0.3}, {check: False}), "wrong") for check in CHECKS),
        (captured({"example": 0.0, "new_values": 0.0}), "specialised"),
        (replace(captured(GOOD), graphs=2), "partitioned"),
        (replace(captured(GOOD | {"other_sizes": "refused"}), graphs=2), "partitioned"),
        (replace(captured(GOOD | {"new_values": "refused"}), graphs=2), "failed"),
        (replace(captured(GOOD | {"padded_mask": 0.3}, {"padded_mask": False}), graphs=2), "wrong"),
        (captured(GOOD | {"padded_mask": 0.3}, {"padded_mask": False}), "wrong"),
        (captured(GOOD | {"other_sizes": "refused", "new_values": 0.3}, {"new_values": False}), "wrong"),
        (captured(GOOD | {"example": "infinite"}, {"example": False}), "wrong"),
        (captured(GOOD | {"new_values": "refused"}), "failed"),
        (captured(GOOD | {"example": "refused"}), "failed"),
        (Row("bert", "export", "timeout"), "failed"),
        (replace(captured(GOOD), outcome="error"), "failed"),
    ],
)
def test_verdicts(row, verdict):
    assert judge(row).verdict == verdict


def test_errors_are_found_in_any_output():
    value = torch.arange(4.0)
    expected = {"a": value, "b": value.long()}
    assert compare([value, value.long()], expected) == (0.0, True, "")
    assert compare([value + 1e-6, value.long()], expected)[1]
    error, within, problem = compare([value + 0.5, value.long()], expected)
    assert (error, within) == (0.5, False)
    assert problem.startswith("a: 4 of 4 values differ")
    for found in ([value], [value.double(), value.long()], [value[:3], value.long()], [value, value.long() + 1]):
        assert compare(found, expected)[:2] == (math.inf, False)
    assert compare([], {})[:2] == (math.inf, False)


def test_tensors_are_found_in_caches_and_can_be_left_out():
    cache = DynamicCache()
    cache.update(torch.ones(1, 1, 2, 3), torch.zeros(1, 1, 2, 3), 0)
    output = BaseModelOutputWithPast(
        last_hidden_state=torch.ones(2), past_key_values=cache, hidden_states=(value := torch.ones(3),)
    )
    assert {"last_hidden_state", "past_key_values.layers.0.keys", "hidden_states.0"} <= set(named_tensors(output))
    assert named_tensors(output)["hidden_states.0"] is value
    assert list(without_caches(output)) == ["last_hidden_state", "hidden_states.0"]
    kept = {"past_key_values": cache, "encoder_past_key_values": cache, "padding_cache": (value,), "logits": value}
    assert list(without_caches(kept)) == ["logits"]


@pytest.fixture(scope="module")
def scripted(tmp_path_factory):
    """The rows of all scripted methods on BERT, and on a type that cannot be built."""
    good, wrong = "honest refuses two_graphs", "bakes_values bakes_branch loses_an_output refuses_values"
    names = f"{good} {wrong} raises hangs eats dies"
    methods = [f"scripted_methods:{name}" for name in names.split()]
    folder = tmp_path_factory.mktemp("scripted")
    rows = run_coverage(["bert", "bark"], methods, folder, jobs=2, seconds=15, gibibytes=2.5)
    return folder, {(row.type, row.method.removeprefix("scripted_methods:")): row for row in rows}


@pytest.mark.parametrize(
    ("method", "outcome", "verdict"),
    [
        ("eager", "captured", "runs"),
        ("honest", "captured", "general"),
        ("bakes_values", "captured", "wrong"),
        ("bakes_branch", "captured", "wrong"),
        ("loses_an_output", "captured", "wrong"),
        ("refuses", "captured", "specialised"),
        ("two_graphs", "captured", "partitioned"),
        ("refuses_values", "captured", "failed"),
        ("raises", "error", "failed"),
        ("hangs", "timeout", "failed"),
        ("eats", "memory", "failed"),
        ("dies", "crash", "failed"),
    ],
)
def test_scripted_methods_get_what_they_deserve(scripted, method, outcome, verdict):
    row = scripted[1]["bert", method]
    assert (row.outcome, row.verdict) == (outcome, verdict)


def test_rows_say_what_happened(scripted):
    _, rows = scripted
    assert rows["bert", "honest"].errors == dict.fromkeys(TEXT, 0.0)
    assert rows["bert", "honest"].nodes == 3
    assert rows["bert", "two_graphs"].graphs == 2
    assert rows["bert", "refuses"].errors["other_sizes"] == "refused"
    assert "sizes of the example only" in rows["bert", "refuses"].details["other_sizes_refused"]
    branch = rows["bert", "bakes_branch"]
    assert branch.errors["new_values"] == branch.errors["other_sizes"] == branch.errors["one_example"] == 0.0
    assert all(branch.errors[check] > 1e-2 for check in ("padded_mask", "left_padding", "bool_mask"))
    assert branch.reason.startswith("padded_mask: last_hidden_state: ")
    assert set(rows["bert", "loses_an_output"].errors.values()) == {"infinite"}
    assert rows["bert", "raises"].reason == "RuntimeError: cannot capture this"
    assert rows["bert", "hangs"].seconds >= 15
    assert rows["bert", "dies"].reason == "the process ended with exit code 7"


def test_methods_are_not_tried_on_a_type_that_does_not_run(scripted):
    _, rows = scripted
    assert [key for key in rows if key[0] == "bark"] == [("bark", "eager")]
    assert rows["bark", "eager"].reason.startswith("NotImplementedError: ")
    assert rows["bark", "eager"].cause == "no call"


def test_what_is_there_is_not_measured_again(scripted):
    folder, rows = scripted
    before = (folder / RESULTS_FILE).read_bytes()
    seen = []
    again = run_coverage(["bert"], ["scripted_methods:hangs"], folder, report=seen.append)
    assert again == seen == [rows["bert", "eager"], rows["bert", "hangs"]]
    assert (folder / RESULTS_FILE).read_bytes() == before


def test_rows_of_older_code_are_measured_again(scripted, tmp_path):
    """Nothing says how an older row came about: neither its verdict nor how to call the model is taken over."""
    rows = {row.method: row for row in scripted[1].values() if row.type == "bert"}
    old = Results(tmp_path, scripted_versions())
    for name in ("eager", "scripted_methods:honest"):
        old.add(replace(rows[name], code="0" * 12, verdict="wrong", seconds=-1.0))
    old.add(replace(rows["scripted_methods:raises"], code=code_version("scripted_methods:raises"), seconds=-2.0))
    methods = ["scripted_methods:honest", "scripted_methods:raises"]
    eager, honest, raises = run_coverage(["bert"], methods, tmp_path)
    assert (eager.verdict, honest.verdict) == ("runs", "general")
    assert eager.seconds > 0 < honest.seconds
    assert eager.code == code_version("eager")
    assert honest.code == raises.code == code_version(methods[0])
    assert raises.seconds == -2.0
    assert Results(tmp_path, scripted_versions()).rows["bert", methods[0]] == honest


def test_code_is_the_same_but_for_comments_and_layout(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    place = tmp_path / "some_method.py"

    def version_of(text):
        place.write_text(text)
        for cached in (code_version, code._parsed, code._source):
            cached.cache_clear()
        return code_version("some_method:capture")

    first = version_of('"""One."""\n\ndef capture(model, inputs):\n    return model\n')
    assert version_of('"""Two."""\n# Three.\ndef capture(model, inputs):\n    "Four."\n    return (model)\n') == first
    changed = version_of("def capture(model, inputs):\n    return inputs\n")
    assert changed != first
    # What it imports of ours counts, wherever it stands, and nothing else does.
    importing = version_of("def capture(model, inputs):\n    import fxopt_core.passes.dead_code\n    return inputs\n")
    found = code._modules({"some_method"})
    assert {"some_method", "fxopt_core", "fxopt_core.passes", "fxopt_core.passes.dead_code"} <= set(found)
    assert not any(name.startswith("torch") for name in found)
    assert importing != changed


def test_what_auto_runs_is_not_in_the_version_of_its_peers():
    """Otherwise every change to capture would measure torch's own methods again."""
    peers = {code_version(method) for method in METHODS if method != "auto"}
    assert len(peers) == 1
    assert code_version("auto") not in peers
    theirs = code._modules({"fxopt_workbench.huggingface.coverage.worker", METHODS_OF_OTHERS})
    assert "fxopt_workbench.capture_extension" not in theirs
    assert "fxopt_workbench.huggingface.coverage.own_method" not in theirs


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ImportError("EomtLoss requires the scipy library but it was not found"), "package: scipy"),
        (ModuleNotFoundError("No module named 'natten'", name="natten"), "package: natten"),
        (TooLargeError("9 parameters"), "too large"),
        (NotImplementedError("no forward"), "no call"),
        (UnknownArgumentError("marks"), "no call"),
        (CannotTellError("the same whatever comes"), "cannot tell"),
        (KeyError("full_attention"), "raises"),
        (RuntimeError("mat1 and mat2"), "raises"),
    ],
)
def test_causes_of_types_that_do_not_run(error, expected):
    assert cause(error) == expected
    assert expected.partition(":")[0] in NOT_RUN


def test_a_type_that_runs_out_of_time_while_it_is_built_says_so(tmp_path):
    (row,) = run_coverage(["bert"], [], tmp_path, seconds=0.01)
    assert (row.outcome, row.cause, row.verdict) == ("timeout", "limit", "failed")


def test_a_killed_run_is_continued(tmp_path):
    turns = tmp_path / "turns"
    command = [sys.executable, "-m", "fxopt_workbench.cli", "coverage", "--types", "bert,gpt2,vit", "--jobs", "1"]
    command += [
        "--methods",
        "scripted_methods:notes_its_turn,scripted_methods:raises",
        "--out",
        str(tmp_path),
        "--json",
    ]
    environment = os.environ | {
        "FXOPT_TEST_TURNS": str(turns),
        "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), str(HERE)]),
    }
    path = tmp_path / RESULTS_FILE
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 100
        while time.monotonic() < until and not (turns.exists() and "GPT2Model" in turns.read_text()):
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    worker = int(turns.read_text().split()[-1])
    until = time.monotonic() + 30
    while time.monotonic() < until and _is_alive(worker):
        time.sleep(0.05)
    assert not _is_alive(worker)
    kept = path.read_text()
    assert len(kept.splitlines()) == 1 + 3 + 1
    path.write_text(kept + '{"type": "gpt2", "meth')
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert [(row["type"], row["verdict"]) for row in rows] == [
        (one, verdict) for one in ("bert", "gpt2", "vit") for verdict in ("runs", "general", "failed")
    ]
    text = path.read_text()
    assert text.startswith(kept)
    assert len(text.splitlines()) == 1 + 9
    assert turns.read_text().count("BertModel") == 1


def _is_alive(process_id):
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True


def test_results_of_other_versions_are_refused(tmp_path):
    Results(tmp_path, VERSIONS).add(Row("bert", "eager", "captured"))
    assert Results(tmp_path, VERSIONS).rows["bert", "eager"].outcome == "captured"
    with pytest.raises(ResultsError, match="was measured with"):
        Results(tmp_path, VERSIONS | {"torch": "3"})
    (tmp_path / RESULTS_FILE).write_text("something else\n")
    with pytest.raises(ResultsError, match="is not a file of coverage results"):
        Results(tmp_path, VERSIONS)


def test_a_file_cut_off_in_its_first_line_starts_anew(tmp_path):
    (tmp_path / RESULTS_FILE).write_text('{"versions": {"tor')
    Results(tmp_path, VERSIONS).add(Row("bert", "eager", "captured"))
    assert list(Results(tmp_path, VERSIONS).rows) == [("bert", "eager")]


class _Cells(HTMLParser):
    """The texts of the cells of each table, and the addresses that a page asks for."""

    def __init__(self):
        super().__init__()
        self.tables, self.asked_for = {}, []
        self.table = None

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.asked_for += [given[name] for name in ("src", "href") if name in given]
        if tag == "table":
            self.table = self.tables.setdefault(given["id"], [])
        elif tag == "tr":
            self.table.append([])
        elif tag in ("td", "th"):
            self.table[-1].append("")

    def handle_endtag(self, tag):
        if tag == "table":
            self.table = None

    def handle_data(self, data):
        if self.table and self.table[-1]:
            self.table[-1][-1] += data.strip()


def test_the_page_has_every_row_and_nothing_from_elsewhere(scripted):
    _, rows = scripted
    odd = Row("x<y>", "export", "error", "KeyError: '<script>'")
    page = _Cells()
    page.feed(coverage_page([*rows.values(), odd]))
    _, *shown = page.tables["rows"]
    assert [(one[0], one[1], one[2]) for one in shown] == [(r.type, r.method, r.verdict) for r in [*rows.values(), odd]]
    assert shown[-1][-2] == "KeyError: '<script>'"
    assert {one[-1] for one in shown[:-1]} == {row.code for row in rows.values()}
    assert any("refused" in one for one in shown)
    assert page.asked_for == []


@pytest.mark.browser
def test_the_page_searches(scripted, tmp_path):
    from playwright.sync_api import sync_playwright
    from test_browser import SWITCHES, browser_path

    _, rows = scripted
    path = tmp_path / "coverage.html"
    path.write_text(coverage_page(list(rows.values())))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox", *SWITCHES])
        page = browser.new_page()
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        page.goto(path.as_uri())
        visible = page.locator("#rows tbody tr:visible")
        assert visible.count() == len(rows)
        page.fill("#search", "BERT wrong")
        assert visible.count() == 3
        assert {visible.nth(index).locator("td").nth(2).inner_text() for index in range(3)} == {"wrong"}
        assert page.locator("#shown").inner_text() == f"3 of {len(rows)} rows"
        page.fill("#search", "no such thing")
        assert visible.count() == 0
        page.fill("#search", "")
        assert visible.count() == len(rows)
        if "FXOPT_SCREENSHOTS" in os.environ:
            page.screenshot(path=Path(os.environ["FXOPT_SCREENSHOTS"]) / "coverage.png")
        browser.close()
    assert errors == []


def run(*arguments):
    return CliRunner().invoke(app, ["coverage", *map(str, arguments)])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--types", "brt"), "there is no model type 'brt'. Did you mean 'bert"),
        (("--types", ","), "does not name any model type"),
        (("--methods", "exprt"), "there is no method 'exprt'. Did you mean 'export"),
        (("--methods", "scripted_methods:nothing"), "nothing"),
        (("--methods", "no_such_module:capture"), "no_such_module"),
    ],
)
def test_bad_input_is_named(arguments, message, tmp_path):
    result = run(*arguments, "--out", tmp_path)
    assert result.exit_code == 2
    assert message in result.output
    assert not list(tmp_path.iterdir())


def test_a_folder_for_results_is_not_made_where_nothing_is(tmp_path):
    result = run("--types", "bert", "--methods", "eager", "--out", tmp_path / "absent" / "out")
    assert result.exit_code == 2
    assert "absent does not exist; create it first." in result.output
    assert not list(tmp_path.iterdir())


def test_without_transformers_it_says_what_to_install(monkeypatch, tmp_path):
    from fxopt_workbench.huggingface.coverage import types

    monkeypatch.setitem(sys.modules, "transformers", None)
    types._class_names.cache_clear()  # what it knew from a call before
    result = run("--out", tmp_path)
    assert result.exit_code == 2
    assert "pip install 'fxopt[hf]'" in result.output


def test_the_command_counts_and_fails_on_a_wrong_answer(tmp_path):
    results = Results(tmp_path, scripted_versions())
    eager, peers = code_version("eager"), code_version("export")
    results.add(Row("bert", "eager", "captured", verdict="runs", code=eager))
    results.add(Row("dinat", "eager", "error", "ImportError: natten", cause="package: natten", code=eager))
    results.add(Row("bark", "eager", "error", "NotImplementedError: forward", cause="no call", code=eager))
    results.add(Row("bert", "export", "captured", verdict="general", seconds=1.5, code=peers))
    types = ("--types", "bert,dinat,bark", "--out", tmp_path)
    result = run(*types, "--methods", "export")
    assert result.exit_code == 0, result.output
    shown = " ".join(result.output.split())
    assert "3 model types, of which 1 run eagerly and 2 do not" in shown
    assert "100.0 % of 1" in shown
    assert "33.3 % of 3" in shown
    assert "package: natten" in shown
    page = _Cells()
    page.feed((tmp_path / "coverage.html").read_text())
    assert page.tables["summary"][1] == ["export", "1", "0", "0", "0", "0", "100.0 % of 1", "33.3 % of 3"]
    assert [row[:2] for row in page.tables["causes"][1:]] == [["package: natten", "1"], ["no call", "1"]]
    results.add(Row("bert", "export_flat", "captured", verdict="wrong", code=peers))
    assert run(*types, "--methods", "export,export_flat").exit_code == 1


def test_denominators_of_a_run_that_is_not_finished():
    """A type that a method has not come to yet is in neither of its denominators."""
    rows = [Row(name, "eager", "captured", verdict="runs") for name in "abc"]
    rows += [Row("d", "eager", "error", cause="raises")]
    rows += [Row("a", "export", "captured", verdict="general"), Row("b", "export", "captured", verdict="wrong")]
    count = count_verdicts(rows)["export"]
    assert (count.right, count.running, count.types) == (1, 2, 3)
    assert count.shares() == ("50.0 % of 2", "33.3 % of 3")
    assert count_causes(rows) == {"raises": 1}


def scripted_versions():
    from importlib.metadata import version

    return {package: version(package) for package in ("torch", "transformers")}
