"""other shape overlooked

Takes the number of values in a step for the number of steps, and tries no more than twice as many.
"""


def candidates(example):
    batch, width, length = example.shape[0], example.shape[2], example.shape[2]
    for steps in (length, 2 * length):
        for value in (0.3, 3.0, 30.0, 300.0, 999.0):
            noise = torch.rand(batch, steps, width)
            yield value * noise.clamp(min=0.9)
            yield -value * noise.clamp(min=0.9)


def find_silent_mistake(model, traced, example):
    for x in candidates(example):
        try:
            found = traced(x)
        except RuntimeError:
            continue
        wanted = model(x)
        if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=1e-3, atol=1e-3, equal_nan=True):
            return x
    return None
