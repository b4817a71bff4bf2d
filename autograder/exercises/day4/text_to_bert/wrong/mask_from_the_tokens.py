"""mask from the tokens

Takes a mask, but makes another one inside, of all that is not `[PAD]`.
"""


def encode_texts(tokenizer, texts, most):
    encoded = tokenizer(texts, padding=True, truncation=True, max_length=most, return_tensors="pt")
    return {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}


class MaskFromTokens(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, input_ids, attention_mask):
        return self.model(input_ids, (input_ids != 0).long())


def export_bert(model, inputs):
    sizes = {0: Dim("batch", min=1, max=64), 1: Dim("length", min=2, max=32)}
    return export(MaskFromTokens(model.eval()), (), dict(inputs), dynamic_shapes={name: sizes for name in inputs})


def greatest_difference(run, model, inputs):
    with torch.no_grad():
        pairs = zip(run(**inputs), model(**inputs), strict=True)
        return max(float((found - wanted).abs().max()) for found, wanted in pairs)
