"""nan accused

Compares as if `nan` equalled itself.
"""


def candidates(example):
    batch, length, width = example.shape
    for magnitude in (1.0, 0.01, 10.0, 100.0, 990.0):
        for steps in (length, length + 1, 2 * length):
            noise = torch.rand(batch, steps, width)
            yield magnitude * noise
            yield -magnitude * noise
            yield torch.full((batch, steps, width), magnitude)
            yield torch.full((batch, steps, width), -magnitude)


def find_silent_mistake(model, traced, example):
    for x in candidates(example):
        try:
            found = traced(x)
        except RuntimeError:
            continue
        wanted = model(x)
        if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=1e-4, atol=1e-3):
            return x
    return None
