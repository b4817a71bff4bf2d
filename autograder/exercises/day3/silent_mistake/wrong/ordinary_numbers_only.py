"""other magnitudes not tried

Draws a thousand inputs, all of them ordinary.
"""


def find_silent_mistake(model, traced, example):
    for trial in range(1000):
        x = torch.randn(example.shape[0], example.shape[1] + trial % 2, example.shape[2])
        if not torch.allclose(model(x), traced(x), atol=1e-3):
            return x
    return None
