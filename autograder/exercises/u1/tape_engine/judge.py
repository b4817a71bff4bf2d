"""Values and gradients of programs: asked of PyTorch, which runs the same programs on tensors of double precision."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from functools import lru_cache
from random import Random
from typing import Any

import torch

from autograder.exchange.evidence import Case, Evidence
from autograder.exercises.u1.arrays import in_words
from autograder.exercises.u1.tape_engine.model import FLAWS, by_model
from autograder.exercises.u1.tape_engine.visible import OPERATIONS, Step, leaf, program, run

MISCONCEPTIONS = {
    "asked PyTorch": "Your engine asks PyTorch's. Build your own: NumPy does the arithmetic, you do the derivatives.",
    "wrong data": "A value's `data` is what NumPy computes, at once, as an array of floats.",
    "wrong flag": "`needs_gradient` of a result is true if *any* of its inputs needs a gradient, and false otherwise.",
    "last path only": (
        "A value that's used several times gets one gradient from each use, and they add up. You kept only the last."
    ),
    "arrays shared": (
        "Two values were handed the same array as their gradient, and then you added to it in place, so both "
        "changed. Make a new array: `a = a + b`, not `a += b`."
    ),
    "starts anew": (
        "A second call of `backward` adds to the gradients that are there. After yours, they are those of one call: "
        "you replaced them, or the first call took away what the second one needs."
    ),
    "stale inside": (
        "Gradients of intermediate values belong to one call of `backward`. You kept them, so that the next call "
        "passed them on once more. Keep them in a dictionary that lives as long as the call."
    ),
    "goes on too early": (
        "You passed a value's gradient on before every use of the value had added its part. Walk from the last "
        "operation to the first: a value comes after everything that was made of it."
    ),
    "not summed": (
        "An operand that was stretched has the gradient of every copy: sum over the stretched dimensions, so that "
        "the gradient has the shape of the data."
    ),
    "factors mixed up": "The gradient of one factor is the incoming gradient times the *other* factor.",
    "relu passes all": "`relu` lets a gradient through only where its input is above 0.",
    "relu at zero": "Where the input of `relu` is exactly 0, PyTorch's gradient is 0.",
    "tanh of the input": "The slope of tanh is 1 minus the square of its *result*, not of its input.",
    "sign lost": "The gradient of `-x` is the negated gradient.",
    "sum not spread": "Every number in a sum gets the whole gradient: it has the shape of the input.",
    "wrong shape": "A gradient has the shape of its value's data.",
    "no gradient": "A value that was made with `needs_gradient=True`, and that the result depends on, has no gradient.",
    "gradients inside": (
        "`gradient` is for values you make yourself with `needs_gradient=True`. Results of operations and constants "
        "keep `None`: in a big model, their gradients would fill the memory."
    ),
    "wrong gradient": "A gradient isn't what PyTorch computes.",
    "not refused": (
        "`backward` must raise `ValueError` on a value with more than one number, and on one that needs no gradient."
    ),
    "refused": "`backward` raised `ValueError` on a program that's fine.",
    "too deep": (
        "A program of thousands of operations was too deep for your recursion. Keep a list of what's left to do "
        "instead."
    ),
    "path by path": (
        "Your backward pass walks every *path*. Paths double with each value that's used twice: run each "
        "operation's rule once, when its gradient is complete."
    ),
    "keeps constants": (
        "An operation none of whose inputs needs a gradient must not keep its inputs alive: record nothing for it. "
        "Otherwise inference fills the memory."
    ),
}


def hidden_cases(random: Random) -> list[Case]:
    """One case for each thing that is easily forgotten, then random programs."""
    column, row = [[1.0], [-2.0]], [[0.5, 1.5, -1.0]]
    cube = [[[(one - two + 3 * three) / 4 for three in range(3)] for two in range(2)] for one in range(3)]
    fixed = {
        "one use after the other": [
            program([leaf([1.0, 2.0]), leaf([3.0, -1.0])], *steps)
            for steps in (
                (["add", 0, 1], ["add", 2, 0], ["sum", 3], ["backward", 4]),
                (["add", 0, 1], ["add", 0, 2], ["add", 3, 1], ["sum", 4], ["backward", 5]),
                (["add", 0, 0], ["sum", 2], ["backward", 3]),
            )
        ],
        "long and short ways": [
            program([leaf(0.5)], ["tanh", 0], ["mul", 1, 1], ["neg", 2], ["mul", 1, 3], ["add", 4, 1], ["backward", 5]),
            program([leaf(0.5)], ["tanh", 0], ["mul", 1, 1], ["neg", 2], ["mul", 3, 1], ["add", 1, 4], ["backward", 5]),
        ],
        "stretched both ways": [
            program([leaf(column), leaf(row)], ["mul", 0, 1], ["sum", 2], ["backward", 3]),
            program([leaf(2.0), leaf([row, row])], ["mul", 0, 1], ["sum", 2], ["backward", 3]),
            program([leaf([[3.0]]), leaf([1.0, 2.0])], ["add", 0, 1], ["mul", 2, 2], ["sum", 3], ["backward", 4]),
            program([leaf([1.0]), leaf([2.0])], ["mul", 0, 1], ["backward", 2]),
            program([leaf([1.0]), leaf([])], ["mul", 0, 1], ["sum", 2], ["backward", 3]),
            program([leaf(1.0), leaf([])], ["mul", 0, 1], ["sum", 2], ["backward", 3]),
            # In two dimensions at once, by two further ones, and both together.
            program(
                [leaf([[3.0]]), leaf(column), leaf([1.0, -1.0, 2.0]), leaf(cube)],
                *(["mul", 0, 3], ["mul", 1, 4], ["mul", 5, 2], ["sum", 6], ["backward", 7]),
            ),
            # Sizes above 256 are no longer one object each in Python.
            program([leaf([one / 8 for one in range(300)]), leaf(2.0)], ["mul", 0, 1], ["sum", 2], ["backward", 3]),
        ],
        "plain numbers": [
            program([leaf(3, True), leaf(2, False)], ["mul", 0, 1], ["mul", 2, 0], ["backward", 3]),
            program([leaf(2, False), leaf([1.0, -1.0])], ["mul", 1, 0], ["sum", 2], ["backward", 3]),
        ],
        "at zero": [
            program([leaf([0.0, -0.0, 1.0, -1.0])], ["relu", 0], ["sum", 1], ["backward", 2]),
            # A gradient of zeros is one, too.
            program([leaf([-1.0, -2.0]), leaf(3.0)], ["relu", 0], ["sum", 2], ["mul", 3, 1], ["backward", 4]),
        ],
        "far from zero": [program([leaf([1000.0, -1000.0, 0.5])], ["tanh", 0], ["sum", 1], ["backward", 2])],
        "called again": [
            program([leaf([1.0, 2.0])], ["mul", 0, 0], ["sum", 1], ["backward", 2], ["backward", 2]),
            program([leaf(3.0)], ["mul", 0, 0], ["mul", 1, 0], ["tanh", 1], ["backward", 2], ["backward", 3]),
            # The first call hands one array to two values, the second one adds to one of them.
            program(
                [leaf([1.0, 2.0]), leaf([3.0, 4.0])],
                *(["add", 0, 1], ["sum", 2], ["backward", 3], ["mul", 0, 0], ["sum", 4], ["backward", 5]),
            ),
        ],
        "some need none": [
            program([leaf([1.0, 2.0], False), leaf([3.0, 4.0])], ["mul", 0, 1], ["sum", 2], ["backward", 3]),
            program([leaf(2.0, False), leaf(3.0, False), leaf(1.0)], ["mul", 0, 1], ["mul", 3, 2], ["backward", 4]),
            program([leaf(2.0), leaf(3.0)], ["mul", 0, 0], ["backward", 2]),
            program([leaf([[2.0]])], ["backward", 0], ["backward", 0]),
        ],
        "refusals": [
            program([leaf([1.0, 2.0])], ["mul", 0, 0], ["backward", 1], ["sum", 1], ["backward", 2]),
            program([leaf(2.0, False), leaf(3.0)], ["mul", 0, 0], ["backward", 2], ["backward", 1]),
        ],
        "very long": [program([leaf(0.5), leaf(0.001)], ["repeated", 0, 1, 3000], ["mul", 2, 2], ["backward", 3])],
        "doubled often": [program([leaf(0.5)], ["folded", 0, 40], ["backward", 1])],
        "Python decides": [
            program(
                [leaf([0.1, 0.2]), leaf(-1.0)], ["doubled", 0, 100.0], ["chosen", 1, 2, 0], ["sum", 3], ["backward", 4]
            ),
            program(
                [leaf([0.1, 0.2]), leaf(1.0)], ["doubled", 0, 100.0], ["chosen", 1, 2, 0], ["sum", 3], ["backward", 4]
            ),
        ],
    }
    cases = [Case(name, {"programs": programs}) for name, programs in fixed.items()]
    cases.append(Case("nothing to record", {"programs": [], "constants": list(OPERATIONS)}))
    drawn = [[random_program(random) for _ in range(8)] for _ in range(3)]
    return cases + [Case(f"random {number}", {"programs": programs}) for number, programs in enumerate(drawn)]


SHAPES = ((), (3,), (2, 3), (2, 1), (1, 3), (3, 3), (3, 1))


def random_program(random: Random) -> dict[str, Any]:
    """Two to four values of small shapes, five to twelve operations on them, and one or two calls of `backward`."""

    def numbers(shape: tuple[int, ...]) -> Any:
        return [numbers(shape[1:]) for _ in range(shape[0])] if shape else round(random.uniform(-1.5, 1.5), 3)

    shapes: list[tuple[int, ...]] = [random.choice(SHAPES) for _ in range(random.randint(2, 4))]
    leaves = [leaf(numbers(shape), random.random() < 0.8) for shape in shapes]
    leaves[0]["needs_gradient"] = True
    steps: list[Step] = []
    for _ in range(random.randint(5, 12)):
        step = _random_step(random, shapes)
        steps.append(step)
        shapes.append(_shape(step, shapes))
    last = len(shapes) - 1
    shapes.append(())
    steps += [["sum", last], ["backward", last + 1]]
    if random.random() < 0.4:
        other = random.randrange(len(leaves), last + 1)
        steps += [["sum", other], ["backward", last + 2]]
    given = program(leaves, *steps)
    # Numbers that grew too much would make rounding decide.
    return given if _tame(given) else random_program(random)


def _random_step(random: Random, shapes: list[tuple[int, ...]]) -> Step:
    numbers = range(len(shapes))
    # Late values are chosen more often, so that programs are deep and not only wide.
    one = max(random.choice(numbers), random.choice(numbers))
    name = random.choice(["add", "mul", "mul", "matmul", "neg", "relu", "tanh", "sum", "chosen", "doubled"])
    if name == "matmul":
        pairs = [(a, b) for a in numbers for b in numbers if _fit_for_product(shapes[a], shapes[b])]
        if pairs:
            return ["matmul", *random.choice(pairs)]
        name = "tanh"
    if name in ("add", "mul"):
        others = [other for other in numbers if _together(shapes[one], shapes[other]) is not None]
        return random.choice([[name, one, random.choice(others)], [name, random.choice(others), one]])
    if name == "chosen":
        others = [other for other in numbers if shapes[other] == shapes[one]]
        return ["chosen", random.choice(numbers), one, random.choice(others)]
    if name == "doubled":
        return ["doubled", one, round(random.uniform(0.1, 3), 2)]
    return [name, one]


def _fit_for_product(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return len(a) == len(b) == 2 and a[1] == b[0]


def _together(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    try:
        return tuple(torch.broadcast_shapes(a, b))
    except RuntimeError:
        return None


def _shape(step: Step, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    name, *numbers = step
    if name in ("add", "mul"):
        found = _together(shapes[numbers[0]], shapes[numbers[1]])
        assert found is not None
        return found
    if name == "matmul":
        return (shapes[numbers[0]][0], shapes[numbers[1]][1])
    return () if name == "sum" else shapes[numbers[1 if name == "chosen" else 0]]


def _tame(given: dict[str, Any]) -> bool:
    right = by_pytorch(given)
    arrays = [one for one in right["data"] + right["gradients"] if one is not None]
    numbers = [abs(number) for one in arrays for number in one["numbers"]]
    return "done" in right["asked"] and all(math.isfinite(number) and number < 1e5 for number in numbers)


def _as_json(tensor: torch.Tensor | None) -> dict[str, Any] | None:
    if tensor is None:
        return None
    return {"shape": list(tensor.shape), "numbers": tensor.detach().reshape(-1).tolist()}


def by_pytorch(given: dict[str, Any]) -> dict[str, Any]:
    """What a program comes to in PyTorch: data, gradients, and whether gradients can be asked for."""
    found: dict[str, Any] = json.loads(_by_pytorch(json.dumps(given)))
    return found


@lru_cache(maxsize=1024)
def _by_pytorch(program: str) -> str:
    given = json.loads(program)
    values: list[torch.Tensor] = []
    asked = []

    def make(data: Any, needs: bool) -> torch.Tensor:
        return torch.tensor(data, dtype=torch.float64, requires_grad=needs)

    for one in run(given, make, lambda value: float(value.detach().sum())):
        if not isinstance(one, int):
            values.append(one)
            continue
        possible = values[one].requires_grad and values[one].numel() == 1
        if possible:
            values[one].reshape(()).backward(retain_graph=True)
        asked.append("done" if possible else "refused")
    leaves = len(given["leaves"])
    return json.dumps(
        {
            "data": [_as_json(value) for value in values],
            "dtypes": [str(value.dtype).removeprefix("torch.") for value in values],
            "needs_gradient": [value.requires_grad for value in values],
            "gradients": [_as_json(value.grad) if number < leaves else None for number, value in enumerate(values)],
            "asked": asked,
        }
    )


def close(found: dict[str, Any] | None, wanted: dict[str, Any] | None) -> bool:
    """Whether two arrays agree to nine digits."""
    if found is None or wanted is None:
        return found is wanted
    if found["shape"] != wanted["shape"]:
        return False
    pairs = zip(found["numbers"], wanted["numbers"], strict=True)
    return all(math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-9) for one, other in pairs)


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """The misconception behind the first program that came out otherwise than in PyTorch."""
    if evidence.values["kept"]:
        yield "keeps constants", f"({', '.join(evidence.values['kept'])})"
    wrong = False
    for given, found in zip(case.parameters["programs"], evidence.values["runs"], strict=True):
        difference = _difference(given, found, by_pytorch(given))
        if difference is not None:
            wrong = True
            yield difference
            break
    if not wrong and evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"


def _difference(given: dict[str, Any], found: dict[str, Any], wanted: dict[str, Any]) -> tuple[str, str] | None:
    for number, (one, right) in enumerate(zip(found["data"], wanted["data"], strict=True)):
        if not close(one, right):
            return "wrong data", f"(value {number}: found {in_words(one)}, wanted {in_words(right)})"
    for number, dtype in enumerate(found["dtypes"]):
        if not dtype.startswith("float"):
            return "wrong data", f"(value {number}: found an array of {dtype}, wanted floats)"
    for number, (flag, right) in enumerate(zip(found["needs_gradient"], wanted["needs_gradient"], strict=True)):
        if flag != right:
            return "wrong flag", f"(value {number}: found {flag}, wanted {right})"
    for said, right in zip(found["asked"], wanted["asked"], strict=True):
        if said.partition(":")[0] != right:
            name = {"done": "not refused", "refused": "refused"}.get(said.partition(":")[0], said)
            return name, f"({said})" if name == "refused" else ""
    for number, (one, right) in enumerate(zip(found["gradients"], wanted["gradients"], strict=True)):
        if not close(one, right):
            return _named(given, found["gradients"], one, right), (
                f"(gradient of value {number}: found {in_words(one)}, wanted {in_words(right)})"
            )
    return None


def _named(
    given: dict[str, Any], all_found: list[Any], one: dict[str, Any] | None, right: dict[str, Any] | None
) -> str:
    if right is None:
        return "gradients inside"
    for flaw in FLAWS:
        made = by_model(given, flaw)
        if made is not None and all(close(found, other) for found, other in zip(all_found, made, strict=True)):
            return flaw
    if one is None:
        return "no gradient"
    return "wrong shape" if one["shape"] != right["shape"] else "wrong gradient"
