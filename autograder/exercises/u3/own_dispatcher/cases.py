"""Programs that register kernels and call operators: one for each rule that is easily forgotten, and random ones."""

from __future__ import annotations

from random import Random
from typing import Any

from autograder.exchange.evidence import Case
from autograder.exercises.u3.own_dispatcher.visible import PLAIN, Step, call, register


def hidden_cases(random: Random) -> list[Case]:
    """One case for each rule that is easily forgotten, then random programs."""
    explicit, implicit = "CompositeExplicitAutograd", "CompositeImplicitAutograd"
    cuda = ["CUDA", "Dense", "ADInplaceOrView", "Autograd"]
    sparse = ["CPU", "Sparse", "ADInplaceOrView", "Autograd", "AutocastCPU"]
    inner = register("inner", "CPU")
    fixed: dict[str, list[Step]] = {
        "all arguments": [
            register("f", "CPU"),
            register("f", "CUDA"),
            register("f", "SparseCUDA"),
            register("f", "Autograd", "below", "Autograd"),
            call("f", PLAIN, cuda),
            call("f", cuda, PLAIN),
            call("f", PLAIN, PLAIN, sparse, cuda),
            call("f", ["CPU", "Dense"], PLAIN),
        ],
        "the thread's sets": [
            register("f", "CPU"),
            register("f", "AutocastCPU", "calls", "g", ["AutocastCPU"], []),
            register("f", "BackendSelect", "below", "BackendSelect"),
            register("g", "CPU"),
            register("g", "AutocastCPU", "below", "AutocastCPU"),
            register("g", "ADInplaceOrView", "below", "ADInplaceOrView"),
            call("f", PLAIN),
            call("f", PLAIN, blocks=[["including", "AutocastCPU"]]),
            call("g", ["CPU", "Dense"]),
            call("g", ["CPU", "Dense"], blocks=[["excluding", "ADInplaceOrView"], ["including", "ADInplaceOrView"]]),
            call("g", ["CPU", "Dense"], blocks=[["including", "Autograd"]]),
        ],
        "blocks end": [
            register("f", "CPU"),
            register("f", "Autograd", "below", "Autograd"),
            register("raises", "Autograd", "fails", ["Autograd", "ADInplaceOrView"], ["Sparse"]),
            register("h", implicit, "calls", "f", ["Autograd"], []),
            call("f", PLAIN, blocks=[["excluding", "Autograd"]]),
            call("f", PLAIN),
            call("raises", PLAIN),
            call("f", PLAIN),
            call("h", PLAIN, blocks=[["excluding", "Autograd"]]),
            call("h", PLAIN),
            call("f", PLAIN, blocks=[["excluding", "Autograd"], ["excluding", "Autograd"]]),
            call("f", PLAIN),
        ],
        "precedence": [
            inner,
            register("f", explicit),
            register("f", implicit, "calls", "inner", [], []),
            register("f", "Autograd", "below", "Autograd"),
            call("f", PLAIN),
            call("f", PLAIN, blocks=[["excluding", "Autograd"]]),
            register("g", implicit, "calls", "inner", [], []),
            register("g", "Autograd", "below", "Autograd"),
            call("g", PLAIN),
            register("open", implicit, "calls", "inner", [], []),
            register("open", "ADInplaceOrView", "below", "ADInplaceOrView"),
            call("open", PLAIN),
            register("k", explicit),
            register("k", "CPU"),
            call("k", PLAIN),
            call("k", cuda),
        ],
        "composite and a kernel": [
            inner,
            register("inner", "CUDA"),
            register("f", implicit, "calls", "inner", [], []),
            register("f", "ADInplaceOrView", "below", "ADInplaceOrView"),
            call("f", PLAIN),
            register("f", "SparseCPU"),
            call("f", PLAIN),
            call("f", sparse),
            register("g", implicit, "calls", "inner", [], []),
            register("g", "ADInplaceOrView", "below", "ADInplaceOrView"),
            register("g", "CPU"),
            call("g", PLAIN),
            call("g", cuda),
            call("g", PLAIN, cuda),
        ],
        "keys without backend": [
            inner,
            register("f", implicit, "calls", "inner", [], []),
            register("f", "AutocastCPU", "below", "AutocastCPU"),
            register("g", explicit),
            register("g", "CPU"),
            call("f", PLAIN, blocks=[["including", "AutocastCPU"]]),
            call("g", ["CPU"]),
            call("g", PLAIN),
            call("f", [], blocks=[["excluding", "ADInplaceOrView"]]),
            # No arguments at all: what makes a tensor begins with the keys that the thread includes.
            register("make", "BackendSelect"),
            call("make"),
        ],
        "nothing there": [
            register("f", "CUDA"),
            register("f", "Autograd", "below", "Autograd"),
            call("f", sparse),
            call("f", PLAIN),
            call("f", ["CPU"]),
            call("lonely", PLAIN),
            register("lonely", "AutocastCPU", "below", "AutocastCPU"),
            call("lonely", cuda),
        ],
        "fallthrough": [
            register("f", "Autograd", "fallthrough"),
            register("f", "CPU"),
            register("f", "BackendSelect", "below", "BackendSelect"),
            call("f", PLAIN),
            register("g", "AutogradCPU", "fallthrough"),
            register("g", "Autograd", "below", "Autograd"),
            register("g", explicit),
            call("g", PLAIN),
            call("g", cuda),
            register("h", "AutogradCUDA", "fallthrough"),
            register("h", "Autograd", "below", "Autograd"),
            register("h", explicit),
            call("h", PLAIN),
            call("h", cuda),
            call("h", PLAIN, cuda),
            register("k", explicit, "fallthrough"),
            register("k", "CPU"),
            call("k", PLAIN),
        ],
        "included by the thread": [
            register("f", "CPU"),
            register("f", "Autograd", "below", "Autograd"),
            call("f", ["CPU", "Dense"]),
            call("f", ["CPU", "Dense"], blocks=[["including", "Autograd"]]),
            call("f", ["CPU", "Dense"]),
            call("f", ["CPU", "Dense"], blocks=[["including", "Autograd"], ["including", "Autograd"]]),
        ],
        "redispatch within a block": [
            register("f", "CPU"),
            register("f", "ADInplaceOrView", "below", "ADInplaceOrView"),
            register("f", "Autograd", "below within", "Autograd", ["ADInplaceOrView"], []),
            call("f", PLAIN),
            register("g", "CPU"),
            register("g", "ADInplaceOrView", "below within", "ADInplaceOrView", [], ["Autograd"]),
            register("g", "Autograd", "below", "Autograd"),
            call("g", PLAIN),
        ],
        "registered later": [
            inner,
            register("f", implicit, "calls", "inner", [], []),
            call("f", PLAIN),
            register("f", "CPU"),
            call("f", PLAIN),
            register("f", "Autograd", "below", "Autograd"),
            call("f", PLAIN),
            register("f", "ADInplaceOrView", "below", "ADInplaceOrView"),
            call("f", PLAIN),
        ],
        "below what is not there": [
            register("f", "CPU"),
            register("f", "Autograd", "below", "ADInplaceOrView"),
            call("f", PLAIN, blocks=[["excluding", "ADInplaceOrView"]]),
            call("f", PLAIN),
        ],
        "fallbacks for other keys": [
            register("f", "CPU"),
            fallback("SparseCPU", "compute"),
            fallback("Undefined", "compute"),
            fallback("ADInplaceOrView", "below", "ADInplaceOrView"),
            call("f", sparse),
            call("f", ["CPU"]),
            call("f", PLAIN),
        ],
        "registered anew": [
            register("f", "CPU"),
            fallback("SparseCPU", "compute"),
            fallback("ADInplaceOrView", "below", "ADInplaceOrView"),
            call("f", PLAIN),
            call("f", sparse),
            ["register", "f", "CPU", "f/CPU, the second one", ["compute"]],
            ["fallback", "SparseCPU", "the second fallback", ["compute"]],
            fallback("ADInplaceOrView", "fallthrough"),
            call("f", PLAIN),
            call("f", sparse),
        ],
        "fallbacks anew": _fallbacks_anew(random),
        "blocks within blocks": [
            register("f", "CPU"),
            register("f", "AutocastCPU", "below", "AutocastCPU"),
            register("f", "ADInplaceOrView", "below", "ADInplaceOrView"),
            register("f", "Autograd", "below", "Autograd"),
            # What the thread has from the start, it has afterwards.
            call("f", PLAIN, blocks=[["excluding", "AutocastCPU"]]),
            call("f", PLAIN),
            call("f", ["CPU", "Dense"], blocks=[["including", "ADInplaceOrView"]]),
            call("f", ["CPU", "Dense"]),
            *_again_after_a_block(random, "Autograd", "Autograd"),
            *_again_after_a_block(random, "Autograd", "ADInplaceOrView"),
            *_again_after_a_block(random, "ADInplaceOrView", "Autograd"),
        ],
        "a fallback later": [
            register("f", "CPU"),
            call("f", PLAIN),
            ["fallback", "AutogradCPU"],
            call("f", PLAIN),
        ],
    }
    keysets = [
        ["Dense", "CUDA", "CPU"],
        ["Sparse", "Dense", "CPU"],
        ["Sparse", "Dense", "CUDA", "CPU", "Autograd"],
        ["BackendSelect", "Dense", "CPU"],
        ["ADInplaceOrView", "BackendSelect"],
        ["CUDA", "AutocastCPU", "Autograd"],
        ["CUDA"],
        [],
    ]
    cases = [Case("keys", {"keysets": keysets, "steps": []})]
    cases += [Case(name, {"keysets": [], "steps": steps}) for name, steps in fixed.items()]
    drawn = [[step for number in range(4) for step in random_steps(random, number)] for _ in range(4)]
    return cases + [Case(f"random {number}", {"keysets": [], "steps": steps}) for number, steps in enumerate(drawn)]


