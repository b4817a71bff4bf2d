"""raised

Calls its arguments something else.
"""

import torch


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def states(tokens, mask):
        return compiled(tokens, attention_mask=mask)[0]

    return states
