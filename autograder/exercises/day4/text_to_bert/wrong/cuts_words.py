"""too long for the model

Cuts words, and a word may be several tokens.
"""


def encode_texts(tokenizer, texts, most):
    cut = [" ".join(text.split()[: most - 2]) for text in texts]  # two for [CLS] and [SEP]
    encoded = tokenizer(cut, padding=True, return_tensors="pt")
    return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}


def export_bert(model, inputs):
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=model.config.max_position_embeddings)}
    return export(model.eval(), (), dict(inputs), dynamic_shapes={name: sizes for name in inputs})


def greatest_difference(run, model, inputs):
    with torch.no_grad():
        pairs = zip(run(**inputs), model(**inputs), strict=True)
        return float(torch.stack([(found - wanted).abs().max() for found, wanted in pairs]).max())
