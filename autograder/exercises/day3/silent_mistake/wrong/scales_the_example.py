"""other magnitudes not tried

Tries multiples of the example, whose mean stays near 0 however large they are.
"""

import torch


def find_silent_mistake(model, traced, example):
    for longer in (False, True):
        for magnitude in (0.1, 1.0, 10.0, 100.0, 1000.0):
            for sign in (1.0, -1.0):
                x = (sign * magnitude * example).clamp(-1000.0, 1000.0)
                x = torch.cat([x, x.flip(1)], dim=1) if longer else x
                try:
                    found = traced(x)
                except RuntimeError:
                    continue
                wanted = model(x)
                if found.shape != wanted.shape or not torch.allclose(found, wanted, rtol=1e-4, atol=1e-4):
                    return x
    return None
