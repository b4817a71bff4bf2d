"""Reads all marks into one list and takes differences; searches for the break-even call by call, in growing steps."""

import math
from itertools import pairwise


def middle(values):
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def compile_profile(functions, clock, synchronize, warmup, repeats):
    def mark():
        synchronize()
        return clock()

    profile = dict.fromkeys(functions)
    for name in functions:
        marks = [mark()]
        for _ in range(1 + warmup + repeats):
            functions[name]()
            marks.append(mark())
        first, *others = [after - before for before, after in pairwise(marks)]
        call = middle(others[warmup:])
        profile[name] = dict(cost_seconds=first - call, call_seconds=call)
    return profile


def total(row, calls):
    return row["cost_seconds"] + calls * row["call_seconds"]


def break_even(plain, compiled):
    if compiled["call_seconds"] >= plain["call_seconds"]:
        return math.inf
    most = 1
    while total(compiled, most) > total(plain, most):
        most *= 2
    least = most // 2
    while most - least > 1:
        calls = (least + most) // 2
        if total(compiled, calls) > total(plain, calls):
            least = calls
        else:
            most = calls
    return most


def cheapest(profile, calls):
    return sorted(profile.items(), key=lambda item: total(item[1], calls))[0][0]
