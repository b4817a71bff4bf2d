"""Stages found from operators and shapes, against what is published, which only the paths of modules tell."""

from __future__ import annotations

import random
import re
from collections import Counter
from functools import cache

import pytest
import torch
from torch import fx, nn

from fxopt_core.costs import Analysis
from fxopt_core.graphs.module_paths import module_path
from fxopt_workbench import zoo
from fxopt_workbench.results.parts import shapes
from fxopt_workbench.structure import Stage, find_stages, structure_of, values_in_meta
from fxopt_workbench.structure.model_costs import analyze, export_on_fake_tensors

pytest.importorskip("transformers")


@cache
def graph(model: str) -> fx.Graph:
    chosen = zoo.build(model, "meta")
    return export_on_fake_tensors(chosen.model, chosen.example_inputs).graph


@cache
def stages(model: str) -> dict[str, Stage]:
    return {stage.name: stage for stage in find_stages(graph(model), values_in_meta(graph(model)))}


@cache
def analysis(model: str) -> Analysis:
    chosen = zoo.build(model, "meta")
    return analyze(chosen.model, chosen.example_inputs)


def paths(stage: Stage) -> Counter[str]:
    return Counter(".".join(module_path(node)[0]) for node in stage.nodes)


def lies_in(model: str, stage: str, *beginnings: str, itself: tuple[str, ...] = ()) -> bool:
    """Whether the paths of a stage's nodes all begin so, or are among `itself`."""
    return all(path.startswith(beginnings) or path in itself for path in paths(stages(model)[stage]))


TOP = ("", "model", "model.decoder")

YOLOS_OF_OUR_OWN = ("yolov8n", "yolov8s", "yolov8m", "yolo11n")


@pytest.mark.parametrize("model", YOLOS_OF_OUR_OWN)
def test_yolo_is_cut_as_published(model: str) -> None:
    """Layers 0 to 9 of yolov8.yaml (0 to 10 of yolo11.yaml, Ultralytics) are our `backbone`; of the list that these
    files call "head", all but the last layer (`Detect`) are our `neck`, and that one is our `head`."""
    found = stages(model)
    assert list(found) == ["backbone", "neck", "head"]
    for name, stage in found.items():
        assert {path.partition(".")[0] for path in paths(stage)} == {name}
    calls = [node for node in graph(model).nodes if node.op == "call_function"]
    assert Counter(calls) == Counter(node for stage in found.values() for node in stage.nodes)


@pytest.mark.parametrize("model", YOLOS_OF_OUR_OWN)
def test_the_costs_of_stages_are_those_of_their_modules(model: str) -> None:
    one, built = analysis(model), zoo.build(model, "meta").model
    stages = structure_of(one).stages()
    for group in stages:
        module = built.get_submodule(group.name)
        assert group.parameters(one.parameter_elements) == sum(each.numel() for each in module.parameters())
    assert sum(group.cost.flops for group in stages) == one.total.flops


def test_levels_of_yolov8n() -> None:
    """Strides 8, 16 and 32 of an image of 640 x 640, with the channels of scale n."""
    levels = ("[1, 64, 80, 80]", "[1, 128, 40, 40]", "[1, 256, 20, 20]")
    assert [shapes(part) for part in structure_of(analysis("yolov8n")).parts] == [levels, levels, ("[1, 84, 8400]",)]


@pytest.mark.parametrize("model", ["rt-detr", "rt-detr-r50"])
def test_rt_detr_has_a_neck_with_attention_and_a_decoder(model: str) -> None:
    """Zhao et al., DETRs Beat YOLOs on Real-time Object Detection, 2023: the hybrid encoder is the neck."""
    assert set(stages(model)) == {"backbone", "neck", "transformer", "head", "unused"}
    assert lies_in(model, "backbone", "model.backbone.")
    assert lies_in(model, "neck", "model.encoder")
    # At the top of the model the best of the encoder's proposals are looked up, for an output alone.
    assert lies_in(model, "head", "model.decoder.class_embed", "model.decoder.bbox_embed", itself=TOP)
    neck = paths(stages(model)["neck"])
    for part in ("encoder_input_proj.2", "encoder.aifi", "encoder.lateral_convs", "encoder.pan_blocks.1"):
        assert any(part in path for path in neck), part
    assert "It holds 1 times attention." in stages(model)["neck"].why
    transformer = paths(stages(model)["transformer"])
    for part in ("decoder_input_proj.0", "decoder_input_proj.2", "enc_score_head", "decoder.layers.0"):
        assert any(part in path for path in transformer), part


