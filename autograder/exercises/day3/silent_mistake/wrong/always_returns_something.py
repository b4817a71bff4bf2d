"""faithful trace accused

Returns the last candidate when none was found.
"""


def find_silent_mistake(model, traced, example):
    for scale in (1.0, -1.0, 10.0, -10.0, 100.0, -100.0, 900.0, -900.0):
        for extra in (0, 1):
            x = scale * (torch.rand(example.shape[0], example.shape[1] + extra, example.shape[2]) + 0.1)
            if not torch.allclose(model(x), traced(x), atol=1e-3):
                return x
    return x
