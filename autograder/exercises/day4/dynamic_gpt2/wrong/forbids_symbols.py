"""every size anew

Turns the switch the wrong way round.
"""

import torch


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend, dynamic=False)
    return lambda input_ids, attention_mask: compiled(input_ids, attention_mask=attention_mask)[0]
