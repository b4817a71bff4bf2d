"""What is encoded comes back: the identical document, and bitwise equal outputs on inputs that nobody captured."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from round_trips import assert_same_value, check, dynamo_graph, round_trip, through_bytes
from torch import fx, nn
from torch.fx.experimental.proxy_tensor import make_fx

from autograder.exchange.graph_form import ENCODED_VALUE, GraphFormatError, decode, encode, run, run_flat


class Classifier(nn.Module):
    """Convolution, normalisation with buffers, pooling, a tied weight, a constant, outputs in a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, 4, 3)
        self.normalisation = nn.BatchNorm2d(4)
        self.linear = nn.Linear(4, 4)
        self.tied = self.linear.weight
        self.register_buffer("scale", torch.rand(4), persistent=False)
        self.offset = torch.rand(4)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        y = F.max_pool2d(self.normalisation(self.convolution(x)).relu(), 2).mean((2, 3))
        return {
            "logits": self.linear(y) * self.scale,
            "tied": (y @ self.tied + self.offset, x.shape[0] + 1),
            "list": [y.T, y[..., None]],
        }


def function_of(method: Any) -> nn.Module:
    """A module with `method` as its forward, for `torch.export`."""

    class Wrapper(nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return method(x)

    return Wrapper()


def branches(x: torch.Tensor) -> torch.Tensor:
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() * 2, (x,))


def doubles(x: torch.Tensor) -> Any:
    return torch.while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))


def in_place(x: torch.Tensor) -> Any:
    y = x.clone()
    y += 1
    y[0] = 3.0
    y.mul_(2)
    y[1:, ..., :2].neg_()
    x.add_(1)
    return y, y.T, x.shape


