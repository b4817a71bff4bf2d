"""Mixtures of experts: each token pays for the experts that it is sent to, counted by hand from the configuration."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from fxopt_core.capture import CaptureError, capture
from fxopt_core.costs import Analysis, analyze_graph
from fxopt_workbench.structure.model_costs import analyze

transformers = pytest.importorskip("transformers")

TOKENS = 256


def analysed(build: Any, config: Any, dtype: torch.dtype = torch.float32, experts: str | None = None) -> Analysis:
    config.use_cache = False
    if experts:
        config._experts_implementation = experts
    with torch.device("meta"):
        model = build(config).eval().to(dtype)
        return analyze(model, {"input_ids": torch.zeros(1, TOKENS, dtype=torch.int64)})


def product(*sizes: int) -> int:
    """FLOPs of a product of matrices for every token, by the sizes of the matrix that each token meets."""
    inner, outer = sizes
    return 2 * TOKENS * inner * outer


def gated(hidden: int, inner: int) -> int:
    """FLOPs of one feed-forward network with a gate: gate, up and down."""
    return 3 * product(hidden, inner)


def attention(heads: int, key: int, value: int) -> int:
    """FLOPs of queries by keys and of weights by values, masked positions included."""
    return 2 * TOKENS * TOKENS * heads * (key + value)


def grouped_attention(config: Any) -> int:
    """FLOPs of attention whose keys and values are shared by several queries, with its projections."""
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    queries, keys = config.num_attention_heads * width, config.num_key_value_heads * width
    projections = 2 * product(config.hidden_size, queries) + 2 * product(config.hidden_size, keys)
    return projections + attention(config.num_attention_heads, width, width)


def mixtral(layers: int = 2) -> Any:
    return transformers.MixtralConfig(num_hidden_layers=layers)


def mixtral_by_hand(config: Any, layers: int) -> int:
    one = grouped_attention(config) + product(config.hidden_size, config.num_local_experts)
    one += config.num_experts_per_tok * gated(config.hidden_size, config.intermediate_size)
    return layers * one + product(config.hidden_size, config.vocab_size)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_mixtral(dtype: torch.dtype) -> None:
    config = mixtral()
    analysis = analysed(transformers.MixtralForCausalLM, config, dtype)
    assert analysis.total.uncounted == ()
    assert analysis.total.flops == mixtral_by_hand(config, 2)


def test_mixtral_with_weights_picked_for_each_token() -> None:
    config = mixtral(1)
    analysis = analysed(transformers.MixtralForCausalLM, config, experts="batched_mm")
    assert (analysis.total.flops, analysis.total.uncounted) == (mixtral_by_hand(config, 1), ())


def test_all_of_mixtral_8x7b() -> None:
    """Jiang et al. 2024, Mixtral of Experts: 47B parameters, of which each token uses 13B."""
    config = transformers.MixtralConfig()
    config.use_cache = False
    with torch.device("meta"):
        model = transformers.MixtralForCausalLM(config).eval()
        ids = torch.zeros(1, 1024, dtype=torch.int64)
    analysis = analyze(model, {"input_ids": ids})
    assert analysis.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert round(analysis.parameters / 1e9) == 47
    used = analysis.total.flops / (2 * 1024)
    # Two FLOPs a parameter and token; attention comes on top, embeddings are looked up.
    assert 12.5e9 < used < 13.5e9
    assert analysis.total.flops == pytest.approx(26.7e12, rel=0.002)


def test_qwen2_moe_has_an_expert_that_all_tokens_share() -> None:
    config = transformers.Qwen2MoeConfig(num_hidden_layers=2)
    hidden = config.hidden_size
    one = grouped_attention(config) + product(hidden, config.num_experts)
    one += config.num_experts_per_tok * gated(hidden, config.moe_intermediate_size)
    one += gated(hidden, config.shared_expert_intermediate_size) + product(hidden, 1)
    analysis = analysed(transformers.Qwen2MoeForCausalLM, config)
    assert (analysis.total.flops, analysis.total.uncounted) == (2 * one + product(hidden, config.vocab_size), ())


def test_qwen3_moe() -> None:
    config = transformers.Qwen3MoeConfig(num_hidden_layers=2)
    one = grouped_attention(config) + product(config.hidden_size, config.num_experts)
    one += config.num_experts_per_tok * gated(config.hidden_size, config.moe_intermediate_size)
    analysis = analysed(transformers.Qwen3MoeForCausalLM, config)
    assert analysis.total.uncounted == ()
    assert analysis.total.flops == 2 * one + product(config.hidden_size, config.vocab_size)


def test_deepseek_v3_has_dense_layers_shared_experts_and_latent_attention() -> None:
    config = transformers.DeepseekV3Config(num_hidden_layers=3, first_k_dense_replace=1)
    hidden, heads = config.hidden_size, config.num_attention_heads
    key, value = config.qk_nope_head_dim + config.qk_rope_head_dim, config.v_head_dim
    mixing = product(hidden, config.q_lora_rank) + product(config.q_lora_rank, heads * key)
    mixing += product(hidden, config.kv_lora_rank + config.qk_rope_head_dim)
    mixing += product(config.kv_lora_rank, heads * (config.qk_nope_head_dim + value))
    mixing += attention(heads, key, value) + product(heads * value, hidden)
    experts = product(hidden, config.n_routed_experts)
    experts += (config.num_experts_per_tok + config.n_shared_experts) * gated(hidden, config.moe_intermediate_size)
    expected = 3 * mixing + gated(hidden, config.intermediate_size) + 2 * experts + product(hidden, config.vocab_size)
    analysis = analysed(transformers.DeepseekV3ForCausalLM, config)
    assert (analysis.total.flops, analysis.total.uncounted) == (expected, ())


def test_one_token_reads_the_weights_of_its_own_experts_alone() -> None:
    config = mixtral(1)
    config.use_cache = False
    with torch.device("meta"):
        model = transformers.MixtralForCausalLM(config).eval()
        one = analyze(model, {"input_ids": torch.zeros(1, 1, dtype=torch.int64)})
    (up, down) = [node for node in one.nodes if "grouped_mm" in node.operation]
    expert = 4 * config.hidden_size * config.intermediate_size
    assert up.cost.bytes_read - down.cost.bytes_read == pytest.approx(2 * expert, rel=0.01)
    assert 2 * expert < down.cost.bytes_read < 2.01 * expert


class Routed(nn.Module):
    """Four experts, of which each token goes to two."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(16, 4)
        self.experts = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))

    def routes(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weights, chosen = self.router(x).softmax(-1).topk(2, -1)
        return weights, chosen


class EachOnItsTokens(Routed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.routes(x)
        result = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            token, place = torch.where(chosen == number)
            result.index_add_(0, token, expert(x[token]) * weights[token, place, None])
        return result


class EachOnAllTokens(Routed):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.routes(x)
        parts = [
            expert(x) * (weights * (chosen == number)).sum(-1, keepdim=True)
            for number, expert in enumerate(self.experts)
        ]
        return torch.stack(parts).sum(0)


X = torch.randn(8, 16, generator=torch.Generator().manual_seed(0))


def test_experts_that_all_see_every_token_are_counted_as_they_run() -> None:
    assert analyze(EachOnAllTokens().eval(), (X,)).total.flops == 2 * 8 * 16 * 4 + 4 * 2 * 8 * 16 * 16


def test_a_loop_over_experts_is_counted_on_real_values() -> None:
    """How many tokens go to each expert depends on data; all together they are two for each token."""
    model = EachOnItsTokens().eval()
    with pytest.raises(ValueError, match=r"'where' .* depends on data; .*inputs=partition.example_inputs"):
        analyze(model, (X,))
    (partition,) = capture(model, (X,), "export").partitions
    assert partition.example_inputs is not None
    before = [value.clone() for value in partition.example_inputs]
    analysis = analyze_graph(partition.graph_module, inputs=partition.example_inputs)
    assert (analysis.total.flops, analysis.total.uncounted) == (2 * 8 * 16 * 4 + 2 * 2 * 8 * 16 * 16, ())
    assert all(map(torch.equal, partition.example_inputs, before))


def test_real_values_and_fake_ones_cost_the_same() -> None:
    (partition,) = capture(EachOnAllTokens().eval(), (X,), "export").partitions
    graph, values = partition.graph_module, partition.example_inputs
    assert analyze_graph(graph, inputs=values) == analyze_graph(graph)


def test_a_loop_that_export_cannot_follow_is_an_error_and_no_figure() -> None:
    with pytest.raises(CaptureError, match="GuardOnDataDependentSymNode"):
        analysed(transformers.MixtralForCausalLM, mixtral(1), experts="eager")
