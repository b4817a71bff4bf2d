"""One generator of suspicions, the first that proves true."""

from itertools import product


def suspicions(example):
    yield -example
    for power, sign in product(range(-2, 10), (1.0, -1.0)):
        yield torch.ones_like(example) * sign * 2.0**power
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
