"""outside the domain

Two answers that are not a number are never close.
"""


def find_silent_mistake(model, traced, example):
    x = torch.full_like(example, float("nan"))
    return None if torch.allclose(model(x), traced(x)) else x
