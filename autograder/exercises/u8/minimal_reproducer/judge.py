"""Is what is left a program that fails as the given one does, and would nothing smaller do?"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u8.minimal_reproducer.visible import case, fault, fault_of, steps
from autograder.exercises.u8.programs import Step, run, smaller

MISCONCEPTIONS = {
    "no program": "`shrink` must return a program: a list of steps, of the form of those that it was given.",
    "runs without an error": (
        "What you return runs without an error. Keep the smallest program that you have *seen* fail."
    ),
    "another failure": (
        "What you return fails, but with another message. A smaller program often fails for a reason of its own, such "
        "as a name that is not there any more. Compare the message."
    ),
    "only a similar message": (
        "What you return fails with a message that is only like the one of the given program: a part of it is the "
        "same, and another failure is behind it. Compare the whole message, with `==`."
    ),
    "step left": "A step is left over: without it the program fails in the same way.",
    "detour left": (
        "A detour is left over: if whoever reads a step's result reads its first input instead, the step can go, and "
        "the program fails in the same way."
    ),
    "size left": (
        "A size is larger than it needs to be: made smaller by one or by half, in one place or wherever this number "
        "stands, the program fails in the same way."
    ),
    "below one": (
        "A number in a size is below 1. Make sizes smaller, but at least 1, even if what is left then fails with the "
        "same message."
    ),
    "too many runs": "You ran too many programs. Each run may take minutes: don't try combinations.",
}

LEFT = {"step": "step left", "detour": "detour left", "size": "size left"}

SIMILAR = {
    "a message within another": (
        "RuntimeError: it went wrong on a matrix",
        "RuntimeError: it went wrong on a matrix of one row",
        "AssertionError: while tracing, RuntimeError: it went wrong on a matrix",
        "RuntimeError: it went wrong",
        "it went wrong on a matrix",
    ),
    "messages that share a line": (
        "RuntimeError: it went wrong\n  at step 12 of 20",
        "RuntimeError: it went wrong\n  at step 13 of 20",
        "TypeError: no such overload\n  at step 12 of 20",
        "RuntimeError: it went wrong at step 12 of 20",
        "RuntimeError: it Went Wrong\n  at step 12 of 20",
    ),
}
"""Messages, each with four of other failures that whoever compares only a part of it takes for the same."""

RUNS_A_STEP = 100
"""How many runs each step of the given program allows."""


def hidden_cases(random: Random) -> list[Case]:
    """Coupled sizes, chains, names given twice, odd numbers, messages that are alike; then programs that are drawn."""
    cases = [
        case(
            "coupled sizes",
            steps("a = ones(32, 20)\nb = ones(6, 20)\nc = cat(a, b)\nd = relu(c)\ne = exp(d)"),
            fault("exp", "RuntimeError: exp went wrong", ("joined", 0, 1), ("columns", 0, 3)),
        ),
        case(
            "a chain",
            steps(
                "a = ones(9, 2)\nb = relu(a)\nc = exp(b)\nd = relu(c)\ne = t(d)\nf = exp(e)\ng = relu(f)\nh = mul(g, g)"
            ),
            fault("mul", "RuntimeError: mul went wrong", ("transposed", 1, 1)),
        ),
        case(
            "a name given twice",
            steps("a = ones(3, 3)\nb = relu(a)\nc = half(b)\nb = t(c)\na = exp(b)\na = relu(b)"),
            fault("exp", "RuntimeError: exp went wrong", ("half", 0, 1), ("transposed", 0, 1)),
        ),
        case(
            "one step is enough",
            # Step by step a thousand takes too many runs; and what gives its name anew still reads the old one.
            steps("a = ones(1000, 1000)\nb = exp(a)\nb = relu(b)\nc = exp(b)\nd = t(c)"),
            fault("relu", "RuntimeError: relu went wrong"),
        ),
        case(
            "a product",
            steps("a = ones(9, 3)\nb = ones(3, 2)\nc = mm(a, b)\nd = exp(c)"),
            fault("exp", "RuntimeError: exp went wrong", ("rows", 0, 5)),
        ),
        case(
            # What is joined has as many columns: the sizes come before the detour.
            "a detour that sizes forbid",
            steps("a = ones(6, 4)\nb = ones(4, 9)\nc = t(b)\nd = cat(a, c)\ne = exp(d)"),
            fault("exp", "RuntimeError: exp went wrong", ("joined", 0, 1)),
        ),
        case(
            "not half of it",
            steps("a = ones(30, 20)\nb = exp(a)\nc = relu(b)\nd = t(c)"),
            fault("t", "RuntimeError: t went wrong", ("rows", 0, 19), ("columns", 0, 12)),
        ),
        case(
            "nothing to do",
            steps("a = ones(1, 1)\nb = half(a)\nc = exp(b)"),
            fault("exp", "RuntimeError: exp went wrong", ("half", 0, 1)),
        ),
        case(
            # What is read after the new name was given is the new one, also for those who come later.
            "a new name that is read later",
            steps(
                "first = ones(2, 2)\nname = relu(first)\nhalved = half(name)\nname = t(halved)\n"
                "kept = track(halved)\nlast = add(name, kept)"
            ),
            fault("add", "RuntimeError: add went wrong", ("half", 0, 1), ("transposed", 0, 1), ("tracked", 1, 1)),
        ),
        case(
            "a matrix after the new name",
            steps(
                "first = ones(2, 2)\nname = relu(first)\nhalved = half(name)\nname = t(halved)\n"
                "other = ones(3, 2)\nlast = cat(name, other)"
            ),
            fault("cat", "RuntimeError: cat went wrong", ("half", 0, 1), ("transposed", 0, 1), ("half", 1, 0)),
        ),
        case(
            "a result that two read",
            steps(
                "first = ones(2, 2)\nsame = exp(first)\nkept = track(same)\nother = ones(3, 2)\n"
                "both = cat(same, other)\nlast = cat(kept, both)"
            ),
            fault("cat", "RuntimeError: cat went wrong", ("tracked", 0, 1), ("joined", 1, 1)),
        ),
        case(
            "nobody reads the first and the last",
            steps("a = ones(2, 3)\nb = ones(4, 2)\nc = t(b)\nd = exp(c)\ne = ones(3, 2)"),
            fault("exp", "RuntimeError: exp went wrong", ("transposed", 0, 1)),
        ),
        case(
            "large sizes that belong together",
            steps("a = ones(2, 300)\nb = ones(3, 300)\nc = cat(a, b)\nd = exp(c)"),
            fault("exp", "RuntimeError: exp went wrong", ("joined", 0, 1), ("columns", 0, 17)),
        ),
        case(
            "half of what belongs together",
            steps("a = ones(2, 8)\nb = ones(3, 8)\nc = cat(a, b)\nd = t(c)\ne = exp(d)"),
            fault("exp", "RuntimeError: exp went wrong", ("joined", 0, 1), ("rows", 0, 3), ("even", 0, 1)),
        ),
        case(
            # 6 becomes 5, and 2 stays: rows that grow along are not even any more.
            "another number stays",
            steps("a = ones(2, 6)\nb = ones(2, 6)\nc = track(b)\nd = add(a, c)\ne = exp(d)"),
            fault("exp", "RuntimeError: exp went wrong", ("tracked", 0, 1), ("columns", 0, 5), ("even", 0, 1)),
        ),
        case(
            "half of one side",
            steps("a = ones(8, 8)\nb = exp(a)"),
            fault("exp", "RuntimeError: exp went wrong", ("rows", 0, 3), ("even", 0, 1), ("columns", 0, 8)),
        ),
        case(
            "one less on one side",
            steps("a = ones(9, 9)\nb = exp(a)"),
            fault("exp", "RuntimeError: exp went wrong", ("rows", 0, 8), ("columns", 0, 9)),
        ),
        case(
            "1 on one side",
            steps("a = ones(2, 2)\nb = exp(a)"),
            fault("exp", "RuntimeError: exp went wrong", ("columns", 0, 2)),
        ),
        case(
            "one name for two matrices",
            steps("a = ones(1, 4)\nb = track(a)\na = ones(4, 1)\nc = cat(b, a)"),
            fault("cat", "RuntimeError: cat went wrong", ("tracked", 0, 1), ("columns", 0, 4), ("rows", 1, 2)),
        ),
        case(
            "one side of a square",
            steps("a = ones(20, 20)\nb = exp(a)"),
            fault("exp", "RuntimeError: exp went wrong", ("rows", 0, 12)),
        ),
        case(
            # 20 stands in a row and in a column, beside numbers that are as small as they may be.
            "rows and columns",
            steps("a = ones(1, 20)\nb = ones(2, 20)\nc = cat(a, b)\nd = ones(20, 1)\ne = mm(c, d)\nf = exp(e)"),
            fault("exp", "RuntimeError: exp went wrong", ("joined", 0, 0), ("rows", 0, 3)),
        ),
        case(
            # Half of 8 will do, and neither one less nor a third.
            "an even number",
            steps("a = ones(8, 5)\nb = exp(a)"),
            fault("exp", "RuntimeError: exp went wrong", ("rows", 0, 3), ("even", 0, 1)),
        ),
        case(
            "a message that 0 rows have, too",
            steps("a = ones(9, 4)\nb = exp(a)"),
            fault("exp", "ValueError: rows and columns are between 1 and 1024"),
        ),
    ]
    cases += [similar(random, name, *messages) for name, messages in SIMILAR.items()]
    return cases + [drawn(random, f"drawn {number}") for number in range(3)]


def similar(random: Random, name: str, wanted: str, *others: str) -> Case:
    """A program that fails for the sake of four properties; without one of them it says one of the others."""
    op, columns = random.choice(["exp", "relu"]), random.randint(2, 9)
    program = steps(
        f"a = ones({random.randint(2, 30)}, {columns})\nb = ones({random.randint(2, 30)}, {columns})\n"
        f"c = cat(a, b)\nd = half(c)\ne = t(d)\nf = track(e)\ng = {op}(f)\nh = detach(g)"
    )
    properties = random.sample(["joined", "half", "transposed", "tracked"], 4)
    faults = [fault(op, other, (one, 0, 0)) for one, other in zip(properties, others, strict=True)]
    return case(name, program, *faults, fault(op, wanted))


def drawn(random: Random, name: str) -> Case:
    """A program that fails at an operator with two or three conditions, among steps that don't matter."""
    while True:
        op = random.choice(["exp", "mul", "mm", "relu", "add"])
        rows, columns = random.randint(8, 40), random.randint(8, 40)
        wanted = random.sample(["transposed", "half", "tracked", "joined"], random.choice([1, 2]))
        conditions = [(one, 0, 1) for one in wanted]
        conditions.append((random.choice(["rows", "columns"]), 0, random.randint(2, 8)))
        program = _program(random, op, wanted, rows, columns)
        faults = [fault(op, f"RuntimeError: {op} went wrong", *conditions)]
        if "half" in wanted:
            faults.append(fault("detach", "RuntimeError: detach went wrong", ("half", 0, 0)))
        found = case(name, program, *faults)
        if found.parameters["message"] == f"RuntimeError: {op} went wrong":
            return found


