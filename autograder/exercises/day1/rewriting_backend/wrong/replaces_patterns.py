"""moved

`replace_pattern` puts what it inserts in front of the first reader.
"""

import torch.nn.functional as F


def make_backend(compile_inner):
    def backend(graph_module, example_inputs):
        exact_forms = (
            lambda x: F.gelu(x),
            lambda x: F.gelu(x, approximate="none"),
            lambda x: F.gelu(input=x),
        )
        for exact in exact_forms:
            torch.fx.replace_pattern(graph_module, exact, lambda x: F.gelu(x, approximate="tanh"))
        return compile_inner(graph_module, example_inputs)

    return backend
