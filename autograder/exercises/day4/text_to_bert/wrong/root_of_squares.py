"""wrong comparison

Takes the root of the sum of all squares for the greatest difference.
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
    pairs = zip(run(**inputs), model(**inputs), strict=True)
    return torch.stack([torch.linalg.vector_norm(found - wanted) for found, wanted in pairs]).max().item()
