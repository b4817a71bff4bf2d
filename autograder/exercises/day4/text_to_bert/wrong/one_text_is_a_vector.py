"""no tensors

Takes the dimension of the texts away where there is one text.
"""


def encode_texts(tokenizer, texts, most):
    encoded = tokenizer(texts, padding=True, truncation=True, max_length=most, return_tensors="pt")
    return {"input_ids": encoded["input_ids"].squeeze(0), "attention_mask": encoded["attention_mask"].squeeze(0)}


def export_bert(model: nn.Module, inputs: dict[str, torch.Tensor]) -> ExportedProgram:
    """One program for every number of texts and every length."""
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=model.config.max_position_embeddings)}
    return export(model.eval(), (), dict(inputs), dynamic_shapes=dict.fromkeys(inputs, sizes))


def greatest_difference(run, model: nn.Module, inputs: dict[str, torch.Tensor]) -> float:
    """The largest absolute difference between any two numbers that `run` and `model` return."""
    with torch.no_grad():
        pairs = zip(run(**inputs), model(**inputs), strict=True)
        return float(torch.stack([(found - wanted).abs().max() for found, wanted in pairs]).max())
