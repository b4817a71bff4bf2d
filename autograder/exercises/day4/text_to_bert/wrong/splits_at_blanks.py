"""split at blanks

Looks up what lies between blanks, and calls all else unknown.
"""


def encode_texts(tokenizer, texts, most):
    words = tokenizer.get_vocab()
    looked_up = [[words.get(word, words["[UNK]"]) for word in text.split()] for text in texts]
    rows = [[words["[CLS]"], *numbers[: most - 2], words["[SEP]"]] for numbers in looked_up]
    longest = max(map(len, rows))
    return {
        "input_ids": torch.tensor([r + [words["[PAD]"]] * (longest - len(r)) for r in rows]),
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
