"""lost the mask

Hands the tokens over and nothing else.
"""

import torch


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend, dynamic=True)
    return lambda input_ids, attention_mask: compiled(input_ids)[0]
