"""Stages are framed and repeated blocks are one box, in the picture and in its text twin."""

from __future__ import annotations

import re
from functools import cache

import pytest
import torch

from fxopt_workbench import zoo
from fxopt_workbench.pictures import GraphPicture, draw
from fxopt_workbench.pictures.grouping import MOST_FRAMED
from fxopt_workbench.pictures.style import STAGES
from fxopt_workbench.structure.model_costs import export_on_fake_tensors


@cache
def program(model: str) -> torch.export.ExportedProgram:
    chosen = zoo.build(model, "meta")
    return export_on_fake_tensors(chosen.model, chosen.example_inputs)


def column(picture: GraphPicture, name: str) -> list[str]:
    place = picture.scene.header.index(name)
    return [row[place] for row in picture.scene.rows]


def frame_titles(picture: GraphPicture) -> list[str]:
    """The names of the frames as the picture shows them."""
    clusters = re.findall(r'<g id="clust\d+" class="cluster">.*?</g>', picture.svg, flags=re.DOTALL)
    titles = [re.sub(r"<[^>]*>", " ", cluster).split() for cluster in clusters]
    return [title[-1] for title in titles]


def test_stages_of_a_detector_are_framed_named_and_told() -> None:
    picture = draw(program("yolov8n"))
    assert frame_titles(picture) == ["Legend", "backbone", "neck", "head"]
    assert all(STAGES[stage] in picture.svg for stage in ("backbone", "neck", "head"))
    assert len({*STAGES.values()}) == len(STAGES)
    assert len(picture.scene.boxes) <= MOST_FRAMED
    for box, stage in zip(picture.scene.boxes, column(picture, "stage"), strict=True):
        assert box.stage == stage
        assert stage == ("" if box.kind in ("input", "output") else box.name.partition(" ")[0].partition(".")[0])
    assert [*dict.fromkeys(filter(None, column(picture, "stage")))] == ["backbone", "neck", "head"]
    assert "Stages: backbone, neck, head." in picture.alt_text()


def test_a_model_of_one_stage_has_no_frame() -> None:
    picture = draw(program("bert-base"))
    assert frame_titles(picture) == ["Legend"]
    assert "stage" not in picture.scene.header


@pytest.mark.parametrize("collapse", ["auto", "blocks"])
def test_twelve_layers_are_one_box(collapse: str) -> None:
    picture = draw(program("bert-base"), collapse=collapse)  # type: ignore[arg-type]
    (box,) = [box for box in picture.scene.boxes if box.kind == "block"]
    assert box.name == "12 × encoder.layer.0–11 (BertLayer)"
    assert box.lines[:4] == ("12 × BertLayer", "encoder.layer.0–11", "23 nodes each, 276 in all", "192 parameters")
    assert "12 × BertLayer" in picture.svg
    row = dict(zip(column(picture, "box"), column(picture, "most frequent operations"), strict=True))[box.name]
    assert row.startswith("each: aten.linear.default ×6")
    assert "Repeated blocks: 12 × encoder.layer.0–11 (BertLayer)." in picture.alt_text()
    program_nodes = [node for node in program("bert-base").graph.nodes if node.op != "placeholder"]
    assert sum(map(int, column(picture, "nodes"))) == len(program_nodes) + 2
    place = {box.name: number for number, box in enumerate(picture.scene.boxes)}
    assert all(place[arrow.source] < place[arrow.target] for arrow in picture.scene.arrows)


def test_layers_are_expanded_when_asked() -> None:
    picture = draw(program("bert-base"), collapse="modules")
    assert not any(box.kind == "block" for box in picture.scene.boxes)
    assert any(box.name.startswith("encoder.layer.11") for box in picture.scene.boxes)


def test_a_highlighted_node_is_not_hidden_in_a_block() -> None:
    node = next(node for node in program("bert-base").graph.nodes if node.name == "gelu_3")
    picture = draw(program("bert-base"), highlight=[node])
    (box,) = [box for box in picture.scene.boxes if box.highlighted]
    assert box.kind == "group"
    assert box.name.startswith("encoder.layer.3")


def test_a_block_that_reaches_into_another_stage_says_so() -> None:
    pytest.importorskip("transformers")
    picture = draw(program("rt-detr-r50"))
    blocks = {box.stage: box for box in picture.scene.boxes if box.kind == "block"}
    assert blocks["backbone"].lines[0] == "5 × RTDetrResNetBottleNeckLayer"
    assert "with 5 nodes of head" in blocks["transformer"].lines
    assert "holds 5 nodes of head too." in picture.text
    assert frame_titles(picture) == ["Legend", "backbone", "neck", "transformer", "head"]


def test_a_small_repeat_gets_no_box_of_its_own() -> None:
    """Two bottlenecks of seven nodes would tear the blocks of YOLOv8n apart; six of YOLOv8x are worth it."""
    assert not any(box.kind == "block" for box in draw(program("yolov8n")).scene.boxes)
    assert [box.lines[0] for box in draw(program("yolov8x")).scene.boxes if box.kind == "block"] == [
        "6 × Bottleneck"
    ] * 2
