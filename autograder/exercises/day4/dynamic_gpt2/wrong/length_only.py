"""only the length varies

Thinks of the length only.
"""

import torch


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend)

    def run(input_ids, attention_mask):
        for value in (input_ids, attention_mask):
            torch._dynamo.mark_dynamic(value, 1)
        return compiled(input_ids, attention_mask=attention_mask)[0]

    return run
