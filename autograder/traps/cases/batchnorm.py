"""Batch normalisation behind a convolution: where it cannot be folded, and where it can although it looks involved."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import fx, nn
from torch.nn import functional

from autograder.traps.trap import Collector, Program, exported, graph_of, state, traced, with_shapes

trap = Collector("conv+BN", "conv_batchnorm_folding")

folds = partial(trap, True, tolerance=1e-5, state_may_change=False, trains=False)
stays = partial(trap, False, tolerance=1e-5)
either = partial(trap, None, tolerance=1e-5, state_may_change=False, trains=False)


def lived(model: nn.Module) -> nn.Module:
    """The model in evaluation, with statistics and weights as after training."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            if module.running_mean is not None:
                module.running_mean.normal_()
                module.running_var.uniform_(0.2, 3)
            if module.affine:
                nn.init.normal_(module.weight)
                nn.init.normal_(module.bias)
    return model.eval()


class Calls(nn.Module):
    """A model made of named modules and a function that calls them."""

    def __init__(self, function: Callable[..., Any], **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self, x)


def in_sequence(*modules: nn.Module) -> nn.Module:
    return lived(nn.Sequential(*modules))


def picture(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def functional_graph(
    root: nn.Module, between: Callable[[fx.Graph, fx.Node], fx.Node | None] | None = None, **options: Any
) -> fx.GraphModule:
    """`batch_norm(conv2d(x, w, b), ...)` at the functional level, with something in between."""

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        get = {name: graph.get_attr(name) for name in ("w", "b", "mean", "variance", "gamma", "beta")}
        y = graph.call_function(functional.conv2d, (x, get["w"], get["b"]))
        if between is not None:
            between(graph, y)
        weights = {"weight": get["gamma"], "bias": get["beta"]}
        return graph.call_function(functional.batch_norm, (y, get["mean"], get["variance"]), weights | options)

    return with_shapes(graph_of(build, root), picture(2, 3, 5, 4))


def weights(channels: int = 4, inputs: int = 3) -> nn.Module:
    """Weights of a convolution and a normalisation, as persistent buffers."""
    return state(
        w=torch.randn(channels, inputs, 2, 2),
        b=torch.randn(channels),
        mean=torch.randn(channels),
        variance=torch.rand(channels) + 0.2,
        gamma=torch.randn(channels),
        beta=torch.randn(channels),
    )


@folds(left=1)
def plain_pair() -> Program:
    """The plain case, as modules in evaluation."""
    return traced(in_sequence(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4))), (picture(2, 3, 6, 5),)


@folds(left=2)
def groups_dilation_and_no_bias_at_aten_level() -> Program:
    """An exported model: the bias that was missing appears."""
    model = in_sequence(nn.Conv2d(4, 6, 3, stride=2, dilation=2, groups=2, bias=False), nn.BatchNorm2d(6), nn.ReLU())
    return exported(model, picture(2, 4, 9, 8)), (picture(2, 4, 9, 8),)


@folds(left=1)
def functional_level() -> Program:
    """Functions of torch with weights from `get_attr`; `training` is left at its default."""
    return functional_graph(weights()), (picture(2, 3, 5, 4),)


@folds(left=1)
def transposed_with_groups() -> Program:
    """The output channels of a transposed convolution are in dimension 1 of its weight, times the groups."""
    model = in_sequence(nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2, output_padding=1), nn.BatchNorm2d(6))
    return traced(model), (picture(2, 4, 4, 5),)


@folds(left=1)
def one_dimension_without_learnt_weights() -> Program:
    """A BatchNorm with `affine=False` has neither weight nor bias."""
    model = in_sequence(nn.Conv1d(3, 4, 3, padding=1), nn.BatchNorm1d(4, affine=False))
    return exported(model, picture(2, 3, 7)), (picture(2, 3, 7),)


@folds(left=1)
def three_dimensions() -> Program:
    """Conv3d."""
    return traced(in_sequence(nn.Conv3d(2, 3, 2), nn.BatchNorm3d(3))), (picture(2, 2, 3, 4, 3),)


@folds(left=1)
def circular_padding() -> Program:
    """What is padded is the input, so that the padding does not matter."""
    model = in_sequence(nn.Conv2d(3, 4, 3, padding=1, padding_mode="circular"), nn.BatchNorm2d(4))
    return traced(model), (picture(2, 3, 6, 5),)


@folds(left=1)
def two_normalisations_in_sequence() -> Program:
    """Both become one layer."""
    return traced(in_sequence(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.BatchNorm2d(4))), (picture(2, 3, 4, 5),)


@folds(left=3)
def one_normalisation_behind_two_convolutions() -> Program:
    """A shared BatchNorm is folded into both."""

    def forward(self: Calls, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.one(x)) + self.norm(self.other(x))

    model = Calls(forward, one=nn.Conv2d(3, 4, 1), other=nn.Conv2d(3, 4, 1), norm=nn.BatchNorm2d(4))
    return traced(lived(model)), (picture(2, 3, 4, 5),)


