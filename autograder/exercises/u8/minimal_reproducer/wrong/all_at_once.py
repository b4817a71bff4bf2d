"""size left

Changes all numbers of the program at once, or a single one.
"""


def without(program: list[dict], number: int) -> list[dict]:
    """The program without a step."""
    return program[:number] + program[number + 1 :]


def without_detour(program: list[dict], number: int) -> list[dict]:
    """The program without a step, whose first input takes the place of its result."""
    step, later = program[number], []
    current = True
    for other in program[number + 1 :]:
        if current and "inputs" in other:
            names = [step["inputs"][0] if name == step["out"] else name for name in other["inputs"]]
            later.append({**other, "inputs": names})
        else:
            later.append(other)
        current = current and other["out"] != step["out"]
    return program[:number] + later


def shrink(program: list[dict], run) -> list[dict]:
    """The smallest program that fails with the same message."""
    message = run(program)

    def smaller(program):
        for number in reversed(range(len(program))):
            yield without(program, number)
        for number in reversed(range(len(program))):
            if "inputs" in program[number]:
                yield without_detour(program, number)
        places = [(number, side) for number, step in enumerate(program) if "size" in step for side in (0, 1)]
        numbers = [program[number]["size"][side] for number, side in places]
        least = min(numbers, default=1)
        for less in (least // 2, least - 1):
            if less >= 1:
                yield resized(program, places, less)
        for group in [[place] for place in places]:
            value = program[group[0][0]]["size"][group[0][1]]
            for less in (value // 2, value - 1):
                if less >= 1:
                    yield resized(program, group, less)

    def resized(program, group, value):
        program = [{**step, "size": list(step["size"])} if "size" in step else step for step in program]
        for number, side in group:
            program[number]["size"][side] = value
        return program

    while True:
        for candidate in smaller(program):
            if run(candidate) == message:
                program = candidate
                break
        else:
            return program
