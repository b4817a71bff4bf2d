"""One generator of suspicions, the first that proves true."""

from itertools import product


def suspicions(example):
    yield -example
    for power, sign in product(range(-2, 10), (1.0, -1.0)):
        yield torch.ones_like(example) * sign * 2.0**power
    yield torch.cat([example, example.flip(1)], dim=1)


def find_silent_mistake(model, traced, example):
    return next((x for x in suspicions(example) if not torch.allclose(model(x), traced(x), 1e-2, 1e-2)), None)