def fallback(key: str, *does: str) -> Step:
    """A step that enters a fallback, whose name says where."""
    return ["fallback", key, f"fallback/{key}", list(does)]


def _fallbacks_anew(random: Random) -> list[Step]:
    """Calls between which fallbacks are entered and no kernels: no other step makes a table find its entries anew."""
    keysets = {"SparseCPU": ["CPU", "Sparse"], "SparseCUDA": ["CUDA", "Sparse"], "CUDA": ["CUDA", "Dense"]}
    keysets |= {"Undefined": ["CPU"]}
    key = random.choice(sorted(keysets))
    bare = call("f", keysets[key], blocks=[["excluding", "ADInplaceOrView"], ["excluding", "BackendSelect"]])
    steps = [register("f", "CPU"), fallback(key, "compute"), call("f", PLAIN), bare]
    changes: list[list[Step]] = [
        [["fallback", key, f"fallback/{key}, the second one", ["compute"]], bare],
        [fallback("AutogradCPU", "below", "Autograd"), call("f", PLAIN)],
        [fallback("ADInplaceOrView", "below", "ADInplaceOrView"), call("f", PLAIN)],
    ]
    random.shuffle(changes)
    return [
        *steps,
        *(step for change in changes for step in change),
        fallback("ADInplaceOrView", "fallthrough"),
        call("f", PLAIN),
        fallback("AutogradCPU", "fallthrough"),
        call("f", PLAIN),
    ]


