"""A BERT encoder from HuggingFace, built from its configuration: nothing is downloaded."""

from __future__ import annotations

import torch
from torch import nn

DESCRIPTION = "A BERT encoder (HuggingFace, from its configuration, random weights): 2 layers, 64 wide, 4 heads."

VOCABULARY = 1000
"""Tokens that the embedding knows; BERT-base has 30522."""


class Encoder(nn.Module):
    """`BertModel` whose output is a plain tuple.

    Takes `input_ids` and `attention_mask`, each `[batch, length]`, `int64`; gives the last hidden state
    `[batch, length, 64]` and the pooled one `[batch, 64]`, both `float32`.
    """

    def __init__(self, bert: nn.Module) -> None:
        super().__init__()
        self.bert = bert

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Last hidden state and pooled output."""
        hidden, pooled = self.bert(input_ids=input_ids, attention_mask=attention_mask, return_dict=False)
        return hidden, pooled


def build() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    """The encoder, and two texts of 16 tokens of which the second is padded from its twelfth on.

    Raises:
        ModuleNotFoundError: transformers is not installed.
    """
    try:
        from transformers import BertConfig, BertModel
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'the model "bert" needs transformers ({error}). Install it with: pip install "fxopt[hf]"', name=error.name
        ) from error

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        max_position_embeddings=64,
    )
    mask = torch.ones(2, 16, dtype=torch.int64)
    mask[1, 11:] = 0
    inputs = {"input_ids": torch.randint(0, VOCABULARY, (2, 16)), "attention_mask": mask}
    return Encoder(BertModel(config)), inputs
