"""other lengths not tried

Takes the number of rows for the number of steps, so that twice as many may be fewer than the example has.
"""


def find_silent_mistake(model, traced, example):
    length, batch, width = example.shape
    for steps in (length, 2 * length):
        for magnitude in (0.1, 1.0, 10.0, 100.0, 900.0):
            for sign in (1.0, -1.0):
                x = sign * magnitude * (0.5 + 0.5 * torch.rand(batch, steps, width))
                try:
                    found = traced(x)
                except (RuntimeError, IndexError):
                    continue
                wanted = model(x)
                if found.shape != wanted.shape or not torch.allclose(found, wanted, 1e-3, 1e-3, equal_nan=True):
                    return x
    return None