def _again_after_a_block(random: Random, outer: str, inner: str) -> list[Step]:
    """A kernel that calls `f` in a block and after it, itself in a block: the outer one goes on as it was."""
    name = f"{outer}_{inner}"
    for_keys = [key for key in PLAIN if key not in ("AutocastCPU", outer)]
    return [
        register(f"excluded_{name}", "CompositeImplicitAutograd", "calls twice", "f", [inner], []),
        call(f"excluded_{name}", PLAIN, blocks=[["excluding", outer]]),
        register(f"included_{name}", "CompositeImplicitAutograd", "calls twice", "f", [], [inner]),
        call(f"included_{name}", random.choice([for_keys, ["CPU", "Dense"]]), blocks=[["including", outer]]),
    ]


def random_steps(random: Random, number: int) -> list[Step]:
    """An operator with random kernels, and six calls of it with random keys."""
    name, inner = f"f{number}", f"inner{number}"
    steps = [register(inner, "CPU"), register(inner, "CUDA"), register(inner, "Autograd", "below", "Autograd")]
    calls = ["calls", inner, random.choice([[], [], ["Autograd"]]), random.choice([[], ["AutocastCPU"]])]
    choices: list[list[Any]] = [[key, "compute"] for key in ("CPU", "CUDA", "SparseCPU", "CompositeExplicitAutograd")]
    choices += [["CompositeImplicitAutograd", *calls], ["AutogradCPU", "below", "Autograd"]]
    choices += [["Autograd", "below", "Autograd"], ["AutocastCPU", "below", "AutocastCPU"]]
    choices += [["ADInplaceOrView", "below", "ADInplaceOrView"], ["BackendSelect", "below", "BackendSelect"]]
    chosen = random.sample(choices, random.randint(2, 5))
    # PyTorch does not renew autograd's entries where the explicit kernel comes after the implicit one: it comes first.
    chosen.sort(key=lambda choice: choice[0] != "CompositeExplicitAutograd")
    *early, late = [register(name, *choice) for choice in chosen]
    return [*steps, *early, *_random_calls(random, name, 3), late, *_random_calls(random, name, 3)]


def _random_calls(random: Random, name: str, most: int) -> list[Step]:
    found = []
    for _ in range(most):
        keysets = []
        for _ in range(random.randint(1, 2)):
            keys = [random.choice(["CPU", "CPU", "CUDA"]), random.choice(["Dense", "Dense", "Sparse"])]
            keys += [key for key in ("ADInplaceOrView", "Autograd", "AutocastCPU") if random.random() < 0.7]
            keysets.append(keys)
        functionality = random.choice(["Autograd", "ADInplaceOrView", "BackendSelect"])
        block = [random.choice(["excluding", "including"]), functionality]
        found.append(call(name, *keysets, blocks=[block] if random.random() < 0.4 else []))
    return found
