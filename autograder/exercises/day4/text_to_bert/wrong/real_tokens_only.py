"""wrong comparison

Compares no number that stands at filling.
"""


def encode_texts(tokenizer, texts, most):
    rows = [list(tokenizer(text, truncation=True, max_length=most)["input_ids"]) for text in texts]
    longest = max(map(len, rows))
    ids = torch.full((len(rows), longest), tokenizer.pad_token_id)
    mask = torch.zeros(len(rows), longest, dtype=torch.int64)
    for number, row in enumerate(rows):
        ids[number, : len(row)] = torch.tensor(row)
        mask[number, : len(row)] = 1
    return {"input_ids": ids, "attention_mask": mask}


def export_bert(model, inputs):
    texts, tokens = Dim("texts", min=1, max=64), Dim("tokens", min=2, max=model.config.max_position_embeddings)
    example = {name: torch.ones(3, 5, dtype=torch.int64) for name in ("input_ids", "attention_mask")}
    sizes = {name: {0: texts, 1: tokens} for name in example}
    return export(model.eval(), (), example, dynamic_shapes=sizes)


def greatest_difference(run, model, inputs):
    kept = inputs["attention_mask"].bool()
    found, wanted = (
        torch.cat([(part[kept] if part.dim() == 3 else part).flatten().double() for part in function(**inputs)])
        for function in (run, model)
    )
    return torch.linalg.vector_norm(found - wanted, ord=math.inf).item()
