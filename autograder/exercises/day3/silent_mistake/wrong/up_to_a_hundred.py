"""other magnitudes not tried

Tries values up to 100, and a threshold may lie beyond.
"""

import torch


def find_silent_mistake(model, traced, example):
    batch, length, width = example.shape
    for steps in (length, 2 * length):
        for magnitude in (0.1, 1.0, 10.0, 30.0, 60.0, 100.0):
            for sign in (1.0, -1.0):
                x = sign * magnitude * (1.0 - 0.1 * torch.rand(batch, steps, width))
                try:
                    found = traced(x)
                except RuntimeError:
                    continue
                wanted = model(x)
                if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=1e-4, atol=1e-4):
                    return x
    return None
