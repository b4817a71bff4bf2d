"""nothing found

Tries the example in other dtypes of thought: slightly disturbed.
"""


def find_silent_mistake(model, traced, example):
    for step in range(20):
        x = example + 1e-3 * step
        if not torch.allclose(model(x), traced(x), atol=1e-3):
            return x
    return None