@either()
def convolution_used_with_and_without_normalisation() -> Program:
    """One convolution is called twice; behind one call there is a BatchNorm. Its weights must not be changed."""

    def forward(self: Calls, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x) + self.norm(self.conv(x * 2))

    return traced(lived(Calls(forward, conv=nn.Conv2d(3, 4, 1), norm=nn.BatchNorm2d(4)))), (picture(2, 3, 4, 5),)


@either()
def shared_convolution_with_two_normalisations() -> Program:
    """One convolution on two scales, each with a BatchNorm of its own."""

    def forward(self: Calls, x: torch.Tensor) -> torch.Tensor:
        return self.first(self.conv(x)) - self.second(self.conv(x[..., 1:]))[..., :1]

    model = Calls(forward, conv=nn.Conv2d(3, 4, 1), first=nn.BatchNorm2d(4), second=nn.BatchNorm2d(4))
    return traced(lived(model)), (picture(2, 3, 4, 2),)


@either()
def tied_weights() -> Program:
    """Two convolutions have one weight; behind one of them there is a BatchNorm."""

    def forward(self: Calls, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.one(x)) + self.other(x)

    model = Calls(forward, one=nn.Conv2d(3, 4, 1), other=nn.Conv2d(3, 4, 1), norm=nn.BatchNorm2d(4))
    model.other.weight = model.one.weight
    return traced(lived(model)), (picture(2, 3, 4, 5),)


@stays()
def residual_connection() -> Program:
    """What comes out of the convolution is used again beside the normalisation."""

    def forward(self: Calls, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return self.norm(y) + y

    return traced(lived(Calls(forward, conv=nn.Conv2d(3, 4, 1), norm=nn.BatchNorm2d(4)))), (picture(2, 3, 4, 5),)


@stays()
def returned_in_between() -> Program:
    """What comes out of the convolution is returned as well, in a dictionary."""

    def forward(self: Calls, x: torch.Tensor) -> dict[str, torch.Tensor]:
        y = self.conv(x)
        return {"raw": y, "normalised": self.norm(y)}

    return traced(lived(Calls(forward, conv=nn.Conv2d(3, 4, 1), norm=nn.BatchNorm2d(4)))), (picture(2, 3, 4, 5),)


@stays()
def training() -> Program:
    """In training the statistics are those of the batch, and the running ones move."""
    return traced(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).train()), (picture(2, 3, 4, 5),)


@stays()
def functional_training() -> Program:
    """`functional.batch_norm(..., training=True)`, although no module says so."""
    return functional_graph(weights(), training=True), (picture(2, 3, 5, 4),)


@stays()
def statistics_of_the_batch_in_evaluation() -> Program:
    """Without running statistics those of the batch are used in evaluation too."""
    model = in_sequence(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4, track_running_stats=False))
    return traced(model), (picture(2, 3, 4, 5),)


@stays()
def training_without_moving_the_statistics() -> Program:
    """In training with `track_running_stats` off, the statistics of the batch are used, and none is written."""
    model = in_sequence(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    model[1].track_running_stats = False
    model[1].train()
    return traced(model), (picture(2, 3, 4, 5),)


@stays()
def fine_tuning_with_frozen_statistics() -> Program:
    """The BatchNorm is in evaluation and the convolution is being trained: its weight has to get the gradient."""
    model = in_sequence(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    model[0].train()
    return traced(model), (picture(2, 3, 4, 5),)


@stays()
def linear_layer_on_three_dimensions() -> Program:
    """BatchNorm1d normalises dimension 1, a linear layer has its channels in the last one. Here the sizes agree."""
    return traced(in_sequence(nn.Linear(3, 3), nn.BatchNorm1d(3))), (picture(2, 3, 3),)


@stays()
def convolution_without_a_batch() -> Program:
    """Conv2d on three dimensions has its channels in dimension 0; BatchNorm1d takes three, and normalises the next."""
    return traced(in_sequence(nn.Conv2d(3, 4, 1), nn.BatchNorm1d(4))), (picture(3, 4, 5),)


@folds(left=2)
def linear_layer_on_two_dimensions() -> Program:
    """On two dimensions, known from the capture, they are the same."""
    model = in_sequence(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
    return exported(model, picture(5, 3)), (picture(5, 3),)


@stays()
def statistics_written_by_the_program() -> Program:
    """The running mean is moved by the graph itself, at each call."""

    def move(graph: fx.Graph, y: fx.Node) -> None:
        graph.call_method("add_", (graph.get_attr("mean"), 1))

    return functional_graph(weights(), move), (picture(2, 3, 5, 4),)


@stays()
def weight_written_between_the_two() -> Program:
    """The weight of the convolution is halved after it was used."""

    def halve(graph: fx.Graph, y: fx.Node) -> None:
        graph.call_method("mul_", (graph.get_attr("w"), 0.5))

    return functional_graph(weights(), halve), (picture(2, 3, 5, 4),)


@stays()
def result_written_between_the_two() -> Program:
    """What comes out of the convolution is clamped in place before it is normalised."""

    def clamp(graph: fx.Graph, y: fx.Node) -> None:
        graph.call_function(functional.relu, (y,), {"inplace": True})

    return functional_graph(weights(), clamp), (picture(2, 3, 5, 4),)


@stays()
def result_written_through_a_view() -> Program:
    """The same through a view, of which nobody uses the result."""

    def zero(graph: fx.Graph, y: fx.Node) -> None:
        graph.call_method("zero_", (graph.call_method("select", (y, 0, 0)),))

    return functional_graph(weights(), zero), (picture(2, 3, 5, 4),)


@stays()
def autocast_between_the_two() -> Program:
    """The convolution runs in bfloat16, the normalisation does not."""
    root = lived(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)))

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        mode = graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
        y = graph.call_module("0", (x,))
        graph.call_function(torch.amp.autocast_mode._exit_autocast, (mode,))
        return graph.call_module("1", (y,))

    return graph_of(build, root), (picture(2, 3, 4, 5),)


@stays()
def gradients_off_for_the_normalisation() -> Program:
    """The convolution is a constant of autograd, the normalisation is not."""
    root = lived(nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)))

    def build(graph: fx.Graph) -> Any:
        x = graph.placeholder("x")
        graph.call_function(torch._C._set_grad_enabled, (False,))
        y = graph.call_module("0", (x,))
        graph.call_function(torch._C._set_grad_enabled, (True,))
        return graph.call_module("1", (y,))

    return graph_of(build, root), (picture(2, 3, 4, 5),)


