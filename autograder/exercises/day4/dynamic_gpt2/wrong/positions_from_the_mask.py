"""results changed

Counts positions from the mask, as it is done for writing on; the model that was given does not.
"""

import torch


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend, dynamic=True)

    def run(input_ids, attention_mask):
        positions = (attention_mask.cumsum(dim=1) - 1).clamp(min=0)
        return compiled(input_ids, attention_mask=attention_mask, position_ids=positions)[0]

    return run
