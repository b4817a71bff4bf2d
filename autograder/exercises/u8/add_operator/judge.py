"""Entries as torchgen reads them, and results against the formula in double precision."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import torch
from torchgen.model import DispatchKey, NativeFunction, NativeFunctionsGroup, Variant

from autograder.exchange.evidence import Case, Evidence, agrees
from autograder.exercises.u8.add_operator.visible import MARK, call, positive
from autograder.exercises.u8.tensors import LAYOUTS, described, made
from fxopt_workbench.internals.mirror import BuildError, Operators, like_tensor_iterator, read_operators

KERNEL = "softcap_out"

SCHEMAS = {
    "softcap": "softcap(Tensor self, Tensor cap) -> Tensor",
    "softcap_": "softcap_(Tensor(a!) self, Tensor cap) -> Tensor(a!)",
    "softcap.out": "softcap.out(Tensor self, Tensor cap, *, Tensor(a!) out) -> Tensor(a!)",
}

MISCONCEPTIONS = {
    "refused": "`torchgen` refuses the entries. It says which line it means, and what it expected.",
    "variant missing": (
        "An operator has up to three variants: `softcap`, `softcap_`, which writes into its first argument, and "
        "`softcap.out`, which writes into `out`. One of them has no entry."
    ),
    "not marked as written": (
        "An argument that is written to must say so: `Tensor(a!)`, on the argument and on the return value, for they "
        "are the same tensor. Without it compilers believe that the tensor stays as it was."
    ),
    "other schema": "One of the signatures is another one than the task asks for.",
    "not structured": (
        "The variants have kernels of their own. Let `softcap.out` be `structured: True`, and let the other two "
        "delegate to it: then one kernel serves all three, and `meta` comes for free."
    ),
    "no shape function": (
        "A structured kernel needs to know shape and dtype of the result beforehand. For element-wise operators "
        "`structured_inherits: TensorIteratorBase` brings that along."
    ),
    "backend missing": "`softcap.out` needs a line under `dispatch:` for CPU and for CUDA.",
    "other kernel": "The linker looks for the kernel by the name that stands under `dispatch:`: `softcap_out`.",
    "no method": (
        "`x.softcap(cap)` or `x.softcap_(cap)` does not exist. Unless an entry says `variants: function, method`, "
        "there is only the function."
    ),
    "no function": (
        "`torch.softcap` or `torch.softcap_` does not exist: `variants: method` leaves only the method. Say "
        "`variants: function, method`."
    ),
    "not tagged": (
        "`softcap` lacks the tag `pointwise`. By it Inductor, vmap and the tests know that elements don't "
        "depend on their neighbours."
    ),
    "nothing written": (
        "`out` is as it was before: your kernel computed something, but didn't write it into `out`. What a structured "
        "kernel returns nobody looks at, and `out = …` only gives a new tensor an old name."
    ),
    "input overwritten": "Your kernel writes into one of its arguments. Only `out` is yours.",
    "wrong in place": (
        "Your kernel is right unless `out` *is* its first argument, as for `softcap_`. You write into `out` and read "
        "`self` afterwards, which is gone by then."
    ),
    "overflow": (
        "Far beyond the cap your kernel gives something that is not the cap: an exponential has overflowed. "
        "`torch.tanh` takes care of that."
    ),
    "not quite the cap": (
        "Far beyond the cap your kernel comes near to it and stays below. The quotient is cut off at a number whose "
        "`tanh` is not 1 in double precision."
    ),
    "digits lost near zero": (
        "Near zero the result is almost `self`, and yours has lost its digits: the difference of two numbers that are "
        "nearly equal keeps only what rounding left of them. `torch.tanh` takes care of that."
    ),
    "single precision for all": (
        "In double precision your result has the digits of single precision. Only half precision is widened to it: "
        "`torch.promote_types(out.dtype, torch.float32)`."
    ),
    "precision of one argument": (
        "Your kernel calculates in the precision that one of its arguments has. Both decide together: whole numbers "
        "with a cap in double precision give a result in double precision. `out` has the dtype that came of it: "
        "`torch.promote_types(out.dtype, torch.float32)`."
    ),
    "rounded at each step": (
        "In half precision your kernel rounds after each operator, and the mistakes add up. PyTorch's kernels compute "
        "in single precision (look for `opmath_t` in the headers) and round once, at the end."
    ),
    "not broadcast": "Your kernel is right only when both arguments have the same shape.",
    "kernel raised": "Your kernel raises where it should compute.",
    "other shape or dtype": "`out` has another shape or dtype than before: a kernel fills what it is given.",
    "wrong values": "The kernel does not compute `cap * tanh(self / cap)`.",
}


def hidden_cases(random: Random) -> list[Case]:
    """Broadcasting both ways, layouts, dtypes, sizes; then calls that are drawn."""

    def seed() -> int:
        return random.randrange(10**6)

    def one(variant: str, shape: list[int], cap: list[int], out: list[int] | None = None, **more: Any) -> Any:
        dtype = {key: more.pop(key) for key in ("dtype",) if key in more}
        x = described(shape, seed(), **({"scale": 5.0} | dtype | more))
        return call(variant, x, positive(cap, seed(), **dtype), out)

    def mixed(x: str, cap: str, *, shape: int = 64, caps: int | None = 64, variant: str = "functional") -> Any:
        """A call whose arguments have two dtypes."""
        given = described([shape], seed(), scale=5.0, dtype=x)
        return call(variant, given, positive([] if caps is None else [caps], seed(), dtype=cap), [shape])

    fixed = {
        "in place": [one("inplace", [3, 4], [4], scale=8.0, layout="transposed")],
        "out of another size": [one("out", [2, 5], [], [0])],
        "cap is larger": [one("functional", [4, 1], [2, 1, 3])],
        "half precision": [one("functional", [256], [], dtype="bfloat16")],
        # A tensor without dimensions does not widen what it meets.
        "one number, many caps": [one("functional", [], [256], dtype="bfloat16")],
        "other half precision": [one("inplace", [256], [256], dtype="float16")],
        "whole numbers": [one("functional", [2, 3], [3], dtype="int64")],
        "no elements": [one("functional", [0, 3], [3]), one("functional", [], [])],
        "far beyond": [one("inplace", [7], [], scale=1e5, dtype="float64")],
        "near zero": [one("functional", [7], [7], scale=1e-6), one("functional", [2, 3], [], dtype="float64")],
        # What is calculated in is the dtype of the result, which is none of the arguments' alone.
        "two dtypes": [
            mixed(*random.choice([("int64", "float64"), ("int32", "float64"), ("bool", "float64")])),
            mixed("float32", "float64"),
            mixed("float64", "float32"),
            mixed("float64", random.choice(["bfloat16", "float16"]), variant="inplace"),
            mixed("float64", random.choice(["int64", "float32"]), variant="inplace"),
            mixed(*random.choice([("float32", "float64"), ("int64", "float64")]), variant="out"),
        ],
        "two dtypes, one in half precision": [
            mixed("float16", "bfloat16"),
            mixed("bfloat16", "float32"),
            mixed("float32", "float16"),
            mixed("int64", "bfloat16", shape=256, caps=256),
            mixed("bfloat16", "float64", shape=256, caps=None),
        ],
    }
    cases = [Case(name, {"calls": calls}) for name, calls in fixed.items()]
    for number in range(2):
        drawn = []
        for _ in range(4):
            shape = [random.randint(1, 4) for _ in range(random.randint(0, 3))]
            cap = [random.choice([1, size]) for size in shape[random.randint(0, len(shape)) :]]
            variant = random.choice(["functional", "inplace", "out"])
            more = {"layout": random.choice(LAYOUTS), "dtype": random.choice(["float32", "float64"])}
            drawn.append(one(variant, shape, cap, shape, **more))
        cases.append(Case(f"drawn {number}", {"calls": drawn}))
    return cases


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str]]:
    """What is wrong with the entries; otherwise what is wrong with the first call that went wrong."""
    try:
        operators = read_operators(evidence.values["entries"])
    except BuildError as error:
        yield "refused", f"({error})"
        return
    found = of_entries(operators)
    if found is not None:
        yield found
        return
    for number, given in enumerate(case.parameters["calls"]):
        name = _difference(given, evidence, number)
        if name is not None:
            what = f"({given['variant']}, {given['x']['shape']} and {given['cap']['shape']}, {given['x']['dtype']})"
            yield name, what
            return


def of_entries(operators: Operators) -> tuple[str, str] | None:
    """The first thing that is wrong with entries which torchgen accepts."""
    by_name = {str(one.func.name): one for one in operators.functions}
    for name, schema in SCHEMAS.items():
        if name not in by_name:
            return "variant missing", f"({name})"
        if str(by_name[name].func) != schema:
            told = str(by_name[name].func)
            same = _unmarked(told) == _unmarked(schema)
            return ("not marked as written" if same else "other schema"), f"({told})"
    group = next(
        (
            one
            for one in operators.groups
            if isinstance(one, NativeFunctionsGroup) and str(one.functional.func.name) == "softcap"
        ),
        None,
    )
    if group is None or not group.structured or group.inplace is None or not _delegates(group.inplace):
        return "not structured", ""
    if group.out.structured_inherits != "TensorIteratorBase":
        return "no shape function", ""
    for key in (DispatchKey.CPU, DispatchKey.CUDA):
        kernel = operators.indices[key].get_kernel(group.out)
        if kernel is None:
            return "backend missing", f"({key})"
        if kernel.kernel != KERNEL:
            return "other kernel", f"({kernel.kernel} for {key})"
    for one in (group.functional, group.inplace):
        for variant, name in ((Variant.method, "no method"), (Variant.function, "no function")):
            if variant not in one.variants:
                return name, f"({one.func.name})"
    return None if "pointwise" in group.functional.tags else ("not tagged", "")


def _delegates(one: NativeFunction) -> bool:
    return one.structured_delegate is not None


def _unmarked(schema: str) -> str:
    return schema.replace("(a!)", "").replace("(a)", "")


def exactly(x: torch.Tensor, cap: torch.Tensor) -> torch.Tensor:
    """The result, computed in double precision and rounded once."""
    _, dtype = like_tensor_iterator(x, cap)
    return (cap.double() * torch.tanh(x.double() / cap.double())).to(dtype)


def _difference(given: dict[str, Any], evidence: Evidence, number: int) -> str | None:
    x, cap = made(given["x"]), made(given["cap"])
    wanted = exactly(x, cap)
    if evidence.values["raised"][number] is not None:
        return "not broadcast" if x.shape != cap.shape and cap.dim() and x.dim() else "kernel raised"
    result = evidence.tensors.get(f"{number} result")
    left = [("cap", cap)] if given["variant"] == "inplace" else [("x", x), ("cap", cap)]
    if any(not agrees(evidence.tensors.get(f"{number} {name}"), one) for name, one in left):
        return "input overwritten"
    if result is None or result.shape != wanted.shape or result.dtype != wanted.dtype:
        return "other shape or dtype"
    if given["variant"] == "inplace":
        unchanged = torch.equal(result, x)
        mine = evidence.tensors.get(f"{number} x")
        if mine is None or not torch.equal(mine.nan_to_num(), result.nan_to_num()):
            return "other shape or dtype"
    else:
        unchanged = bool(((result == MARK) | result.isnan()).all())
    if wanted.numel() and unchanged and not torch.equal(result, wanted):
        return "nothing written"
    half = wanted.dtype in (torch.bfloat16, torch.float16)
    if half:
        near = agrees(result, wanted, relative=3e-2, absolute=1e-2)
        # Rounding once, from single or from double precision, differs in an element now and then.
        if near and float((result != wanted).double().mean()) > 0.05:
            return "rounded at each step"
        if near:
            return None
    elif agrees(result, wanted, relative=_DIGITS[wanted.dtype], absolute=1e-30):
        return None
    relative, absolute = (3e-2, 1e-2) if half else (_DIGITS[wanted.dtype], 1e-30)
    if agrees(evidence.tensors.get(f"{number} beside"), wanted, relative=relative, absolute=absolute):
        return "wrong in place"
    return _kind_of(x, cap, result, wanted)


_DIGITS = {torch.float32: 1e-5, torch.float64: 1e-10}
"""How far a result may be from the right one, relative to it."""


def _kind_of(x: torch.Tensor, cap: torch.Tensor, result: torch.Tensor, wanted: torch.Tensor) -> str:
    quotient = (x.double() / cap.double()).abs()
    wrong = ~torch.isclose(result.double(), wanted.double(), rtol=_DIGITS.get(wanted.dtype, 1e-2), atol=0.0)
    if bool((quotient[wrong] > 20).all()) and not bool(torch.isfinite(result[wrong]).any()):
        return "overflow"
    if bool((quotient[wrong] < 1e-2).all()) and agrees(result, wanted, relative=0.0, absolute=1e-6):
        return "digits lost near zero"
    if agrees(result, wanted, relative=1e-5, absolute=1e-6):
        if torch.equal(result, result.float().to(result.dtype)):
            return "single precision for all" if x.dtype == cap.dtype else "precision of one argument"
        return "not quite the cap" if bool((quotient[wrong] > 5).all()) else "wrong values"
    if x.dtype != cap.dtype and agrees(result, wanted, relative=3e-2, absolute=1e-2):
        return "precision of one argument"
    return "wrong values"
