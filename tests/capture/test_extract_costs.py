"""`fxopt extract --analyze` and `--compare`: what models cost."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from fxopt_workbench.cli import app


def test_costs_stand_beside_the_graphs() -> None:
    answer = CliRunner().invoke(app, ["extract", "--model", "cnn", "--analyze", "--json", "--device", "cpu"])
    assert answer.exit_code == 0, answer.output
    document = json.loads(answer.output)
    # Two convolutions and two linear layers, 28 by 28 and 14 by 14 positions, two images, a multiply-add being two.
    products = 28 * 28 * 8 * 9 + 14 * 14 * 16 * 8 * 9 + 16 * 7 * 7 * 32 + 32 * 10
    assert document["costs"]["flops"] == 2 * 2 * products
    assert document["costs"]["parameters"] == 26698
    assert document["costs"]["nodes"] == 10


def test_models_are_compared_exactly() -> None:
    answer = CliRunner().invoke(app, ["extract", "--compare", "mlp, cnn", "--json"])
    assert answer.exit_code == 0, answer.output
    small, large = json.loads(answer.output)
    assert (small["model"], large["model"]) == ("mlp", "cnn")
    assert large["parameters"] == 26698
    table = CliRunner().invoke(app, ["extract", "--compare", "mlp,cnn"]).output
    assert "26.7 k" in table
    assert table.index("mlp") < table.index("cnn")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "which model?"),
        (["--compare", "mlp,cmn"], "Did you mean 'cnn'"),
        (["--compare", "mlp,cnn", "--model", "mlp"], "leave out --model"),
    ],
)
def test_bad_input_is_named(options: list[str], said: str) -> None:
    answer = CliRunner().invoke(app, ["extract", *options])
    assert answer.exit_code == 2
    assert said in answer.output
