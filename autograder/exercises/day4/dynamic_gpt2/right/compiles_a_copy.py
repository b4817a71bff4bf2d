"""Compiles a copy of the model in place, so that the model that was given stays as it is."""

import copy


def compile_gpt2(model, backend):
    copied = copy.deepcopy(model)
    copied.compile(backend=backend, dynamic=True)
    return lambda input_ids, attention_mask: copied(input_ids, attention_mask=attention_mask)[0]
