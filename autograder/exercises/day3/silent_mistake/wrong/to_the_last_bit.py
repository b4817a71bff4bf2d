"""rounding accused

Takes every difference for a mistake, also one of rounding.
"""


def find_silent_mistake(model, traced, example):
    width = example.shape[-1]
    for value in (0.3, 1.0, 3.0, 10.0, 25.0, 60.0, 150.0, 400.0, 999.0):
        for sign in (1.0, -1.0):
            for length in (*range(1, 10), 2 * example.shape[1]):
                for batch in (example.shape[0], 1):
                    for stripes in (False, True):
                        candidate = sign * value * (1.0 - 0.1 * torch.rand(batch, length, width))
                        if stripes:
                            candidate[..., ::2] = 1.0
                        with torch.no_grad():
                            wanted = model(candidate)
                            try:
                                found = traced(candidate)
                            except Exception:
                                continue
                        if found.shape != wanted.shape or not torch.equal(found, wanted):
                            return candidate
    return None
