"""overlooked NaN

It looks for NaN in what the program returns, and not in what the model returns.
"""


def encode_texts(tokenizer, texts, most):
    found = tokenizer(list(texts), padding=True, truncation=True, max_length=most, return_tensors="pt")
    return {"input_ids": found["input_ids"], "attention_mask": found["attention_mask"]}


def export_bert(model, inputs):
    if len(inputs["input_ids"]) < 2:
        inputs = {name: torch.cat([value, value]) for name, value in inputs.items()}
    texts = Dim("texts", min=1, max=64)
    length = Dim("length", min=2, max=model.config.max_position_embeddings)
    sizes = {0: texts, 1: length}
    return export(model.eval(), (), dict(inputs), dynamic_shapes=dict.fromkeys(inputs, sizes))


def greatest_difference(run, model, inputs):
    greatest = 0.0
    for found, wanted in zip(run(**inputs), model(**inputs)):
        difference = (found - wanted).abs().max().item()
        if found.isnan().any():
            return math.inf
        greatest = max(greatest, difference)
    return greatest
