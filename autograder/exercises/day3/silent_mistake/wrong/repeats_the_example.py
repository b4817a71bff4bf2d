"""other lengths not tried

Tries a longer input that holds the same values once more, after which a recurrent model is where it was.
"""


def candidates(example):
    for factor in (1.0, -1.0):
        yield factor * example
        yield factor * torch.cat([example, example], dim=1)
    for value in (0.5, 5.0, 50.0, 250.0, 990.0):
        for signed in (value, -value):
            yield torch.full_like(example, signed)
            yield torch.full_like(example.repeat(1, 2, 1), signed)


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