def mixed_precision(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        return x @ x.T


def mapped(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(lambda row: row.sin().sum())(x)


def test_symbolic_trace_with_modules_methods_ties_and_a_dictionary():
    torch.manual_seed(0)
    graph_module = fx.symbolic_trace(Classifier())
    graph_module._non_persistent_buffers_set.add("scale")  # torch.fx forgets it
    assert {"call_module", "call_method", "get_attr"} <= {node.op for node in graph_module.graph.nodes}
    rebuilt = check(graph_module, [torch.randn(2, 3, 8, 8)], [torch.randn(5, 3, 9, 9)])
    assert rebuilt.tied is rebuilt.linear.weight
    assert isinstance(rebuilt.tied, nn.Parameter)
    assert rebuilt.convolution.stride == (1, 1)
    assert "scale" in dict(rebuilt.named_buffers())
    assert "scale" not in rebuilt.state_dict()


def test_training_flags_are_kept_and_buffers_are_the_graphs_own():
    model = Classifier()
    model.normalisation.eval()
    rebuilt = round_trip(fx.symbolic_trace(model))
    assert rebuilt.training
    assert rebuilt.convolution.training
    assert not rebuilt.normalisation.training
    encoded = encode(fx.symbolic_trace(model.train()))
    before = {name: storage.clone() for name, storage in encoded.tensors.items()}
    first, second = (run(encoded, [torch.ones(2, 3, 8, 8)]) for _ in range(2))
    assert_same_value(first, second)
    for name, storage in encoded.tensors.items():
        assert_same_value(storage, before[name])


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("kind", ["bert", "gpt2"])
@pytest.mark.parametrize("masked", [False, True])
def test_dynamo_graphs_of_transformers(kind: str, attention: str, masked: bool):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    if kind == "bert":
        model = transformers.BertModel(
            transformers.BertConfig(
                vocab_size=50,
                hidden_size=16,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=32,
                attn_implementation=attention,
            )
        )
    else:
        model = transformers.GPT2Model(
            transformers.GPT2Config(
                vocab_size=50,
                n_embd=16,
                n_layer=1,
                n_head=2,
                n_positions=32,
                bos_token_id=0,
                eos_token_id=0,
                use_cache=False,
                attn_implementation=attention,
            )
        )
    tokens = torch.randint(0, 50, (2, 8))
    mask = torch.ones_like(tokens)
    mask[0, 5:] = 0
    keywords = {"attention_mask": mask} if masked else {}
    with torch.no_grad():
        graph_module, inputs = dynamo_graph(model.eval(), input_ids=tokens, **keywords)
        fresh = [torch.randint(0, 50, (2, 8)) if value is tokens else value for value in inputs]
        assert any(value is tokens for value in inputs)
        check(graph_module, inputs, fresh)


@pytest.mark.parametrize("function", [branches, doubles, in_place, mixed_precision, mapped])
def test_dynamo_graphs_of_control_flow_writes_and_contexts(function: Any):
    graph_module, inputs = dynamo_graph(function, torch.rand(3, 3))
    check(graph_module, *([torch.randn_like(value) for value in inputs] for _ in range(3)))


@pytest.mark.parametrize("function", [branches, mixed_precision])
def test_exported_graphs_of_control_flow_and_contexts(function: Any):
    exported = torch.export.export(function_of(function), (torch.rand(3, 3),))
    check(exported.graph_module, [torch.rand(3, 3)], [-torch.rand(3, 3)])


def test_a_dynamic_dynamo_graph_runs_on_another_batch_size():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Flatten(0), nn.Unflatten(0, (-1, 2)))
    x = torch.randn(5, 3)
    torch._dynamo.mark_dynamic(x, 0)
    graph_module, inputs = dynamo_graph(model, x)
    assert 5 in [value for value in inputs if type(value) is int]
    other = [7 if type(value) is int else torch.randn(7, 3) if value is x else value for value in inputs]
    check(graph_module, inputs, other)


@pytest.mark.parametrize("flat", [True, False])
def test_a_dynamic_export_runs_on_another_batch_size(flat: bool):
    model = Classifier().eval()
    exported = torch.export.export(
        model, (torch.randn(2, 3, 8, 8),), dynamic_shapes={"x": {0: torch.export.Dim("batch")}}
    )
    if flat:
        names = [spec.target for spec in exported.graph_signature.input_specs if spec.target]
        state = {**exported.state_dict, **exported.constants}
        assert len(names) > 8
        check(exported.graph_module, *([state[n] for n in names] + [torch.randn(b, 3, 8, 8)] for b in (2, 6)))
        return
    graph_module = exported.module()
    rebuilt = round_trip(graph_module)
    for batch in (2, 6):
        x = torch.randn(batch, 3, 8, 8)
        assert_same_value(rebuilt(x), model(x))
        assert_same_value(run(encode(graph_module), [x]), model(x))


def test_symbolic_sizes_are_carried_for_drawing():
    exported = torch.export.export(
        function_of(lambda x: x.reshape(-1) * x.shape[0]),
        (torch.randn(4, 3),),
        dynamic_shapes={"x": {0: torch.export.Dim("batch")}},
    )
    values = {node.name: node.meta.get(ENCODED_VALUE) for node in round_trip(exported.graph_module).graph.nodes}
    size = values["x"]["shape"][0]
    assert isinstance(size, str)
    assert values["x"] == {"shape": [size, 3], "dtype": "float32"}
    assert values["reshape"] == {"shape": [f"3*{size}"], "dtype": "float32"}
    assert {"type": "SymInt", "expression": size} in values.values()


@pytest.mark.parametrize("tracing_mode", ["real", "symbolic"])
def test_aten_graphs(tracing_mode: str):
    model = Classifier().eval()
    make = make_fx(lambda x: model(x)["tied"][0], tracing_mode=tracing_mode, _allow_non_fake_inputs=True)
    graph_module = make(torch.randn(2, 3, 8, 8))
    assert any(isinstance(node.target, torch._ops.OpOverload) for node in graph_module.graph.nodes)
    batches = (2,) if tracing_mode == "real" else (2, 5)
    check(graph_module, *([torch.randn(batch, 3, 8, 8)] for batch in batches))


def test_forward_and_backward_graphs_of_aot_autograd():
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    ran: list[tuple[fx.GraphModule, list[Any]]] = []

    def compiler(graph_module: fx.GraphModule, _: list[Any]) -> Any:
        def call(*args: Any) -> Any:
            ran.append((graph_module, [a.detach().clone() if isinstance(a, torch.Tensor) else a for a in args]))
            return graph_module(*args)

        return make_boxed_func(call)

    torch._dynamo.reset()
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten())
    compiled = torch.compile(model, backend=aot_autograd(fw_compiler=compiler, bw_compiler=compiler))
    compiled(torch.randn(2, 3, 8, 8)).sum().backward()
    assert len(ran) == 2
    with torch.no_grad():
        for graph_module, inputs in ran:
            check(graph_module, inputs)


