"""Marks both dimensions of both inputs, on each call."""

import torch


def compile_gpt2(model, backend):
    compiled = torch.compile(model, backend=backend, fullgraph=True)

    def run(input_ids, attention_mask):
        for value in (input_ids, attention_mask):
            for dimension in range(2):
                torch._dynamo.mark_dynamic(value, dimension)
        return compiled(input_ids, attention_mask=attention_mask)[0]

    return run
