"""past the compiled model

Compiles for the first size and runs the others without compiling.
"""

import torch


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend)
    first = []

    def run(input_ids, attention_mask):
        first.append(input_ids.shape)
        chosen = compiled if input_ids.shape == first[0] else model
        return chosen(input_ids, attention_mask=attention_mask)[0]

    return run
