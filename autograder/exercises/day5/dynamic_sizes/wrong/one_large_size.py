"""range with an end

Tries one size far from the example; what does not take it is fixed.
"""

import itertools

import torch


def works(model, shapes, example):
    try:
        model(**{name: torch.ones(shapes[name], dtype=value.dtype) for name, value in example.items()})
    except Exception:
        return False
    return True


def dynamic_sizes(model, example):
    base = {name: [max(size, 2) for size in value.shape] for name, value in example.items()}
    answer = {name: list(value.shape) for name, value in example.items()}
    places = [(name, i) for name in base for i in range(len(base[name]))]
    names = (f"size{n}" for n in itertools.count())
    for group in [*((place,) for place in places), *itertools.combinations(places, 2)]:
        if any(isinstance(answer[name][i], str) for name, i in group):
            continue
        shapes = {name: list(shape) for name, shape in base.items()}
        for name, i in group:
            shapes[name][i] = 23
        if works(model, shapes, example):
            label = next(names)
            for name, i in group:
                answer[name][i] = label
    return answer
