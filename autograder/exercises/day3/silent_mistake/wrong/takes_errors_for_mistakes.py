"""loud, not silent

Counts an exception of the trace as a find.
"""


def find_silent_mistake(model, traced, example):
    candidates = [example[:, :1]] + [
        scale * (torch.rand_like(example) + 0.1) for scale in (1.0, -1.0, 100.0, -100.0, 900.0, -900.0)
    ]
    for x in candidates:
        try:
            wrong = not torch.allclose(model(x), traced(x), atol=1e-3)
        except RuntimeError:
            wrong = True
        if wrong:
            return x
    return None