def test_detr_is_a_backbone_a_transformer_and_a_head() -> None:
    """Carion et al., End-to-End Object Detection with Transformers, 2020; the 1 x 1 convolution is the latter's."""
    assert lies_in("detr-r50", "backbone", "model.backbone.model.")
    backbone = stages("detr-r50")["backbone"]
    convolutions = [node for node in backbone.nodes if node.target is torch.ops.aten.conv2d.default]
    assert len(convolutions) == 53  # of a ResNet-50 without its classifier
    transformer = paths(stages("detr-r50")["transformer"])
    assert transformer["model.input_projection"] == 1
    assert lies_in("detr-r50", "head", "class_labels_classifier", "bbox_predictor", itself=("",))
    assert len(stages("detr-r50")["head"].nodes) == 7


def test_yolos_is_a_transformer_and_a_head() -> None:
    assert set(stages("yolos-base")) == {"transformer", "head", "unused"}
    assert lies_in("yolos-base", "transformer", "vit.")
    assert "12 times attention" in stages("yolos-base")["transformer"].why
    assert len(stages("yolos-base")["head"].nodes) == 12


def test_classifiers() -> None:
    assert set(stages("resnet50")) == {"backbone", "head"}
    assert [node.name for node in stages("resnet50")["head"].nodes] == ["adaptive_avg_pool2d", "flatten", "linear"]
    assert set(stages("vit-b16")) == {"transformer", "head", "unused"}
    assert [node.name for node in stages("vit-b16")["head"].nodes] == ["select", "linear_72"]


@pytest.mark.parametrize(
    ("model", "name"), [("bert-base", "stack of blocks"), ("gpt2", "stack of blocks"), ("mlp", "whole")]
)
def test_nothing_is_invented_where_there_is_no_image(model: str, name: str) -> None:
    assert set(stages(model)) - {"unused"} == {name}
    why = stages(model)[name].why
    assert "reads no image" in why
    assert bool(re.search(r"the same block of \d+ nodes 12 times", why)) == (model == "bert-base")
    assert not re.search("backbone|neck|head", why)


def test_a_model_of_images_and_texts_is_unknown() -> None:
    assert set(stages("clip")) == {"unknown", "unused"}
    assert "several kinds" in stages("clip")["unknown"].why


def scrambled(original: fx.Graph) -> fx.Graph:
    """The same graph with meaningless names of nodes and placeholders, and nothing in `meta` but values."""
    numbers = list(range(len(original.nodes)))
    random.Random(0).shuffle(numbers)
    copy, table = fx.Graph(), {}
    for node, number in zip(original.nodes, numbers, strict=True):
        target = f"q{number}" if node.op == "placeholder" else node.target
        arguments = (fx.map_arg(given, table.__getitem__) for given in (node.args, node.kwargs))
        table[node] = copy.create_node(node.op, target, *arguments, name=f"q{number}")
        table[node].meta = {"val": node.meta.get("val")}
    return copy


@pytest.mark.parametrize("model", ["yolov8n", "yolo11n", "rt-detr", "detr-r50", "yolos", "resnet50", "bert"])
def test_names_tell_the_detector_nothing(model: str) -> None:
    copy = scrambled(graph(model))
    places = {node: place for place, node in enumerate(copy.nodes)}
    original = {node: place for place, node in enumerate(graph(model).nodes)}
    found = find_stages(copy, values_in_meta(copy))
    assert [stage.name for stage in found] == list(stages(model))
    for stage in found:
        same = stages(model)[stage.name]
        assert [places[node] for node in stage.nodes] == [original[node] for node in same.nodes]
        assert stage.why == same.why


