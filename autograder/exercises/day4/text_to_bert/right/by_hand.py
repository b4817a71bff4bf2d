"""Rows filled by hand, automatic dimensions, a wrapper with positional inputs."""


def encode_texts(tokenizer, texts, most):
    rows = [tokenizer(text, truncation=True, max_length=most)["input_ids"] for text in texts]
    longest = max(len(row) for row in rows)
    tokens = torch.full((len(rows), longest), tokenizer.pad_token_id)
    mask = torch.zeros_like(tokens)
    for row, numbers in enumerate(rows):
        tokens[row, : len(numbers)] = torch.tensor(numbers)
        mask[row, : len(numbers)] = 1
    return {"input_ids": tokens, "attention_mask": mask}


class Positional(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        states, pooled = self.model(input_ids, attention_mask)
        return states, pooled


def export_bert(model, inputs):
    model.train(False)
    both = ({0: Dim.AUTO, 1: Dim.AUTO},) * 2
    return export(Positional(model), (inputs["input_ids"], inputs["attention_mask"]), dynamic_shapes=both)


def greatest_difference(run, model, inputs):
    worst = [
        torch.dist(found, wanted, p=float("inf")).item()
        for found, wanted in zip(run(**inputs), model(**inputs), strict=True)
    ]
    return math.nan if any(math.isnan(value) for value in worst) else max(worst)
