"""Stages and repeated blocks in the tables and the JSON of the commands."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from typer.testing import CliRunner

from fxopt_workbench.cli import app
from fxopt_workbench.commands.model_comparison import analyze_model
from fxopt_workbench.results.parts import block_tables, stage_comparison, stage_table
from fxopt_workbench.structure import structure_of

analyzed = cache(analyze_model)


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def as_json(*arguments: str) -> Any:
    return json.loads(printed(*arguments, "--json"))


def convolution(inputs: int, outputs: int, window: int = 3) -> int:
    """Parameters: no bias, and two a channel for the normalisation."""
    return inputs * outputs * window**2 + 2 * outputs


def c2f(inputs: int, outputs: int, bottlenecks: int) -> int:
    half = outputs // 2
    ends = convolution(inputs, outputs, 1) + convolution((2 + bottlenecks) * half, outputs, 1)
    return ends + 2 * bottlenecks * convolution(half, half)


# The layers of yolov8.yaml (Ultralytics) in scale n: 0 to 9, and of 10 to 21 those that have parameters.
BACKBONE = (
    *(convolution(3, 16), convolution(16, 32), c2f(32, 32, 1), convolution(32, 64), c2f(64, 64, 2)),
    *(convolution(64, 128), c2f(128, 128, 2), convolution(128, 256), c2f(256, 256, 1)),
    convolution(256, 128, 1) + convolution(512, 256, 1),
)
NECK = (
    *(c2f(256 + 128, 128, 1), c2f(128 + 64, 64, 1)),
    *(convolution(64, 64), c2f(64 + 128, 128, 1), convolution(128, 128), c2f(128 + 256, 256, 1)),
)


def test_stages_in_each_command() -> None:
    one = as_json("analyze", "--model", "yolov8n")
    (compared, larger) = as_json("extract", "--compare", "yolov8n,yolov8s")
    extracted = as_json("extract", "--model", "yolov8n", "--analyze", "--device", "cpu")["costs"]
    assert one["stages"] == compared["stages"] == extracted["stages"]
    assert one["blocks"] == compared["blocks"] == extracted["blocks"]
    told = {stage["stage"]: stage for stage in one["stages"]}
    assert list(told) == ["backbone", "neck", "head"]
    backbone, neck, head = (stage["parameters"] for stage in told.values())
    assert (backbone, neck, backbone + neck + head) == (sum(BACKBONE), sum(NECK), one["parameters"])
    assert sum(stage["flops"] for stage in told.values()) == one["total"]["flops"]
    assert sum(stage["bytes_read"] for stage in told.values()) == one["total"]["bytes_read"]
    assert told["neck"]["gives"] == ["[1, 64, 80, 80]", "[1, 128, 40, 40]", "[1, 256, 20, 20]"]
    assert all(node["stage"] in told for node in one["nodes"])
    assert all(stage["flops"] > told[stage["stage"]]["flops"] for stage in larger["stages"])


def test_the_tables_say_it_too() -> None:
    analyses = {name: analyzed(name) for name in ("yolov8n", "resnet")}
    text = stage_table(structure_of(analyses["yolov8n"])).text()
    assert "backbone: Leads down to the coarsest map that is enlarged later" in text
    assert "strides 8, 16, 32" in text
    rows = stage_comparison({name: structure_of(one) for name, one in analyses.items()}).rows
    assert [row[0] for row in rows] == [
        *("yolov8n: backbone", "yolov8n: neck", "yolov8n: head"),
        *("resnet: backbone", "resnet: head"),
    ]
    assert [row[-2] for row in rows[:3]] == ["36%", "22%", "41%"]
    assert "model: stage" in printed("extract", "--compare", "yolov8n,yolov8s")
    assert "Stages" in printed("extract", "--model", "cnn", "--analyze", "--device", "cpu")
    by_stage = printed("analyze", "--model", "resnet", "--by", "stage", "--hardware", "h100", "--device", "cpu")
    assert "backbone" in by_stage.partition("Stages")[0]


def test_a_repeated_block_is_counted_once_and_times() -> None:
    pytest.importorskip("transformers")
    (block,) = as_json("analyze", "--model", "bert-base")["blocks"]
    assert (block["name"], block["times"], block["same"]) == ("encoder.layer.0–11 (BertLayer)", 12, True)
    # Four projections of 768 x 768, two of 768 x 3072, with biases; two normalisations.
    assert block["parameters"] == 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768
    # Of 128 tokens: those products, and queries by keys by values.
    assert block["flops"] == 2 * 128 * (4 * 768 * 768 + 2 * 768 * 3072) + 4 * 128 * 128 * 768
    (row,) = block_tables(structure_of(analyzed("bert-base")))[0].rows
    assert row[:3] == ("encoder.layer.0–11 (BertLayer)", "×12", "23")


def test_blocks_that_differ_say_in_what() -> None:
    pytest.importorskip("transformers")
    (block,) = as_json("analyze", "--model", "yolos-base")["blocks"]
    assert (block["times"], block["same"]) == (11, False)
    assert block["difference"] == "select_2 has 0 where select_3 has 1"
    assert "not the same, but alike" in block_tables(structure_of(analyzed("yolos-base")))[0].notes[0]


def test_nothing_repeated_has_no_table() -> None:
    assert block_tables(structure_of(analyzed("mlp"))) == []
