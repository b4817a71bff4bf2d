"""One generator of suspicions, the first that proves true."""

from itertools import product


def suspicions(example):
    for magnitude, sign in product((2.0, 40.0, 900.0), (1.0, -1.0)):
        yield torch.full_like(example, sign * magnitude)
    yield torch.cat([example, example.flip(1)], dim=1)


def silently_wrong(model, traced, x):
    try:
        found = traced(x)
    except RuntimeError:
        return False
    wanted = model(x)
    return found.shape != wanted.shape or not torch.allclose(wanted, found, 1e-2, 1e-2, equal_nan=True)


def find_silent_mistake(model, traced, example):
    return next((x for x in suspicions(example) if silently_wrong(model, traced, x)), None)
