"""waited for the change

What hint 3 says, with the gap left empty.
"""

import torch


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend, dynamic=None)
    return lambda input_ids, attention_mask: compiled(input_ids, attention_mask=attention_mask)[0]
