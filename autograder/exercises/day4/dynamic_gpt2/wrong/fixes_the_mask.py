"""size refused

Declares the tokens dynamic, and the mask static.
"""

import torch


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend)

    def run(input_ids, attention_mask):
        torch._dynamo.mark_dynamic(input_ids, (0, 1))
        torch._dynamo.mark_static(attention_mask)
        return compiled(input_ids, attention_mask=attention_mask)[0]

    return run