class TopDown(nn.Module):
    """Three levels, projected, joined from the coarsest to the finest; `heads` of them are read."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.stem = nn.ModuleList(
            nn.Conv2d(inputs, outputs, 3, 2, 1) for inputs, outputs in ((3, 8), (8, 16), (16, 32))
        )
        self.lateral = nn.ModuleList(nn.Conv2d(inputs, 4, 1) for inputs in (8, 16, 32))
        self.heads = nn.ModuleList(nn.Sequential(nn.Conv2d(4, 4, 3, 1, 1), nn.Conv2d(4, 1, 1)) for _ in range(heads))

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        levels = []
        for stem in self.stem:
            x = stem(x).relu()
            levels.append(x)
        joined = [self.lateral[2](levels[2])]
        for place in (1, 0):
            joined.insert(0, nn.functional.interpolate(joined[0], scale_factor=2) + self.lateral[place](levels[place]))
        return [head(one) for head, one in zip(self.heads, joined, strict=False)]


def parts_of(model: nn.Module) -> dict[str, set[str]]:
    one = torch.export.export(model.eval(), (torch.randn(1, 3, 32, 32),)).graph
    return {
        stage.name: {path.partition(".")[0] for path in paths(stage)} - {""}
        for stage in find_stages(one, values_in_meta(one))
    }


def test_a_feature_pyramid_gets_its_projections() -> None:
    assert parts_of(TopDown(heads=3)) == {"backbone": {"stem"}, "neck": {"lateral"}, "head": {"heads"}}


def test_one_head_alone_is_the_end_of_a_path() -> None:
    """Nothing marks where it begins: the finest projection, too, comes after the last change of resolution."""
    found = parts_of(TopDown(heads=1))
    assert found == {"contracting path": {"stem", "lateral"}, "expanding path": {"heads", "lateral"}}


class UShape(nn.Module):
    """Two levels down and up again, each joined with the one that it came from."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(inputs, outputs, 3, 1, 1) for inputs, outputs in ((3, 8), (8, 16)))
        self.bottom = nn.Conv2d(16, 32, 3, 1, 1)
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * width, width, 2, 2) for width in (16, 8))
        self.join = nn.ModuleList(nn.Conv2d(2 * width, width, 3, 1, 1) for width in (16, 8))
        self.out = nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for convolution in self.down:
            kept.insert(0, convolution(x).relu())
            x = nn.functional.max_pool2d(kept[0], 2)
        x = self.bottom(x).relu()
        for up, join, level in zip(self.up, self.join, kept, strict=True):
            x = join(torch.cat([up(x), level], 1)).relu()
        return self.out(x)


def test_a_u_net_and_a_decoder_of_maps_have_no_backbone_and_no_neck() -> None:
    assert parts_of(UShape()) == {"contracting path": {"down", "bottom"}, "expanding path": {"up", "join", "out"}}
    decoder = nn.Sequential(
        nn.Conv2d(3, 16, 3, 1, 1), nn.Upsample(scale_factor=2), nn.Conv2d(16, 8, 3, 1, 1), nn.PixelShuffle(2)
    )
    assert set(parts_of(decoder)) == {"expanding path"}
    encoder_too = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 2, 2))
    assert parts_of(encoder_too) == {"contracting path": {"0", "1"}, "expanding path": {"2"}}


def test_a_network_of_maps_alone_shows_no_head() -> None:
    assert set(parts_of(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 1, 3)))) == {"unknown"}


def test_levels_that_never_meet_are_not_called_a_backbone() -> None:
    """As in SSD: each level has a head, but nothing in the graph tells where the level ends and its head begins."""

    class Levels(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 4, 3, 2, 1)
            self.heads = nn.ModuleList(nn.Conv2d(4, 2, 3, 1, 1) for _ in range(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            fine = self.first(x).relu()
            maps = (fine, self.second(fine).relu())
            return torch.cat([head(one).flatten(1) for head, one in zip(self.heads, maps, strict=True)], 1)

    assert set(parts_of(Levels())) == {"unknown"}
    assert set(parts_of(nn.Sequential(nn.Conv2d(3, 4, 3, 2), nn.Flatten(), nn.Linear(900, 2)))) == {"backbone", "head"}


def test_what_is_written_in_place_is_followed() -> None:
    """The convolution changes a tensor of its own, which the classifier reads under its first name."""

    class Writes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution, self.classifier = nn.Conv2d(3, 4, 3), nn.Linear(4, 2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            kept = torch.zeros(1, 4)
            kept.copy_(self.convolution(x).mean((2, 3)))
            return self.classifier(kept)

    assert parts_of(Writes()) == {"backbone": {"convolution"}, "head": {"classifier"}}
