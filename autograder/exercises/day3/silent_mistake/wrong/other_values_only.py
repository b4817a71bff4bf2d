"""other lengths not tried

Keeps the shape of the example.
"""


def find_silent_mistake(model, traced, example):
    for scale in (1.0, -1.0, 10.0, -10.0, 100.0, -100.0, 900.0, -900.0):
        x = scale * (torch.rand_like(example) + 0.1)
        if not torch.allclose(model(x), traced(x), atol=1e-3):
            return x
    return None
