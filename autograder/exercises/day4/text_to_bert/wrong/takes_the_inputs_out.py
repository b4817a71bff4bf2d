"""changed the inputs

Takes the example out of the dictionary of whoever calls.
"""


def encode_texts(tokenizer, texts: list[str], most: int) -> dict[str, torch.Tensor]:
    """`input_ids` and `attention_mask`, `int64` of shape (texts, tokens), with at most `most` tokens a text."""
    encoded = tokenizer(texts, padding=True, truncation=True, max_length=most, return_tensors="pt")
    return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}


def export_bert(model: nn.Module, inputs: dict[str, torch.Tensor]) -> ExportedProgram:
    """One program for every number of texts and every length."""
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=model.config.max_position_embeddings)}
    return export(
        model.eval(),
        (),
        {k: inputs.pop(k) for k in ("input_ids", "attention_mask")},
        dynamic_shapes=dict.fromkeys(("input_ids", "attention_mask"), sizes),
    )


def greatest_difference(run, model: nn.Module, inputs: dict[str, torch.Tensor]) -> float:
    """The largest absolute difference between any two numbers that `run` and `model` return."""
    with torch.no_grad():
        pairs = zip(run(**inputs), model(**inputs), strict=True)
        return float(torch.stack([(found - wanted).abs().max() for found, wanted in pairs]).max())