def test_memory_that_is_shared_stays_shared():
    whole = torch.arange(12.0)
    buffers = {
        "whole": whole,
        "every_other": whole[1:9:2],
        "bits": whole.view(torch.int32)[4:],
        "transposed": torch.rand(2, 3).T,
        "empty": torch.empty(0, 3),
        "number": torch.tensor(True),
        "complex": torch.rand(3, dtype=torch.complex128),
    }
    graph = fx.Graph()
    x = graph.placeholder("x")
    nodes = {name: graph.get_attr(name) for name in buffers}
    graph.call_method("add_", (nodes["whole"], x))
    graph.output(nodes)
    graph_module = fx.GraphModule(buffers, graph)
    assert len(encode(graph_module).tensors) == 5
    check(graph_module, [torch.tensor(1.5)])
    rebuilt = round_trip(graph_module)
    assert rebuilt.every_other.untyped_storage().data_ptr() == rebuilt.whole.untyped_storage().data_ptr()
    written = run(rebuilt, [torch.tensor(1.5)])
    assert written["every_other"].tolist() == [4.0, 6.0, 8.0, 10.0]  # twice 1.5 more than [1, 3, 5, 7]
    assert written["transposed"].stride() == (1, 3)


def test_a_large_storage_of_which_little_is_used_travels_in_part():
    class Slice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("row", torch.arange(10_000.0)[500:503])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.row

    graph_module = fx.symbolic_trace(Slice())
    (storage,) = encode(graph_module).tensors.values()
    assert storage.numel() == 3
    check(graph_module, [torch.rand(3)])


MODULES = [
    (nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True), (2, 5, 3)),
    (nn.GRU(3, 4, bias=False), (2, 5, 3)),
    (nn.RNN(3, 4, nonlinearity="relu"), (2, 5, 3)),
    (nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1), (1, 3, 5, 5)),
    (nn.Conv2d(3, 3, 3, padding="same", padding_mode="reflect", bias=False, groups=3), (1, 3, 5, 5)),
    (nn.BatchNorm2d(3, affine=False, track_running_stats=False), (2, 3, 4, 4)),
    (nn.BatchNorm2d(3, momentum=None), (2, 3, 4, 4)),
    (nn.GroupNorm(1, 3), (2, 3, 4, 4)),
    (nn.LayerNorm((4, 4), eps=1e-3, bias=False), (2, 3, 4, 4)),
    (nn.PReLU(3, init=0.5), (2, 3)),
    (nn.Upsample(scale_factor=2, mode="bilinear"), (1, 3, 4, 4)),
    (nn.Hardtanh(-0.2, 0.3), (2, 3)),
    (nn.Dropout(0.3), (20, 3)),
    (nn.AdaptiveAvgPool2d((1, None)), (1, 3, 4, 4)),
    (nn.MaxPool2d(2, return_indices=True), (1, 3, 4, 4)),
    (nn.Unflatten(1, torch.Size([3, 1])), (2, 3)),
    (nn.ZeroPad2d((1, 0, 2, 0)), (1, 3, 4, 4)),
    (nn.Softplus(2, 1), (2, 3)),
]


@pytest.mark.parametrize(("module", "shape"), MODULES, ids=lambda value: type(value).__name__)
def test_modules_are_rebuilt_from_arguments_and_state(module: nn.Module, shape: tuple[int, ...]):
    graph = fx.Graph()
    graph.output(graph.call_module("module", (graph.placeholder("x"),)))
    check(fx.GraphModule({"module": module}, graph), [torch.randn(shape)])


def test_modules_are_rebuilt_without_drawing_random_numbers():
    encoded = encode(fx.symbolic_trace(Classifier()))
    torch.manual_seed(3)
    before = torch.get_rng_state()
    decode(encoded)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_module_called_at_two_places_stays_one_module():
    graph = fx.Graph()
    first = graph.call_module("first", (graph.placeholder("x"),))
    graph.output(graph.call_module("deeper.second", (first,)))
    linear = nn.Linear(3, 3)
    rebuilt = check(fx.GraphModule({"first": linear, "deeper.second": linear}, graph), [torch.randn(2, 3)])
    assert rebuilt.deeper.second is rebuilt.first


