"""results changed

Returns the last thing that the model returns, not the first.
"""

import torch


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend, dynamic=True)
    return lambda input_ids, attention_mask: compiled(input_ids, attention_mask=attention_mask)[-1]
