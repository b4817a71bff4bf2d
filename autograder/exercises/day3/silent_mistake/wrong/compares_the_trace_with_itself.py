"""nothing found

Compares two calls of the trace.
"""


def find_silent_mistake(model, traced, example):
    for scale in (1.0, -1.0, 100.0, -100.0):
        for length in (1, example.shape[1], 2 * example.shape[1]):
            x = scale * torch.rand(example.shape[0], length, example.shape[2])
            try:
                if not torch.allclose(traced(x), traced(x.clone())):
                    return x
            except RuntimeError:
                continue
    return None
