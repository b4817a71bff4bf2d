"""The hidden cases: one for each rule that is easily forgotten, then random graphs."""

from __future__ import annotations

from random import Random

from autograder.exchange.evidence import Case
from autograder.exercises.u1.static_graph.oracle import by_pytorch
from autograder.exercises.u1.static_graph.rules import INPUTS, OPERATORS, SHAPED, Shape, infer
from autograder.exercises.u1.static_graph.visible import Step, call, placeholder


def hidden_cases(random: Random) -> list[Case]:
    """One case for each rule that is easily forgotten, then random graphs."""
    fixed: dict[str, list[Step]] = {
        "shapes that do not fit": [
            placeholder(2, 3),
            placeholder(2),
            call("add", 0, 1),
            call("mul", 1, 0),
            call("matmul", 0, 1),
            call("transpose", 1),
            call("expand", 0, shape=[3]),
            call("sum_to", 1, shape=[2, 2]),
            call("sum_to", 0, shape=[2, 3, 1]),
            call("sigmoid", 0),
            call("matmul", 0, 0),
            placeholder(),
            call("add", 11, 0),
            placeholder(3),
            placeholder(3, 2),
            call("matmul", 0, 13),
            call("matmul", 13, 14),
            call("matmul", 13, 13),
            # No operators of the table, with as many inputs as others have.
            call("sub", 0, 0),
            call("constant", shape=[2]),
            call("Neg", 0),
        ],
        "no elements": [
            placeholder(1, 3),
            placeholder(0, 3),
            placeholder(3, 0),
            call("add", 0, 1),
            call("mul", 1, 0),
            call("mul", 1, 2),
            call("expand", 0, shape=[0, 3]),
            call("expand", 1, shape=[1, 3]),
            call("sum_to", 1, shape=[1, 3]),
            call("matmul", 2, 1),
        ],
        "a loss of several numbers": [
            placeholder(3),
            call("mul", 0, 0),
            ["gradients", 1, [0]],
            call("sum_to", 1, shape=[1]),
            ["gradients", 3, [0]],
        ],
        "not reached": [
            placeholder(2),
            placeholder(3),
            call("mul", 0, 0),
            call("sum_to", 2, shape=[]),
            call("tanh", 0),
            ["gradients", 3, [1, 0, 3, 4]],
            ["program", [5, 6, 7, 8]],
        ],
        "stretched": [
            placeholder(2, 1),
            placeholder(1, 3),
            placeholder(),
            placeholder(4, 2, 3),
            call("mul", 0, 1),
            call("add", 4, 2),
            call("mul", 5, 3),
            call("mul", 6, 6),
            call("sum_to", 7, shape=[]),
            ["gradients", 8, [0, 1, 2, 3]],
            ["program", [8, 9, 10, 11, 12]],
        ],
        "stretched by a sum": [
            placeholder(2, 1),
            placeholder(1, 3),
            placeholder(3),
            placeholder(1),
            placeholder(),
            call("add", 0, 1),
            # These two have as many numbers as their sum, and another shape.
            call("add", 2, 1),
            call("add", 4, 3),
            call("mul", 5, 6),
            call("mul", 8, 7),
            call("sum_to", 9, shape=[]),
            ["gradients", 10, [0, 1, 2, 3, 4]],
            ["program", [11, 12, 13, 14, 15]],
        ],
        "asked for twice": [
            placeholder(2),
            placeholder(2),
            call("mul", 0, 1),
            call("sum_to", 2, shape=[]),
            ["gradients", 3, [1, 0, 1]],
        ],
        "used often": [
            placeholder(2, 2),
            call("matmul", 0, 0),
            call("add", 1, 0),
            call("mul", 2, 1),
            call("transpose", 3),
            call("matmul", 4, 2),
            call("sum_to", 5, shape=[]),
            ["gradients", 6, [0]],
            ["program", [7]],
        ],
        "doubled often": [
            placeholder(),
            *(call("add", number, number) for number in range(14)),
            ["gradients", 14, [0]],
        ],
        "steps": [
            placeholder(4),
            call("relu", 0),
            call("mul", 1, 0),
            call("step", 0),
            call("add", 2, 3),
            call("sum_to", 4, shape=[]),
            ["gradients", 5, [0, 3]],
            call("mul", 6, 6),
            call("sum_to", 8, shape=[]),
            ["gradients", 9, [0]],
        ],
        "third derivative": [
            placeholder(3),
            call("tanh", 0),
            call("sum_to", 1, shape=[]),
            ["gradients", 2, [0]],
            call("sum_to", 3, shape=[]),
            ["gradients", 4, [0]],
            call("sum_to", 5, shape=[]),
            ["gradients", 6, [0]],
            ["program", [7, 3]],
        ],
        "what a program needs": [
            placeholder(2),
            placeholder(2),
            call("add", 0, 1),
            call("tanh", 2),
            call("neg", 2),
            call("relu", 3),
            call("mul", 3, 5),
            call("neg", 6),
            ["program", [6]],
            ["program", [6, 3]],
            ["program", [7, 4, 7]],
            ["program", [1]],
            ["program", [2, 0]],
            ["program", []],
        ],
    }
    fixed["not two dimensions"] = _no_matrices(random)
    fixed["stacks of squares"] = _squares(random.randrange(2, 6))
    # In this many ways does the last node lead to the first.
    fixed["doubled forty times"] = [
        placeholder(),
        *(call("add", number, number) for number in range(40)),
        ["program", [40]],
    ]
    # Whole numbers as large as this size are objects of their own, each time one asks for them.
    fixed["long rows"] = [
        placeholder(2, 300),
        placeholder(300, 2),
        call("matmul", 0, 1),
        call("transpose", 0),
        call("matmul", 0, 3),
        call("matmul", 0, 0),
    ]
    fixed["nothing is given"] = [
        call("ones", shape=[2]),
        call("neg", 0),
        call("mul", 1, 0),
        ["program", [1]],
        ["program", [2]],
    ]
    # A set of Python's does not hold the numbers 5, 6 and 8 in this order.
    fixed["numbers with gaps"] = [
        placeholder(2),
        *(call("neg", number) for number in range(4)),
        call("tanh", 0),
        call("neg", 5),
        call("neg", 4),
        call("mul", 5, 6),
        ["program", [8]],
    ]
    cases = [Case(name, {"steps": steps}) for name, steps in fixed.items()]
    return cases + [Case(f"random {number}", {"steps": random_steps(random)}) for number in range(6)]


