"""varies with another

Changes sizes together only where they are equal.
"""

import itertools

import torch


def works(model, shapes, example):
    try:
        model(**{name: torch.ones(shapes[name], dtype=value.dtype) for name, value in example.items()})
    except Exception:
        return False
    return True


def without_ones(model, example):
    shapes = {name: list(value.shape) for name, value in example.items()}
    ones = [(name, i) for name in shapes for i, size in enumerate(shapes[name]) if size == 1]
    for number in range(len(ones), -1, -1):
        for chosen in itertools.combinations(ones, number):
            trial = {name: list(shape) for name, shape in shapes.items()}
            for name, i in chosen:
                trial[name][i] = 2
            if works(model, trial, example):
                return trial


def dynamic_sizes(model, example):
    base = without_ones(model, example)
    answer = {name: list(value.shape) for name, value in example.items()}
    places = [(name, i) for name in base for i in range(len(base[name])) if base[name][i] > 1]
    names = (f"size{n}" for n in itertools.count())
    for group in itertools.chain.from_iterable(itertools.combinations(places, number) for number in (1, 2, 3)):
        if any(isinstance(answer[name][i], str) for name, i in group) or len({base[n][i] for n, i in group}) > 1:
            continue
        shapes = {name: list(shape) for name, shape in base.items()}
        for name, i in group:
            shapes[name][i] += 1
        if works(model, shapes, example):
            label = next(names)
            for name, i in group:
                answer[name][i] = label
    return answer