def test_a_weight_read_from_a_module_that_is_also_called():
    class Reads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(3, 3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x) + self.inner[0].weight

    rebuilt = check(fx.symbolic_trace(Reads()), [torch.randn(3, 3)])
    assert rebuilt.inner.get_submodule("0").weight.requires_grad


class WithHook(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.linear.register_forward_hook(lambda module, args, output: output + 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def python_function(x: torch.Tensor) -> torch.Tensor:
    return x


def graph_with(op: str, target: Any, args: Any = None) -> fx.GraphModule:
    graph = fx.Graph()
    x = graph.placeholder("x")
    node = graph.create_node(op, target, (x,) if args is None else args, name="culprit")
    graph.output(node)
    return fx.GraphModule(nn.Module(), graph)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: fx.symbolic_trace(WithHook()), "'linear': the module has hooks"),
        (lambda: graph_with("call_function", python_function), "'culprit': calls .*python_function"),
        (lambda: graph_with("call_function", torch.save), "'culprit': calls torch.serialization.save"),
        (lambda: graph_with("call_method", "numpy"), "'culprit': the method 'numpy'"),
        (lambda: graph_with("call_function", torch.relu, (torch.ones(2),)), "'culprit': an argument of type torch"),
        (lambda: graph_with("call_function", torch.relu, ({(1,): 2},)), r"'culprit': \(1,\) cannot be a key"),
        (lambda: nn.Linear(2, 2), "expected a torch.fx.GraphModule, got a Linear"),
    ],
)
def test_what_has_no_encoded_form_is_refused_by_name(make: Any, named: str):
    with pytest.raises(GraphFormatError, match=named):
        encode(make())


def test_run_takes_a_decoded_graph_and_leaves_nothing_behind():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(torch._C._set_grad_enabled, (False,))
    graph.call_function(torch.amp.autocast_mode._enter_autocast, ("cpu", torch.bfloat16, True, None))
    graph.call_function(torch._C._functorch._vmap_increment_nesting, (3, "same"))
    graph.output(graph.call_function(torch.matmul, (x, graph.call_function(torch.rand, (3, 3)))))
    encoded = through_bytes(encode(fx.GraphModule(nn.Module(), graph)))
    torch.manual_seed(0)
    before = torch.get_rng_state()
    assert run(decode(encoded), [torch.rand(3, 3)]).dtype == torch.bfloat16
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")
    assert torch._C._functorch.maybe_current_level() is None
    torch.manual_seed(0)
    assert torch.equal(torch.get_rng_state(), before)
    run(encoded, [torch.rand(3, 3)])


def test_a_graph_with_keywords_runs_by_the_names_of_its_inputs():
    class Named(nn.Module):
        def forward(self, first: torch.Tensor, others: list[torch.Tensor]) -> dict[str, torch.Tensor]:
            return {"difference": first - others[0], "product": first * others[1]}

    x, y, z = torch.rand(3, 2), torch.rand(3, 2), torch.rand(3, 2)
    dynamic = {"others": [{0: torch.export.Dim.AUTO}] * 2, "first": {0: torch.export.Dim.AUTO}}
    program = torch.export.export(Named(), (), {"others": [y, z], "first": x}, dynamic_shapes=dynamic)
    graph = decode(encode(program.module()))
    inputs = {"others_1": z[:1], "first": x[:1], "others_0": y[:1], "unknown": x}
    difference, product = run_flat(graph, inputs)
    assert torch.equal(difference, (x - y)[:1])
    assert torch.equal(product, (x * z)[:1])
    with pytest.raises(KeyError, match="others_0"):
        run_flat(graph, {"first": x, "others_1": z})


def test_seeds_tell_whether_a_graph_draws():
    graph = decode(encode(torch.export.export(nn.Dropout(), (torch.ones(20),)).module()))
    inputs = {"input": torch.ones(20)}
    before = torch.get_rng_state()
    first, again, other = (run_flat(graph, inputs, seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(before, torch.get_rng_state())
