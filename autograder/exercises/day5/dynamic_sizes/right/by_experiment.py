"""No export at all: sizes are changed one by one and together, in proportion, and the model is asked."""

import itertools
import math

import torch


def works(model, shapes, example):
    inputs = {name: torch.ones(shapes[name], dtype=value.dtype) for name, value in example.items()}
    try:
        model(**inputs)
    except Exception:
        return False
    return True


def without_ones(model, example):
    """Sizes of 1 become 2, all of them or as many as the model takes."""
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
    groups = [group for number in (1, 2, 3) for group in itertools.combinations(places, number)]
    for group in groups:
        if any(isinstance(answer[name][i], str) for name, i in group):
            continue
        shapes = {name: list(shape) for name, shape in base.items()}
        step = math.gcd(*(base[name][i] for name, i in group))
        for name, i in group:
            shapes[name][i] += base[name][i] // step
        if works(model, shapes, example):
            label = next(names)
            for name, i in group:
                answer[name][i] = f"{base[name][i] // step} * {label}"
    return answer