def _no_matrices(random: Random) -> list[Step]:
    """Products and transpositions that NumPy has of stacks, vectors and single numbers; then those of matrices."""
    rows, inner, columns, stack = random.sample(range(2, 8), 4)
    return [
        placeholder(rows, inner),
        placeholder(inner, columns),
        placeholder(stack, rows, inner),
        placeholder(stack, inner, columns),
        placeholder(1, inner, columns),
        placeholder(inner),
        placeholder(),
        call("matmul", 2, 1),
        call("matmul", 0, 3),
        call("matmul", 2, 3),
        call("matmul", 2, 4),
        call("matmul", 0, 4),
        call("matmul", 0, 5),
        call("matmul", 5, 1),
        call("matmul", 2, 5),
        call("matmul", 5, 3),
        call("matmul", 5, 5),
        call("matmul", 0, 6),
        call("matmul", 6, 6),
        call("transpose", 2),
        call("transpose", 4),
        call("transpose", 5),
        call("transpose", 6),
        call("matmul", 0, 1),
        call("transpose", 23),
    ]


def _squares(size: int) -> list[Step]:
    """A square matrix and a stack of as many: whichever two sizes are compared, they are equal."""
    return [
        placeholder(size, size),
        placeholder(size, size, size),
        call("matmul", 1, 0),
        call("matmul", 0, 1),
        call("matmul", 1, 1),
        call("transpose", 1),
        call("matmul", 0, 0),
    ]


INPUT_SHAPES = ((), (3,), (2, 3), (2, 1), (3, 2), (3, 3))


def random_steps(random: Random) -> list[Step]:
    """Two or three inputs, six to twelve operations, gradients, sometimes gradients of those, and two programs."""
    steps: list[Step] = [placeholder(*random.choice(INPUT_SHAPES)) for _ in range(random.randint(2, 3))]
    shapes: list[Shape] = [tuple(step[3]) for step in steps]

    def add(step: Step) -> int:
        steps.append(step)
        shapes.append(infer(step[1], [shapes[one] for one in step[2]], None if step[3] is None else tuple(step[3])))
        return len(shapes) - 1

    inputs = list(range(len(shapes)))
    for _ in range(random.randint(6, 12)):
        add(_random_call(random, shapes))
    last = len(shapes) - 1
    loss = add(call("sum_to", last, shape=[]))
    wanted = random.sample([*inputs, last, random.randrange(last)], random.randint(1, len(inputs) + 1))
    steps.append(["gradients", loss, wanted])
    first = len(shapes)
    shapes += [shapes[one] for one in wanted]
    if random.random() < 0.6:
        square = add(call("mul", first, first))
        other = add(call("sum_to", square, shape=[]))
        steps.append(["gradients", other, inputs])
        shapes += [shapes[one] for one in inputs]
    steps.append(["program", random.sample(range(len(inputs), len(shapes)), 3)])
    steps.append(["program", list(range(first, len(shapes)))])
    tame = all(one is None or bool((one.abs() < 1e5).all()) for one in by_pytorch(steps, 0))
    # Numbers that grew too much would make rounding decide.
    return steps if tame else random_steps(random)


def _random_call(random: Random, shapes: list[Shape]) -> Step:
    while True:
        operator = random.choice([one for one in OPERATORS if one not in ("input", "step", "zeros")])
        inputs = [
            max(random.randrange(len(shapes)), random.randrange(len(shapes))) for _ in range(INPUTS.get(operator, 1))
        ]
        shape = list(random.choice([*INPUT_SHAPES, (1, 3), (4, 2, 3)])) if operator in SHAPED else None
        try:
            infer(operator, [shapes[one] for one in inputs], None if shape is None else tuple(shape))
        except ValueError:
            continue
        return call(operator, *inputs, shape=shape)
