"""rounding accused

Allows for rounding beside large numbers only: beside 0 the tolerance is 0, too.
"""


def find_silent_mistake(model, traced, example):
    batch, length, width = example.shape
    for steps in (length, 2 * length):
        for magnitude in (0.5, 5.0, 50.0, 500.0, 950.0):
            for sign in (1.0, -1.0):
                x = sign * magnitude * (0.8 + 0.2 * torch.rand(batch, steps, width))
                try:
                    found = traced(x)
                except RuntimeError:
                    continue
                wanted = model(x)
                if found.shape != wanted.shape:
                    return x
                both_nan = found.isnan() & wanted.isnan()
                if not (((found - wanted).abs() <= 1e-4 * wanted.abs()) | both_nan).all():
                    return x
    return None
