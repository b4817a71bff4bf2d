"""Compiles a method of a class, and changes the setting behind `dynamic` meanwhile."""

import torch


class Compiled:
    def __init__(self, model, backend):
        self.model = model
        self.states = torch.compile(self._states, backend=backend)

    def _states(self, tokens, mask):
        states, *_ = self.model(input_ids=tokens, attention_mask=mask)
        return states

    def __call__(self, input_ids, attention_mask):
        with torch._dynamo.config.patch(assume_static_by_default=False):
            return self.states(input_ids, attention_mask)


compile_gpt2 = Compiled
