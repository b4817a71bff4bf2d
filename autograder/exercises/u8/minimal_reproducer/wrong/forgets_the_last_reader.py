"""detour left

A detour leaves out the step that gives the name anew, although it reads the old one.
"""


def without(program, number):
    return program[:number] + program[number + 1 :]


def without_detour(program, number):
    step = program[number]
    old, new = step["out"], step["inputs"][0]
    rest = []
    live = True
    for later in program[number + 1 :]:
        later = dict(later)
        if later["out"] == old:
            live = False
        if live and "inputs" in later:
            later["inputs"] = [new if name == old else name for name in later["inputs"]]
        if later["out"] == old:
            live = False
        rest.append(later)
    return program[:number] + rest


def resized(program, change):
    answer = []
    for number, step in enumerate(program):
        step = dict(step)
        if "size" in step:
            step["size"] = [change(number, place, n) for place, n in enumerate(step["size"])]
        answer.append(step)
    return answer


def smaller(program):
    for number in reversed(range(len(program))):
        yield without(program, number)
        if program[number].get("inputs"):
            yield without_detour(program, number)
    places = [(k, p, n) for k, step in enumerate(program) for p, n in enumerate(step.get("size", ()))]
    for halve in (True, False):
        lesser = lambda n: max(1, n // 2 if halve else n - 1)
        for size in dict.fromkeys(n for _, _, n in places if n > 1):
            yield resized(program, lambda k, p, n: lesser(n) if n == size else n)
        for place in places:
            if place[2] > 1:
                yield resized(program, lambda k, p, n: lesser(n) if (k, p) == place[:2] else n)


def shrink(program, run):
    message, seen = run(program), {repr(program)}
    while True:
        for candidate in smaller(program):
            if repr(candidate) in seen:
                continue
            seen.add(repr(candidate))
            if run(candidate) == message:
                program = candidate
                break
        else:
            return program
