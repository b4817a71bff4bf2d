"""YOLOv8 and YOLO11 agree with what was published about them."""

import math

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from fxopt_workbench import zoo
from fxopt_workbench.zoo.yolo import YOLO11_SCALES, YOLOV8_SCALES, yolo11, yolov8
from fxopt_workbench.zoo.yolo.blocks import SPPF, Bottleneck, Conv, PositionAttention, PSABlock
from fxopt_workbench.zoo.yolo.head import DistributionToDistance

PUBLISHED = {
    "yolov8n": (3157200, 8.7),
    "yolov8s": (11166560, 28.6),
    "yolov8m": (25902640, 78.9),
    "yolov8l": (43691520, 165.2),
    "yolov8x": (68229648, 257.8),
    "yolo11n": (2624080, 6.5),
    "yolo11s": (9458752, 21.5),
    "yolo11m": (20114688, 68.0),
}
"""Parameters, from the comments of Ultralytics' `yolov8.yaml` and `yolo11.yaml` (80 classes, before folding, with
the 16 fixed weights of the head); FLOPs / 10⁹ at 640² after folding, from the tables of its documentation; a
multiply-add is 2."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_and_flops_are_the_published_ones(name):
    chosen = zoo.build(name, "meta")
    parameters, flops = PUBLISHED[name]
    assert sum(parameter.numel() for parameter in chosen.model.parameters()) == parameters
    # Batch normalisation has no formula in torch's counter, so that folded or not is the same.
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        output = chosen.model(*chosen.example_inputs)
    assert counter.get_total_flops() == pytest.approx(1e9 * flops, rel=0.02)
    # Boxes and 80 classes for 80² + 40² + 20² positions.
    assert output.shape == (1, 84, 8400)


def test_all_published_scales_are_in_the_zoo():
    assert tuple(name for name in zoo.names("published") if name.startswith("yolov8") or "yolo11" in name) == tuple(
        PUBLISHED
    )
    assert all(zoo.build(name, "meta").description.lower().startswith(name) for name in PUBLISHED)


@pytest.fixture(scope="module", params=[(yolov8, YOLOV8_SCALES), (yolo11, YOLO11_SCALES)], ids=["v8", "11"])
def detector(request):
    make, scales = request.param
    torch.manual_seed(0)
    return make(scales["n"]).eval()


def test_the_head_reads_boxes_off_the_distributions(detector):
    """With last layers that ignore their input, every position has the box and score that the biases say."""
    left, upper, right, lower = 2, 1, 4, 5
    head = detector.head
    for boxes, scores in zip(head.boxes, head.scores, strict=True):
        nn.init.zeros_(boxes[-1].weight)
        nn.init.constant_(boxes[-1].bias, -100.0)
        nn.init.zeros_(scores[-1].weight)
        nn.init.constant_(scores[-1].bias, math.log(0.25 / 0.75))
        with torch.no_grad():
            for side, distance in enumerate((left, upper, right, lower)):
                boxes[-1].bias[16 * side + distance] = 100.0
    # Two images of 64 × 96, so that height and width cannot be mistaken for each other.
    with torch.no_grad():
        output = detector(torch.randn(2, 3, 64, 96))
    assert output.shape == (2, 84, 8 * 12 + 4 * 6 + 2 * 3)
    assert torch.allclose(output[:, 4:], torch.tensor(0.25))
    expected = []
    for stride in (8, 16, 32):
        for row in range(64 // stride):
            for column in range(96 // stride):
                x, y = column + 0.5, row + 0.5
                middle = (x + (right - left) / 2, y + (lower - upper) / 2)
                expected.append([stride * value for value in (*middle, left + right, upper + lower)])
    torch.testing.assert_close(output[0, :4].T, torch.tensor(expected))


def test_in_training_the_head_gives_three_raw_maps(detector):
    detector.train()
    maps = detector(torch.randn(2, 3, 64, 96))
    detector.eval()
    assert [tuple(one.shape) for one in maps] == [(2, 144, 8, 12), (2, 144, 4, 6), (2, 144, 2, 3)]


def test_distances_are_expected_values_and_their_weights_are_fixed():
    layer = DistributionToDistance()
    torch.manual_seed(0)
    logits = torch.randn(2, 64, 5)
    expected = (logits.view(2, 4, 16, 5).softmax(2) * torch.arange(16.0)[:, None]).sum(2)
    torch.testing.assert_close(layer(logits), expected)
    assert [parameter.requires_grad for parameter in layer.parameters()] == [False]


def test_attention_is_torchs_own_plus_the_encoding_of_positions():
    torch.manual_seed(0)
    attention = PositionAttention(128).eval()
    x = torch.randn(2, 128, 3, 5)
    with torch.no_grad():
        query, key, value = attention.qkv(x).view(2, 2, 128, 15).split((32, 32, 64), dim=2)
        attended = nn.functional.scaled_dot_product_attention(
            *(one.transpose(-2, -1) for one in (query, key, value))
        ).transpose(-2, -1)
        together = attended.reshape(2, 128, 3, 5) + attention.positions(value.reshape(2, 128, 3, 5))
        torch.testing.assert_close(attention(x), attention.project(together))


@pytest.mark.parametrize("activation", [True, False])
def test_a_convolution_is_normalised_and_activated(activation):
    torch.manual_seed(0)
    block = Conv(4, 6, kernel=3, stride=2, groups=2, activation=activation).eval()
    normalization = block.normalization
    nn.init.uniform_(normalization.running_mean)
    nn.init.uniform_(normalization.running_var, 0.0, 0.01)
    x = torch.randn(2, 4, 5, 7)
    convolved = nn.functional.conv2d(x, block.convolution.weight, stride=2, padding=1, groups=2)
    mean, variance = (one[:, None, None] for one in (normalization.running_mean, normalization.running_var))
    expected = (convolved - mean) / (variance + 1e-3).sqrt()
    torch.testing.assert_close(block(x), expected * expected.sigmoid() if activation else expected)


def test_attention_and_feed_forward_each_add_to_their_input():
    torch.manual_seed(0)
    block = PSABlock(64).eval()
    x = torch.randn(2, 64, 3, 5)
    attended = x + block.attention(x)
    torch.testing.assert_close(block(x), attended + block.feed_forward(attended))


def test_the_input_passes_by_a_bottleneck_where_there_is_a_shortcut():
    torch.manual_seed(0)
    x = torch.randn(2, 8, 4, 6)
    block = Bottleneck(8, shortcut=True, expansion=0.5).eval()
    through = block.second(block.first(x))
    torch.testing.assert_close(block(x), x + through)
    block.shortcut = False
    torch.testing.assert_close(block(x), through)


def test_shortcuts_are_where_they_were_published():
    """Neither parameters nor FLOPs would show them: YOLOv8 has none in its neck, YOLO11 everywhere."""

    def shortcuts(module):
        return {block.shortcut for block in module.modules() if isinstance(block, Bottleneck)}

    with torch.device("meta"):
        older, newer = yolov8(YOLOV8_SCALES["m"]), yolo11(YOLO11_SCALES["m"])
    assert (shortcuts(older.backbone), shortcuts(older.neck)) == ({True}, {False})
    assert (shortcuts(newer.backbone), shortcuts(newer.neck)) == ({True}, {True})


def test_the_pyramid_pools_over_5_9_and_13_positions():
    torch.manual_seed(0)
    pyramid = SPPF(8).eval()
    x = torch.randn(2, 8, 15, 17)
    entered = pyramid.enter(x)
    pooled = [nn.functional.max_pool2d(entered, size, stride=1, padding=size // 2) for size in (5, 9, 13)]
    torch.testing.assert_close(pyramid(x), pyramid.leave(torch.cat((entered, *pooled), 1)))


def test_the_neck_joins_maps_of_one_stride(detector):
    """The finest map reaches the coarsest output and the coarsest map the finest output."""
    small = torch.randn(1, 1, 2, 3)
    assert torch.equal(detector.neck.enlarge(small), small.repeat_interleave(2, -1).repeat_interleave(2, -2))
    maps = [torch.randn(1, channels, edge, edge, requires_grad=True) for channels, edge in _maps(detector)]
    fine, _, coarse = detector.neck(*maps)
    assert [one.shape[-1] for one in (fine, coarse)] == [8, 2]
    for output, reached in ((fine, maps), (coarse, maps)):
        gradients = torch.autograd.grad(output.sum(), reached, retain_graph=True)
        assert all(gradient.abs().sum() > 0 for gradient in gradients)


def _maps(detector):
    with torch.no_grad():
        return [(one.shape[1], one.shape[2]) for one in detector.backbone(torch.randn(1, 3, 64, 64))]
