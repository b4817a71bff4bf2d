"""`tokenizer.pad`, dynamic dimensions by position, and one concatenated vector."""


def encode_texts(tokenizer, texts, most):
    one_by_one = [tokenizer(text, truncation=True, max_length=most) for text in texts]
    return {
        name: value
        for name, value in tokenizer.pad(one_by_one, return_tensors="pt").items()
        if name in ("input_ids", "attention_mask")
    }


def export_bert(model, inputs):
    rows, columns = Dim("rows", max=100), Dim("columns", max=model.config.max_position_embeddings)
    model.requires_grad_(False).eval()
    return export(
        model, (), kwargs=inputs, dynamic_shapes=dict.fromkeys(("input_ids", "attention_mask"), (rows, columns))
    )


def greatest_difference(run, model, inputs):
    found, wanted = (torch.cat([output.flatten() for output in what(**inputs)]) for what in (run, model))
    return torch.linalg.vector_norm(found - wanted, ord=torch.inf).item()
