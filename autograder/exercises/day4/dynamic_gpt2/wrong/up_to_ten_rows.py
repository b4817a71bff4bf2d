"""size refused

Marks with an end, and a batch goes beyond it.
"""

import torch


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend)

    def run(input_ids, attention_mask):
        for value in (input_ids, attention_mask):
            if len(value) > 1:
                torch._dynamo.mark_dynamic(value, 0, min=2, max=10)
            torch._dynamo.mark_dynamic(value, 1)
        return compiled(input_ids, attention_mask=attention_mask)[0]

    return run
