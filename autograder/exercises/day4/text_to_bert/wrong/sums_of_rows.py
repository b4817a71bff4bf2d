"""wrong comparison

Compares sums over the last dimension.
"""

import torch
from torch.export import Dim, export


def encode_texts(tokenizer, texts, most):
    found = tokenizer(texts, padding=True, truncation=True, max_length=most, return_tensors="pt")
    return {"input_ids": found["input_ids"], "attention_mask": found["attention_mask"]}


def export_bert(model, inputs):
    inputs = {name: value.repeat(2, 1) if value.shape[0] == 1 else value for name, value in inputs.items()}
    texts, tokens = Dim("texts", min=1, max=64), Dim("tokens", min=2, max=model.config.max_position_embeddings)
    sizes = {0: texts, 1: tokens}
    return export(model.eval(), (), inputs, dynamic_shapes={"input_ids": sizes, "attention_mask": sizes})


def greatest_difference(run, model, inputs):
    worst = 0.0
    for found, wanted in zip(run(**inputs), model(**inputs), strict=True):
        difference = (found.sum(-1) - wanted.sum(-1)).abs().max().item()
        if difference != difference:
            return difference
        worst = max(worst, difference)
    return worst