@stays()
def weights_that_are_inputs() -> Program:
    """The caller passes the running statistics."""
    root = weights()

    def build(graph: fx.Graph) -> Any:
        x, mean = graph.placeholder("x"), graph.placeholder("mean")
        y = graph.call_function(functional.conv2d, (x, graph.get_attr("w"), graph.get_attr("b")))
        return graph.call_function(functional.batch_norm, (y, mean, graph.get_attr("variance")))

    inputs = (picture(2, 3, 5, 4), torch.randn(4))
    return with_shapes(graph_of(build, root), *inputs), inputs


@stays()
def weights_of_two_dtypes() -> Program:
    """A convolution in bfloat16 with statistics in float32: folded and rounded, they lose their digits."""
    model = in_sequence(nn.Conv2d(3, 4, 1).bfloat16(), nn.BatchNorm2d(4))
    model[1].running_mean.fill_(100.3)
    return traced(model), (picture(2, 3, 4, 5).bfloat16(),)


@stays()
def scale_that_overflows() -> Program:
    """The scale is infinite in float32; sums of products with it are NaN where one product was infinite."""
    model = in_sequence(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    with torch.no_grad():
        model[1].weight.fill_(3e38)
        model[1].running_var.fill_(1e-12)
    return traced(model), (picture(2, 3, 4, 5),)


@stays(raises=True)
def statistics_that_would_be_broadcast() -> Program:
    """A BatchNorm over one channel behind four channels raises, and has to go on raising."""
    return traced(in_sequence(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(1))), (picture(2, 3, 4, 5),)


@stays()
def weight_that_is_computed_at_each_call() -> Program:
    """A parametrised weight is computed anew from what is trained; the class of the module says so."""
    model = in_sequence(nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 4, 1)), nn.BatchNorm2d(4))
    return traced(model), (picture(2, 3, 4, 5),)


@stays()
def weight_that_a_hook_sets() -> Program:
    """The older `weight_norm` sets the weight in a hook before each call."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        normed = nn.utils.weight_norm(nn.Conv2d(3, 4, 1))
    return traced(in_sequence(normed, nn.BatchNorm2d(4))), (picture(2, 3, 4, 5),)


@stays()
def hook_behind_the_convolution() -> Program:
    """A forward hook doubles what comes out of the convolution."""
    model = in_sequence(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))
    model[0].register_forward_hook(lambda module, args, result: result.abs())
    return traced(model), (picture(2, 3, 4, 5),)


class Standardised(nn.Conv2d):
    """A convolution that standardises its weight at each call."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight = self.weight - self.weight.mean(dim=(1, 2, 3), keepdim=True)
        return self._conv_forward(input, weight, self.bias)


@stays()
def subclass_with_another_forward() -> Program:
    """A leaf module that is a Conv2d by class and computes something else."""
    root = in_sequence(Standardised(3, 4, 1), nn.BatchNorm2d(4))

    def build(graph: fx.Graph) -> Any:
        return graph.call_module("1", (graph.call_module("0", (graph.placeholder("x"),)),))

    return graph_of(build, root), (picture(2, 3, 4, 5),)


@folds(left=2)
def empty_batch() -> Program:
    """A batch of no pictures."""
    model = in_sequence(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.Flatten())
    return traced(model), (picture(0, 3, 4, 5),)


TRAPS = trap.traps
