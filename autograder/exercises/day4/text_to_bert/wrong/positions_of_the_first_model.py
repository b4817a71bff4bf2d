"""range too narrow

Writes down how long the texts of the first model may be.
"""


def encode_texts(tokenizer, texts, most):
    encoded = tokenizer(texts, padding=True, truncation=True, max_length=most, return_tensors="pt")
    return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}


def export_bert(model, inputs):
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=32)}
    return export(model.eval(), (), dict(inputs), dynamic_shapes={name: sizes for name in inputs})


def greatest_difference(run, model, inputs):
    with torch.no_grad():
        pairs = zip(run(**inputs), model(**inputs), strict=True)
        return float(torch.stack([(found - wanted).abs().max() for found, wanted in pairs]).max())
