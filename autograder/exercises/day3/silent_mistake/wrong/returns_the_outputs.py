"""no tensor

Returns what was compared, not the input.
"""


def find_silent_mistake(model, traced, example):
    for scale in (1.0, -1.0, 100.0, -100.0):
        x = scale * torch.rand(example.shape[0], example.shape[1] + 1, example.shape[2])
        if not torch.allclose(model(x), traced(x), atol=1e-3):
            return model(x), traced(x)
    return None
