"""outside the domain

Goes beyond every number that the model is meant for.
"""


def find_silent_mistake(model, traced, example):
    for length in (example.shape[1], example.shape[1] + 1):
        for sign in (1, -1):
            x = torch.full((2, length, example.shape[2]), sign * 1e8)
            if not torch.allclose(model(x), traced(x)):
                return x
    return None
