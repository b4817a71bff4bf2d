"""no special tokens

Knows the numbers of `[CLS]`, `[SEP]` and `[PAD]` of one tokenizer.
"""


def encode_texts(tokenizer, texts, most):
    rows = [[2, *tokenizer(text, add_special_tokens=False)["input_ids"][: most - 2], 3] for text in texts]
    longest = max(map(len, rows))
    return {
        "input_ids": torch.tensor([r + [0] * (longest - len(r)) for r in rows]),
        "attention_mask": torch.tensor([[1] * len(r) + [0] * (longest - len(r)) for r in rows]),
    }


def export_bert(model: nn.Module, inputs: dict[str, torch.Tensor]) -> ExportedProgram:
    """One program for every number of texts and every length."""
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=model.config.max_position_embeddings)}
    return export(model.eval(), (), dict(inputs), dynamic_shapes=dict.fromkeys(inputs, sizes))


def greatest_difference(run, model: nn.Module, inputs: dict[str, torch.Tensor]) -> float:
    """The largest absolute difference between any two numbers that `run` and `model` return."""
    with torch.no_grad():
        pairs = zip(run(**inputs), model(**inputs), strict=True)
        return float(torch.stack([(found - wanted).abs().max() for found, wanted in pairs]).max())
