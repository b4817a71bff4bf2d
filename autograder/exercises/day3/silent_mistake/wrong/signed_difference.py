"""other magnitudes not tried

Finds only where the model gives a larger number than the trace.
"""

import itertools


def find_silent_mistake(model, traced, example):
    batch, length, width = example.shape
    for steps, magnitude, sign in itertools.product((length, 2 * length), (0.2, 2.0, 20.0, 200.0, 800.0), (1.0, -1.0)):
        x = torch.full((batch, steps, width), sign * magnitude) + 0.1 * torch.rand(batch, steps, width)
        try:
            found = traced(x)
        except RuntimeError:
            continue
        wanted = model(x)
        if found.shape != wanted.shape or (wanted - found).max() > 1e-3:
            return x
    return None
