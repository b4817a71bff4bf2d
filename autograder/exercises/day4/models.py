"""Small transformers from their configurations, and their flat graphs: what the probes of this day share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx, nn

WORDS, POSITIONS = 60, 32
"""Entries of the tables of words and of positions."""


def build_transformer(
    kind: str,
    *,
    width: int = 16,
    heads: int = 2,
    layers: int = 2,
    inner: int = 32,
    seed: int = 0,
    fused: bool = False,
    inners: Sequence[int] = (),
    positions: int = POSITIONS,
    around: bool = False,
    shared: bool = False,
) -> nn.Module:
    """BERT or GPT-2 with random weights, in evaluation mode. It returns a plain tuple.

    Args:
        kind: `bert` or `gpt2`.
        width: of the hidden states.
        heads: of each attention.
        layers: how many.
        inner: width of the layer between the two linear ones of the feed-forward part.
        seed: of the weights.
        inners: the same of each layer, where layers differ.
        positions: how many tokens a text may have.
        around: GPT-2 with one more linear layer before its layers, and one behind them.
        shared: in each layer two linear layers have the same parameters (those for query and key in BERT, and the
            two of the feed-forward part in GPT-2, which have to be of one shape), and all layers share those for the
            values (BERT) or for query, key and values (GPT-2).
        fused: attention by `scaled_dot_product_attention`, not written out.

    Raises:
        KeyError: another `kind`.
    """
    # Late: importing transformers takes seconds, and the command line reads this package.
    import transformers

    common: dict[str, Any] = {"vocab_size": WORDS, "attn_implementation": "sdpa" if fused else "eager"}
    settings: dict[str, tuple[Any, dict[str, Any]]] = {
        "bert": (
            transformers.BertModel,
            {
                "hidden_size": width,
                "num_attention_heads": heads,
                "num_hidden_layers": layers,
                "intermediate_size": inner,
                "max_position_embeddings": positions,
                "pad_token_id": 0,
            },
        ),
        "gpt2": (
            transformers.GPT2Model,
            {
                "n_embd": width,
                "n_head": heads,
                "n_layer": layers,
                "n_inner": inner,
                "n_positions": positions,
                "use_cache": False,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
        ),
    }
    model_class, special = settings[kind]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        config = model_class.config_class(**common, **special, return_dict=False)
        model: nn.Module = model_class(config).eval()
        for number, size in enumerate(inners):
            _with_inner(model, kind, number, width, size)
        if shared:
            _share(model, kind)
        if around:
            model.drop, model.ln_f = nn.Linear(width, width), nn.Linear(width, width)
        for parameter in model.parameters():  # as after training: biases are not zero, scores are not all alike
            parameter.data += 0.1 * torch.randn_like(parameter)
    return model


def _with_inner(model: Any, kind: str, number: int, width: int, inner: int) -> None:
    """Give one layer a feed-forward part of another width."""
    if kind == "bert":
        layer = model.encoder.layer[number]
        layer.intermediate.dense, layer.output.dense = nn.Linear(width, inner), nn.Linear(inner, width)
    else:
        from transformers.pytorch_utils import Conv1D

        model.h[number].mlp.c_fc, model.h[number].mlp.c_proj = Conv1D(inner, width), Conv1D(width, inner)


def _share(model: Any, kind: str) -> None:
    """Let linear layers have the parameters of others."""
    if kind == "bert":
        parts = [layer.attention.self for layer in model.encoder.layer]
        pairs = [(part.key, part.query) for part in parts] + [(part.value, parts[0].value) for part in parts[1:]]
    else:
        pairs = [(block.mlp.c_proj, block.mlp.c_fc) for block in model.h]
        pairs += [(block.attn.c_attn, model.h[0].attn.c_attn) for block in model.h[1:]]
    for linear, other in pairs:
        linear.weight, linear.bias = other.weight, other.bias


def draw_text(batch: int, length: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random tokens and a mask, both of shape (batch, length) and `int64`; all rows but the first are padded."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, WORDS, (batch, length), generator=generator)
    mask = torch.ones(batch, length, dtype=torch.int64)
    for row in range(1, batch):
        mask[row, int(torch.randint(1, length, (1,), generator=generator)) :] = 0
    return tokens * mask, mask


def flat_graph(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> fx.GraphModule:
    """The graph of a model as `torch.export` captures it: ATen operators, inputs and outputs flat.

    What the exporter asserts about tensors on the way is left out. Nodes keep their `meta`.

    Args:
        model: in evaluation mode.
        inputs: its arguments, in order; those of a transformer are `input_ids` and `attention_mask`.
    """
    with torch.no_grad():
        if hasattr(model, "config"):
            names = ("input_ids", "attention_mask")
            program = torch.export.export(model, (), dict(zip(names, inputs, strict=True)))
        else:
            program = torch.export.export(model, inputs)
    module = program.module(check_guards=False)
    graph = module.graph
    for node in reversed(graph.nodes):
        if node.target is torch.ops.aten._assert_tensor_metadata.default:
            graph.erase_node(node)
    graph.set_codegen(fx.graph.CodeGen())
    graph.lint()
    return fx.GraphModule(module, graph)
