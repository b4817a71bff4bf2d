"""Programs of the kinds that people give to `torch.compile`: what is called, with what, in which modes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

Make = Callable[[], tuple[Callable[..., Any], list[tuple[Any, ...]]]]


@dataclass(frozen=True)
class Program:
    """What to compile, and calls of it.

    Attributes:
        make: the model or function, and the arguments of each call; the same at each call of `make`.
        mode: entered around every call.
        training: whether a model is in training.
        gradients: whether inputs ask for gradients and each call is differentiated.
        between: what is done to the model after each call.
        compiled: further arguments of `torch.compile`.
    """

    make: Make
    mode: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
    training: bool = False
    gradients: bool = True
    between: Callable[[Any], object] = lambda model: None
    compiled: tuple[tuple[str, Any], ...] = ()


PROGRAMS: dict[str, Program] = {}


def program(**settings: Any) -> Callable[[Make], Make]:
    def add(make: Make) -> Make:
        PROGRAMS[make.__name__] = Program(make, **settings)
        return make

    return add


def calls(*shapes: tuple[int, ...]) -> list[tuple[Any, ...]]:
    return [(torch.randn(shape),) for shape in shapes]


def lived(model: nn.Module) -> nn.Module:
    """With statistics and weights as after training."""
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean.normal_()
            module.running_var.uniform_(0.2, 3)
            nn.init.normal_(module.weight)
            nn.init.normal_(module.bias)
    return model


def normalised() -> nn.Module:
    return lived(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 1)))


PICTURES = ((2, 3, 6, 6), (2, 3, 6, 6), (3, 3, 5, 7), (1, 3, 8, 8))


@program()
def constant_in_the_function() -> Any:
    return lambda x: x + torch.arange(4) * 2, calls((4,), (4,), (3, 4))


@program()
def literal_tensor() -> Any:
    return lambda x: x * torch.tensor([1.0, 2.0, 3.0]) + torch.tensor(2), calls((3,), (2, 3))


@program()
def constant_that_is_returned_and_written() -> Any:
    def f(x: torch.Tensor) -> Any:
        table = torch.arange(4.0) * 2
        table.add_(1)
        return x + table, torch.ones(2) * 3

    return f, calls((4,), (4,))


@program(between=lambda model: model.load_state_dict({k: v * 1.5 for k, v in model.state_dict().items()}))
def weights_loaded_after_compile() -> Any:
    return normalised(), calls(*PICTURES)


def _step(model: Any) -> None:
    torch.optim.SGD(model.parameters(), lr=1e-3).step()


@program(between=_step)
def optimiser_step() -> Any:
    return normalised(), calls(*PICTURES)


@program(mode=torch.no_grad, gradients=False, between=lambda model: model[1].running_var.data.mul_(3))
def statistics_written_behind_autograd() -> Any:
    return normalised(), calls(*PICTURES)


@program(mode=torch.no_grad, gradients=False, between=lambda model: model[0].weight.data.copy_(model[0].weight * 2))
def weights_written_behind_autograd() -> Any:
    return normalised(), calls(*PICTURES)


def _replace(model: Any) -> None:
    model[0].weight = nn.Parameter(model[0].weight.detach() + 1)


@program(mode=torch.inference_mode, gradients=False, between=_replace)
def parameter_replaced() -> Any:
    return normalised(), calls(*PICTURES)


@program(mode=torch.no_grad, gradients=False, between=lambda model: model.train(not model.training))
def training_and_evaluation_in_turn() -> Any:
    return normalised(), calls(*PICTURES)


def _other_eps(model: Any) -> None:
    model[1].eps *= 50


@program(mode=torch.no_grad, gradients=False, between=_other_eps, compiled=(("dynamic", True),))
def eps_changes() -> Any:
    return normalised(), calls(*PICTURES)


@program(mode=torch.no_grad, gradients=False, between=lambda model: model.double())
def another_dtype_of_everything() -> Any:
    return normalised(), [(torch.randn(2, 3, 6, 6),), (torch.randn(2, 3, 6, 6).double(),)]


@program(training=True)
def statistics_in_training() -> Any:
    return normalised(), calls(*PICTURES[:3])


@program(training=True)
def dropout_and_draws() -> Any:
    def f(x: torch.Tensor) -> torch.Tensor:
        torch.rand(3)
        return functional.dropout(x, 0.5) + torch.rand_like(x) * torch.randn(3)

    return f, calls((5, 3), (5, 3), (7, 3))


@program(compiled=(("dynamic", True),))
def sizes_from_the_start() -> Any:
    return lambda x: x.view(x.shape[0], -1).sum(1) / x.shape[1] + torch.arange(x.shape[0]), calls(
        (2, 3), (4, 5), (7, 2)
    )


@program()
def sizes_after_the_second_call() -> Any:
    return lambda x: (x.reshape(-1, 2).softmax(-1).contiguous() * x.shape[0]).sum(0), calls((4,), (6,), (8,), (10,))


@program()
def reshape_by_size() -> Any:
    return lambda x: x.reshape(x.shape[0], x.shape[1]) + x.view(x.size()) + x.expand(x.shape), calls(
        (4, 3), (6, 3), (8, 2)
    )


@program()
def graph_break() -> Any:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() + x.sin()
        torch._dynamo.graph_break()
        return y * y + 0

    return f, calls((4,), (4,), (5,))


@program(compiled=(("fullgraph", True),))
def whole_graph() -> Any:
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4)), calls((2, 4), (2, 4), (5, 4))


@program()
def branch_on_values() -> Any:
    return lambda x: x * 2 + 0 if x.sum() > 0 else x - 1, [(torch.ones(3),), (-torch.ones(3),)]


@program()
def written_input() -> Any:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        y.mul_(2).add_(x)
        return y + y.clone()

    return f, [(torch.randn(3), torch.randn(3).requires_grad_(False)) for _ in range(2)]


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("largest", torch.zeros(3), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        self.largest = torch.maximum(self.largest, x.detach().amax(0))
        return self.linear(x) * self.seen + self.largest


@program()
def buffers_written() -> Any:
    return Counter(), calls((2, 3), (2, 3), (4, 3))


@program()
def views_and_aliases_returned() -> Any:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        return y, y.view(-1), y[0], x, x.t()

    return f, calls((2, 3), (2, 3))


@program(mode=lambda: torch.autocast("cpu", dtype=torch.bfloat16))
def autocast_around() -> Any:
    return nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2)), calls((3, 4), (3, 4), (5, 4))


@program()
def autocast_inside() -> Any:
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.t()
        with torch.autocast("cpu", enabled=False):
            return y.float() @ (torch.ones(3, 3) * 2) + (torch.eye(3) @ torch.eye(3))

    return f, calls((3, 4), (3, 4))


@program()
def gradients_switched_off_inside() -> Any:
    def f(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            scale = x.abs().amax() + 0
        return x / scale + x.detach() * 2

    return f, calls((4,), (4,))


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return -gradient


@program()
def own_backward() -> Any:
    return lambda x: Reversed.apply(x * 2 + 0) * 3, calls((4,), (4,))


@program()
def hook_on_a_value() -> Any:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.register_hook(lambda gradient: gradient * 10)
        return y + 0 + y.sin() + y.sin()

    return f, calls((4,), (4,))


@program()
def checkpointed() -> Any:
    layer = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Dropout(0.5), nn.Linear(4, 4))

    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            from torch.utils.checkpoint import checkpoint

            return checkpoint(self.layer, x, use_reentrant=False) + x.sin() + x.sin()

    return Checkpointed(), calls((3, 4), (3, 4))


@program()
def per_sample_gradients() -> Any:
    return lambda x: torch.func.vmap(torch.func.grad(lambda y: (y.sin() + 0).sum()))(x), calls((3, 4), (3, 4))


@torch.library.custom_op("fxopt_backend_test::scaled", mutates_args=())
def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


scaled.register_fake(lambda x, by: torch.empty_like(x))
scaled.register_autograd(
    lambda ctx, gradient: (gradient * ctx.by, None),
    setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1]),
)


@program()
def custom_operator() -> Any:
    return lambda x: scaled(x.sin() + 0, 3.0) + x.sin(), calls((4,), (4,))


@program()
def numbers_as_arguments() -> Any:
    return lambda x, n, s: x * n + s, [(torch.randn(3), n, n + 0.5) for n in (1, 2, 3, 4)]


@program()
def lists_and_dictionaries() -> Any:
    return lambda d, xs: {"sum": d["a"] + sum(xs), "all": [d["a"] * 1, *xs]}, [
        ({"a": torch.randn(3)}, [torch.randn(3), torch.randn(3)]) for _ in range(2)
    ]


@program()
def no_tensor_inputs() -> Any:
    return lambda: torch.arange(3.0) * 2 + torch.ones(3), [(), ()]


@program(gradients=False)
def integers_and_booleans() -> Any:
    return lambda x: (x // 2 * 2 == x) & (x + 0 > 1), [(torch.arange(6),), (torch.arange(4),)]


@program()
def complex_numbers() -> Any:
    return lambda x: torch.view_as_real(torch.fft.fft(x) * 1).sum(-1), calls((4,), (4,))


class Attention(nn.Module):
    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)
        self.register_buffer("mask", torch.zeros(5, 5), persistent=masked)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.project(x).view(*x.shape[:2], 3, 2, 4).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / 2 + self.mask[: x.shape[1], : x.shape[1]]
        return (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)


def _mask_a_row(model: Any) -> None:
    model.mask[0] = -torch.inf


@program(mode=torch.no_grad, gradients=False, between=_mask_a_row)
def mask_that_hides_everything_later() -> Any:
    return Attention(masked=True), calls((2, 5, 8), (2, 5, 8), (2, 4, 8))


@program(mode=torch.no_grad, gradients=False)
def fused_layers_of_torch() -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), calls((2, 5, 8), (2, 5, 8), (3, 4, 8))


@program(training=True)
def recurrent() -> Any:
    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRUCell(3, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            state = x.new_zeros(x.shape[0], 4)
            for position in range(x.shape[1]):
                state = self.cell(x[:, position], state)
            return state

    return Last(), calls((2, 3, 3), (2, 3, 3))


@program()
def tied_weights() -> Any:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(5, 4)
            self.head = nn.Linear(4, 5, bias=False)
            self.head.weight = self.table.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.table(x).tanh())

    return Tied(), [(torch.tensor([0, 3]),), (torch.tensor([1, 1]),)]


@program(mode=torch.no_grad, gradients=False)
def one_convolution_for_two_normalisations() -> Any:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv1d(2, 2, 1, bias=False)
            self.one, self.other = lived(nn.BatchNorm1d(2)), lived(nn.BatchNorm1d(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.one(self.conv(x)) + self.other(self.conv(x * 2)) + self.one(self.conv(x - 1))

    return Shared(), calls((2, 2, 5), (2, 2, 5))


@program(mode=torch.no_grad, gradients=False)
def normalisation_of_an_input_that_is_written() -> Any:
    def f(x: torch.Tensor, weight: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        y = functional.conv1d(x, weight)
        mean.add_(1)
        return functional.batch_norm(y, mean, torch.ones(2), torch.ones(2), torch.zeros(2))

    return f, [(torch.randn(2, 2, 5), torch.randn(2, 2, 1), torch.randn(2)) for _ in range(2)]
