"""failed on a hidden case

Compares the first two outputs, and takes for granted that there are two.
"""


def encode_texts(tokenizer, texts: list[str], most: int) -> dict[str, torch.Tensor]:
    """`input_ids` and `attention_mask`, `int64` of shape (texts, tokens), with at most `most` tokens a text."""
    encoded = tokenizer(texts, padding=True, truncation=True, max_length=most, return_tensors="pt")
    return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}


def export_bert(model: nn.Module, inputs: dict[str, torch.Tensor]) -> ExportedProgram:
    """One program for every number of texts and every length."""
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=model.config.max_position_embeddings)}
    return export(model.eval(), (), dict(inputs), dynamic_shapes=dict.fromkeys(inputs, sizes))


def greatest_difference(run, model: nn.Module, inputs: dict[str, torch.Tensor]) -> float:
    """The largest absolute difference between any two numbers that `run` and `model` return."""
    with torch.no_grad():
        one, other = run(**inputs), model(**inputs)
        pairs = [(one[0], other[0]), (one[1], other[1])]
        return float(torch.stack([(found - wanted).abs().max() for found, wanted in pairs]).max())
