"""What `effects_of` says of a call of a module is true over PyTorch's own module inputs; where it must give up."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import pytest
import torch
from observed_calls import Observed, State, compare, storages_of, tensors_in
from torch import fx, nn
from torch.nn.utils import parametrizations, spectral_norm
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_map_only

from fxopt_core.graphs import module_behaviours
from fxopt_core.graphs.effects import Effects, effects_of

pytestmark = pytest.mark.filterwarnings("ignore")  # modules of which parts are deprecated say so

SAMPLES = 4

x3, x4 = torch.randn(2, 4, 6), torch.randn(2, 4, 6, 6)

NOT_IN_PYTORCHS_SUITE: dict[type[nn.Module], tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    nn.Identity: (nn.Identity, (x3,)),
    nn.Hardsigmoid: (nn.Hardsigmoid, (x3,)),
    nn.RReLU: (nn.RReLU, (x3,)),
    nn.ChannelShuffle: (lambda: nn.ChannelShuffle(2), (x4,)),
    nn.CosineSimilarity: (nn.CosineSimilarity, (x3, x3 + 1)),
    nn.PairwiseDistance: (nn.PairwiseDistance, (x3, x3 + 1)),
    nn.AlphaDropout: (nn.AlphaDropout, (x3,)),
    nn.Dropout: (nn.Dropout, (x3,)),
    nn.Dropout1d: (nn.Dropout1d, (x3,)),
    nn.Dropout2d: (nn.Dropout2d, (x4,)),
    nn.Dropout3d: (nn.Dropout3d, (x4.unsqueeze(-1),)),
    nn.FeatureAlphaDropout: (nn.FeatureAlphaDropout, (x4,)),
    nn.Flatten: (nn.Flatten, (x3,)),
    nn.Unflatten: (lambda: nn.Unflatten(1, (2, 2)), (x3,)),
    nn.Fold: (lambda: nn.Fold((4, 4), 2), (torch.randn(1, 8, 9),)),
    nn.Unfold: (lambda: nn.Unfold(2), (x4,)),
    nn.NLLLoss2d: (nn.NLLLoss2d, (x4, torch.zeros(2, 6, 6, dtype=torch.long))),
    nn.TripletMarginLoss: (nn.TripletMarginLoss, (x3, x3 + 1, x3 - 1)),
    nn.TripletMarginWithDistanceLoss: (nn.TripletMarginWithDistanceLoss, (x3, x3 + 1, x3 - 1)),
    nn.CrossMapLRN2d: (lambda: nn.CrossMapLRN2d(2), (x4,)),
    nn.PixelShuffle: (lambda: nn.PixelShuffle(2), (x4,)),
    nn.PixelUnshuffle: (lambda: nn.PixelUnshuffle(2), (x4,)),
    nn.MaxUnpool1d: (lambda: nn.MaxUnpool1d(2), (torch.ones(1, 1, 2), torch.tensor([[[0, 2]]]))),
    nn.MaxUnpool2d: (lambda: nn.MaxUnpool2d(2), (torch.ones(1, 1, 1, 2), torch.tensor([[[[0, 2]]]]))),
    nn.MaxUnpool3d: (lambda: nn.MaxUnpool3d(2), (torch.ones(1, 1, 1, 1, 2), torch.tensor([[[[[0, 2]]]]]))),
    nn.EmbeddingBag: (lambda: nn.EmbeddingBag(5, 3, max_norm=0.1), (torch.tensor([[0, 1], [2, 4]]),)),
    nn.Upsample: (lambda: nn.Upsample(scale_factor=1), (x4,)),
    nn.UpsamplingBilinear2d: (lambda: nn.UpsamplingBilinear2d(scale_factor=2), (x4,)),
    nn.UpsamplingNearest2d: (lambda: nn.UpsamplingNearest2d(scale_factor=2), (x4,)),
}

WITHOUT_FORWARD = {nn.RNNBase, nn.RNNCellBase}
OPAQUE_ALL_THE_SAME = {nn.AdaptiveLogSoftmaxWithLoss, nn.SyncBatchNorm}

TROUBLESOME: dict[str, tuple[Callable[[], nn.Module], tuple[Any, ...]]] = {
    "embedding that renormalises": (lambda: nn.Embedding(5, 3, max_norm=0.1), (torch.tensor([0, 1]),)),
    "padding by nothing": (lambda: nn.ZeroPad2d(0), (x4,)),
    "reflecting nothing": (lambda: nn.ReflectionPad2d(0), (x4,)),
    "replicating nothing": (lambda: nn.ReplicationPad2d(0), (x4,)),
    "resampling to the same size": (lambda: nn.Upsample(size=(6, 6), mode="bilinear"), (x4,)),
    "unfolding single elements": (lambda: nn.Unfold(1), (x4,)),
    "circular padding by nothing": (lambda: nn.CircularPad1d(0), (x3,)),
    "batch normalisation that counts": (lambda: nn.BatchNorm1d(4, momentum=None), (x3,)),
    "batch normalisation without statistics": (lambda: nn.BatchNorm1d(4, track_running_stats=False), (x3,)),
    "instance normalisation that tracks": (lambda: nn.InstanceNorm1d(4, track_running_stats=True), (x3,)),
    "instance normalisation that no longer tracks": (
        lambda: with_attribute(nn.InstanceNorm1d(4, track_running_stats=True), "track_running_stats", False),
        (x3,),
    ),
    "batch normalisation that no longer tracks": (
        lambda: with_attribute(nn.BatchNorm1d(4), "track_running_stats", False),
        (x3,),
    ),
    "recurrence with dropout": (lambda: nn.LSTM(6, 3, num_layers=2, dropout=0.5), (x3,)),
    "attention with dropout": (lambda: nn.MultiheadAttention(6, 2, dropout=0.5), (x3, x3, x3)),
    "dropout of nothing": (lambda: nn.Dropout(0.0), (x3,)),
    "pooling at random": (lambda: nn.FractionalMaxPool2d(2, output_size=3), (x4,)),
    "pooling with indices": (lambda: nn.MaxPool1d(2, return_indices=True), (x3,)),
}


def with_attribute(module: nn.Module, name: str, value: Any) -> nn.Module:
    setattr(module, name, value)
    return module


class Sample(NamedTuple):
    name: str
    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def node_of(module: nn.Module, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> fx.Node:
    """A call of the module in a graph whose placeholders are the tensors."""
    root = nn.Module()
    root.add_module("m", module)
    graph = fx.Graph()

    def place(tensor: torch.Tensor) -> fx.Node:
        return graph.create_node("placeholder", f"input_{len(graph.nodes)}")

    node = graph.call_module("m", *tree_map_only(torch.Tensor, place, (args, kwargs or {})))
    graph.output(node)
    fx.GraphModule(root, graph)
    node.graph.owning_module.m = module  # the very same, not what torch.fx makes of it
    return node


def observe(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Observed:
    """Call a copy of the module, and compare what that does with what is said of it."""
    module = copy.deepcopy(module)
    args, kwargs = tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), (args, kwargs))
    node = node_of(module, args, kwargs)
    tensors: dict[Any, torch.Tensor] = dict(zip(node.all_input_nodes, all_tensors((args, kwargs)), strict=True))
    tensors |= {f"m.{name}": tensor for name, tensor in (*module.named_parameters(), *module.named_buffers())}
    said = effects_of(node)
    before = {place: State(tensor) for place, tensor in tensors.items()}
    stream = torch.get_rng_state()
    with torch.no_grad():
        result = module(*args, **kwargs)
    drew = not torch.equal(stream, torch.get_rng_state())
    own = {place: state.storages for place, state in before.items()}
    written = {one for place in tensors if State(tensors[place]).differs_from(before[place]) for one in own[place]}
    shared = {one for place in tensors if own[place] & storages_of(result) for one in own[place]}
    return compare(said, own, written, shared, drew, result)


def all_tensors(value: Any) -> list[torch.Tensor]:
    return tensors_in(torch.utils._pytree.tree_leaves(value))


def variants(name: str, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[Sample]:
    """The module in training and not, and in place if it can."""
    for training in (True, False):
        yield Sample(f"{name}, training={training}", module.train(training), args, kwargs)
        if hasattr(module, "inplace"):
            in_place = with_attribute(copy.deepcopy(module), "inplace", True)
            yield Sample(f"{name}, training={training}, in place", in_place, args, kwargs)


def in_family(kind: type[nn.Module]) -> bool:
    return kind.__module__.rpartition(".")[2] in module_behaviours._FAMILIES and "Lazy" not in kind.__name__


@cache
def samples() -> list[Sample]:
    torch.manual_seed(0)
    found: list[Sample] = []
    for info in module_db:
        if not in_family(info.module_cls):
            continue
        given = info.module_inputs_func(info, device="cpu", dtype=torch.float64, requires_grad=False, training=True)
        for sample in itertools.islice(given, SAMPLES):
            module = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).double()
            called = sample.forward_input
            found += variants(info.module_cls.__name__, module, called.args, called.kwargs)
    for name, (make, args) in (*NOT_IN_PYTORCHS_SUITE.items(), *TROUBLESOME.items()):
        found += variants(str(name), make(), args, {})
    return found


@cache
def survey() -> dict[str, list[Observed]]:
    seen: dict[str, list[Observed]] = {}
    for sample in samples():
        seen.setdefault(sample.name, []).append(observe(sample.module, sample.args, sample.kwargs))
    return seen


def test_nothing_happens_that_is_not_declared() -> None:
    assert {name: one.mistakes for name, seen in survey().items() for one in seen if one.mistakes} == {}


def test_every_module_of_the_families_was_called() -> None:
    kinds = {kind for kind in vars(nn.modules).values() if isinstance(kind, type) and issubclass(kind, nn.Module)}
    missing = {kind for kind in kinds if in_family(kind)} - {type(sample.module) for sample in samples()}
    assert missing - WITHOUT_FORWARD <= OPAQUE_ALL_THE_SAME


def test_no_module_of_the_families_is_opaque() -> None:
    opaque = {name for name, seen in survey().items() if any(one.effects.opaque for one in seen)}
    assert {name for name in opaque if not name.startswith("AdaptiveLogSoftmax")} == set()


def test_most_is_exactly_right() -> None:
    """Measured with PyTorch 2.13: 0.90. (What may return its input, but did not, is declared all the same.)"""
    exact = [all(one.declared == one.happened for one in seen) for seen in survey().values()]
    assert sum(exact) / len(exact) >= 0.88


@pytest.mark.parametrize("word", "wsr")
def test_each_effect_was_seen(word: str) -> None:
    """Else the survey would say nothing of it."""
    assert sum(any(word in one.happened for one in seen) for seen in survey().values()) >= 5


class Doubling(nn.Linear):
    def forward(self, input: torch.Tensor) -> torch.Tensor:
        self.calls = getattr(self, "calls", 0) + 1
        return super().forward(input)


def hooked(method: str) -> nn.Module:
    module = nn.Linear(3, 3)
    getattr(module, method)(lambda *given: None)
    return module


OPAQUE_MODULES: dict[str, Callable[[], nn.Module]] = {
    "subclass": lambda: Doubling(3, 3),
    "hook": lambda: hooked("register_forward_hook"),
    "hook before": lambda: hooked("register_forward_pre_hook"),
    "hook of gradients": lambda: hooked("register_full_backward_hook"),
    "hook of gradients before": lambda: hooked("register_full_backward_pre_hook"),
    "lazy": lambda: nn.LazyLinear(3),
    "parametrised": lambda: parametrizations.weight_norm(nn.Linear(3, 3)),
    "spectral norm of old": lambda: spectral_norm(nn.Linear(3, 3)),
    "forward of the instance": lambda: with_attribute(nn.Linear(3, 3), "forward", print),
    "compiled": lambda: torch.compile(nn.Linear(3, 3)),
    "scripted": lambda: torch.jit.script(nn.Linear(3, 3)),
    "holds others": lambda: nn.Sequential(nn.ReLU()),
    "loss with a function of one's own": lambda: nn.TripletMarginWithDistanceLoss(distance_function=torch.dist),
    "loss with a hooked distance": lambda: nn.TripletMarginWithDistanceLoss(distance_function=Doubling(3, 3)),
    "normalisation over processes": lambda: nn.SyncBatchNorm(3),
}


@pytest.mark.parametrize("name", OPAQUE_MODULES)
def test_what_is_not_understood_is_opaque(name: str) -> None:
    assert effects_of(node_of(OPAQUE_MODULES[name](), (x3,))).opaque


@pytest.mark.parametrize(
    "register", [nn.modules.module.register_module_forward_hook, nn.modules.module.register_module_forward_pre_hook]
)
def test_a_hook_of_all_modules_makes_all_opaque(register: Callable[..., Any]) -> None:
    node = node_of(nn.ReLU(), (x3,))
    assert not effects_of(node).opaque
    handle = register(lambda *given: None)
    try:
        assert effects_of(node).opaque
    finally:
        handle.remove()


def test_a_class_with_another_forward_is_opaque(monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_of(nn.ReLU(), (x3,))
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, input: input)
    assert effects_of(node).opaque


def test_the_present_mode_counts() -> None:
    module = nn.Dropout()
    node = node_of(module, (x3,))
    assert effects_of(node).random
    module.eval()
    assert not effects_of(node).random


def test_written_statistics_are_named_from_the_root() -> None:
    writes = effects_of(node_of(nn.BatchNorm1d(4), (x3,))).writes
    assert set(writes) == {"m.running_mean", "m.running_var", "m.num_batches_tracked"}


def test_a_module_that_is_not_there_is_opaque() -> None:
    node = node_of(nn.ReLU(), (x3,))
    node.target = "gone"
    assert effects_of(node).opaque
    assert effects_of(fx.Graph().call_module("m")).opaque


def test_export_s_guards_are_checks() -> None:
    exported = torch.export.export(nn.ReLU(), (torch.ones(2),)).module()
    guards = [node for node in exported.graph.nodes if node.op == "call_module"]
    assert [effects_of(node) for node in guards] == [Effects(checks=True)] * len(guards)
    assert guards


def test_a_packed_sequence_goes_through_a_recurrence() -> None:
    packed = nn.utils.rnn.pack_padded_sequence(x3, torch.tensor([2, 1, 1, 1]))
    module = nn.GRU(6, 3)
    assert module(packed)[0].batch_sizes is packed.batch_sizes
    node = node_of(module, (x3,))
    assert effects_of(node).aliases == (node.args[0],)
