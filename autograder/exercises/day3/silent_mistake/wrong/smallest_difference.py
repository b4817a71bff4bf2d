"""other lengths not tried

Looks at the smallest of all differences, as if every number of an answer had to be wrong.
"""


def find_silent_mistake(model, traced, example):
    batch, length, width = example.shape
    for steps in (length, length + 1, 2 * length):
        for magnitude in (0.3, 3.0, 30.0, 300.0, 990.0):
            for sign in (1.0, -1.0):
                x = sign * magnitude * (1.0 - torch.rand(batch, steps, width) / 8)
                try:
                    found = traced(x)
                except RuntimeError:
                    continue
                wanted = model(x)
                if found.shape != wanted.shape or (found - wanted).abs().min() > 1e-3:
                    return x
    return None
