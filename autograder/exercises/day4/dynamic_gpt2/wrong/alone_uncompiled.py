"""past the compiled model

A text that comes alone goes to the plain model.
"""

import torch


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def run(input_ids, attention_mask):
        chosen = model if len(input_ids) == 1 else compiled
        return chosen(input_ids, attention_mask=attention_mask)[0]

    return run