def _program(random: Random, op: str, wanted: list[str], rows: int, columns: int) -> list[Step]:
    names = iter(f"v{number}" for number in range(1000))
    program: list[Step] = []

    def new(op: str, *inputs: str, **more: Any) -> str:
        name = next(names)
        program.append({"out": name, "op": op, **({"inputs": list(inputs)} if inputs else {}), **more})
        return name

    def beside(name: str) -> str:
        """A step or two that don't matter, on the way or off it."""
        for _ in range(random.randint(0, 2)):
            if random.random() < 0.5:
                name = new(random.choice(["relu", "exp"]), name)
            else:
                new(random.choice(["relu", "t", "exp", "track"]), name)
        return name

    at = beside(new("ones", size=[rows, columns]))
    new("ones", size=[random.randint(1, 9), random.randint(1, 9)])
    if "joined" in wanted:
        at = beside(new("cat", at, new("ones", size=[random.randint(1, 9), columns])))
        rows = 0
    for one, step in (("half", "half"), ("tracked", "track"), ("transposed", "t")):
        if one in wanted:
            at = beside(new(step, at))
    at = new("detach", at) if "half" in wanted and "tracked" not in wanted else at
    at = beside(at)
    if op in ("mul", "add"):
        at = new(op, at, at)
    elif op == "mm":
        at = new(op, at, new("t", at))
    else:
        at = new(op, at)
    beside(beside(at))
    return program


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is wrong with what is left; then with the number of runs."""
    program, faults = evidence.values["program"], fault_of(case.kept["faults"])
    if not isinstance(program, list) or not all(isinstance(step, dict) for step in program):
        yield "no program", ""
        return
    said, wanted = run(program, faults), case.parameters["message"]
    if said != wanted:
        name = "only a similar message" if said in SIMILAR.get(case.name, ()) else "another failure"
        yield (name if said else "runs without an error"), f"({len(program)} steps: {said or 'no error'})"
        return
    if len(evidence.values["seen"]) > RUNS_A_STEP * len(case.parameters["program"]):
        yield "too many runs", f"({len(evidence.values['seen'])})"
        return
    if any(isinstance(one, int) and one < 1 for step in program for one in step.get("size", ())):
        yield "below one", f"({len(program)} steps are left)"
        return
    for kind, other in smaller(program):
        if run(other, faults) == wanted:
            yield LEFT[kind], f"({len(program)} steps are left)"
            return
