"""Leaves out half, a quarter and so on, as delta debugging does; then the edits one by one."""

from itertools import product


def without(program: list[dict], number: int) -> list[dict]:
    """The program without a step."""
    return [step for place, step in enumerate(program) if place != number]


def without_detour(program: list[dict], number: int) -> list[dict]:
    """The program without a step, whose first input takes the place of its result."""
    gone, found, valid = program[number], list(program[:number]), True
    for step in program[number + 1 :]:
        step = dict(step)
        if valid:
            step["inputs"] = [gone["inputs"][0] if one == gone["out"] else one for one in step.get("inputs", [])]
        if not step.get("inputs"):
            step.pop("inputs", None)
        valid = valid and step["out"] != gone["out"]
        found.append(step)
    return found


def shrink(program: list[dict], run) -> list[dict]:
    """The smallest program that fails with the same message."""
    said: dict[str, str] = {}

    def fails(other):
        if repr(other) not in said:
            said[repr(other)] = run(other)
        return said[repr(other)] == message

    message = run(program)
    length = len(program) // 2
    while length:
        for start in reversed(range(0, len(program), length)):
            other = [step for place, step in enumerate(program) if not start <= place < start + length]
            if other and fails(other):
                program = other
        length //= 2

    def edits():
        for number, step in enumerate(program):
            yield without(program, number)
            if step.get("inputs"):
                yield without_detour(program, number)
        sizes = sorted({size for step in program for size in step.get("size", ())}, reverse=True)
        for size, change in product(sizes, (lambda n: n // 2, lambda n: n - 1)):
            if size > 1:
                yield [
                    {**step, "size": [change(size) if one == size else one for one in step["size"]]}
                    if "size" in step
                    else step
                    for step in program
                ]
        for number, step in enumerate(program):
            for side, change in product((0, 1), (lambda n: n // 2, lambda n: n - 1)):
                if "size" in step and step["size"][side] > 1:
                    size = list(step["size"])
                    size[side] = change(size[side])
                    yield [*program[:number], {**step, "size": size}, *program[number + 1 :]]

    while True:
        better = next((other for other in edits() if fails(other)), None)
        if better is None:
            return program
        program = better
