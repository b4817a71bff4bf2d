"""The learner's side: programs that register kernels and call operators, the probe and what the check shows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from autograder.exchange.evidence import Case, Evidence
from autograder.learner_side.probing import torch_calls

FALLTHROUGH = "fallthrough"
"""What is registered where there is nothing to do for a key."""

FALLBACKS = {"BackendSelect": FALLTHROUGH, "ADInplaceOrView": FALLTHROUGH, "AutocastCPU": FALLTHROUGH}
"""Keys that every operator falls through, unless it has a kernel of its own."""

PASSES_ON = ("AutogradCPU", "AutogradCUDA")
"""Keys for which the fallback goes on below autograd."""

START = -1
"""The value of each call. What comes of it is 0, which is a value like any other."""

COUNTS = 1
"""What a kernel that computes adds to its value."""

LONGEST = 300
"""Characters of an error's message that become evidence."""

LONGEST_LOG = 20
"""Kernels of a call that become evidence; the longest right walk is half of it."""

Step = list[Any]
"""`["register", operator, key, name, does]`, where `does` is `["compute"]`, `["below", functionality]`,
`["below within", functionality, excluded, included]`,
`["calls", operator, excluded, included]`, `["calls twice", operator, excluded, included]` (within these blocks, and
again after them), `["fails", excluded, included]` or `["fallthrough"]`;
`["fallback", key]`, which enters the fallback for one of `PASSES_ON` then and not before;
`["fallback", key, name, does]`, which enters another one; or
`["call", operator, key sets, blocks]`, where a block is `["including", functionality]` or `["excluding", …]`."""

PLAIN = ["CPU", "Dense", "ADInplaceOrView", "Autograd", "AutocastCPU"]
"""Keys of an ordinary tensor."""


def register(operator: str, key: str, *does: Any) -> Step:
    """A step that registers a kernel, whose name says where."""
    return ["register", operator, key, f"{operator}/{key}", list(does) or ["compute"]]


def call(operator: str, *keysets: list[str], blocks: list[list[str]] | None = None) -> Step:
    """A step that calls an operator with arguments of these keys."""
    return ["call", operator, [list(keys) for keys in keysets], blocks or []]


def visible_cases() -> list[Case]:
    """Key sets, a walk from autograd to the processor, composite kernels, and a key that nobody serves."""
    return [
        Case(
            "key sets",
            {
                "keysets": [
                    ["Dense", "CPU"],
                    ["Dense", "CPU", "Autograd"],
                    ["Sparse", "CPU", "Dense", "CUDA"],
                    ["Dense", "CPU", "Autograd", "AutocastCPU"],
                    ["CPU"],
                ],
                "steps": [],
            },
        ),
        Case(
            "walking down",
            {
                "keysets": [],
                "steps": [
                    register("shout", "CPU"),
                    register("shout", "Autograd", "below", "Autograd"),
                    call("shout", PLAIN),
                    call("shout", PLAIN, blocks=[["excluding", "Autograd"]]),
                    call("shout", ["CPU", "Dense"], ["CPU", "Sparse"]),
                    register("shout", "ADInplaceOrView", "below", "ADInplaceOrView"),
                    call("shout", PLAIN),
                    call("shout", PLAIN, blocks=[["excluding", "Autograd"]]),
                    register("quiet", "CPU"),
                    call("quiet", PLAIN),
                ],
            },
        ),
        Case(
            "composite",
            {
                "keysets": [],
                "steps": [
                    register("inner", "CPU"),
                    register("open", "CompositeImplicitAutograd", "calls", "inner", [], []),
                    register("whole", "CompositeExplicitAutograd", "calls", "inner", [], []),
                    register("whole", "Autograd", "below", "Autograd"),
                    call("open", PLAIN),
                    call("whole", PLAIN),
                    register("open", "CPU"),
                    call("open", PLAIN),
                    call("open", PLAIN, blocks=[["excluding", "Autograd"]]),
                    call(
                        "open",
                        PLAIN,
                        blocks=[["excluding", key] for key in ("Autograd", "ADInplaceOrView", "BackendSelect")],
                    ),
                    register("late", "CompositeImplicitAutograd", "calls", "inner", [], []),
                    register("late", "CPU"),
                    call("late", PLAIN),
                ],
            },
        ),
    ]


def probe(case: Case, dispatcher: Any, runtime_key: Any, below: Any) -> Evidence:
    """Ask for the key of each key set, and run the steps."""
    with torch_calls() as called:
        keys = [_word(runtime_key(frozenset(keys))) for keys in case.parameters["keysets"]]
        runs = _run(case.parameters["steps"], dispatcher, below)
    return Evidence({"keys": keys, "runs": runs, "torch_calls": called[:3]})


def _word(found: Any) -> str | None:
    return found[:LONGEST] if isinstance(found, str) else None


class _FailedError(Exception):
    """What a kernel of a program raises."""


def _run(steps: list[Step], dispatcher_class: Any, below: Any) -> list[dict[str, Any]]:
    dispatcher = dispatcher_class()
    log: list[tuple[str, Any]] = []
    given: list[frozenset[str]] = []
    for key, kernel in FALLBACKS.items():
        dispatcher.register_fallback(key, kernel)

    def passes_on(operator: str, keys: Any, value: Any) -> Any:
        return dispatcher.redispatch(operator, below(keys, "Autograd"), value)

    for key in PASSES_ON:
        if ["fallback", key] not in steps:
            dispatcher.register_fallback(key, passes_on)
    runs = []
    for kind, operator, *rest in steps:
        if kind == "fallback":
            dispatcher.register_fallback(operator, _kernel(dispatcher, below, log, given, *rest) if rest else passes_on)
            continue
        if kind == "register":
            key, name, does = rest
            dispatcher.register(operator, key, _kernel(dispatcher, below, log, given, name, does))
            continue
        keysets, blocks = rest
        log.clear()
        given[:] = [frozenset(keys) for keys in keysets]
        with ExitStack() as stack:
            for block, functionality in blocks:
                stack.enter_context(getattr(dispatcher, block)(functionality))
            end = _outcome(partial(dispatcher.call, operator, list(given), START))
            ran = log[:LONGEST_LOG]
            runs.append({**end, "log": [name for name, _ in ran], "keys": [_sorted(keys) for _, keys in ran]})
    return runs


def _sorted(keys: Any) -> list[str] | None:
    if not isinstance(keys, (set, frozenset, list, tuple)) or not all(isinstance(key, str) for key in keys):
        return None
    return sorted(key[:LONGEST] for key in keys)


def _outcome(question: Callable[[], Any]) -> dict[str, Any]:
    try:
        found = question()
    except _FailedError:
        return {"failed": True}
    except RecursionError:
        return {"endless": True}
    except NotImplementedError as error:
        return {"missing": str(error)[:LONGEST]}
    return {"value": found if isinstance(found, int) and not isinstance(found, bool) else None}


def _kernel(
    dispatcher: Any, below: Any, log: list[tuple[str, Any]], given: list[frozenset[str]], name: str, does: list[Any]
) -> Callable[..., Any] | str:
    if does == [FALLTHROUGH]:
        return FALLTHROUGH

    def run(operator: str, keys: Any, value: Any) -> Any:
        log.append((name, keys))
        kind, *rest = does
        if kind == "compute":
            return value + COUNTS
        if kind == "below":
            return dispatcher.redispatch(operator, below(keys, *rest), value)
        *other, excluded, included = rest
        with ExitStack() as stack:
            for functionality in excluded:
                stack.enter_context(dispatcher.excluding(functionality))
            for functionality in included:
                stack.enter_context(dispatcher.including(functionality))
            if kind == "fails":
                raise _FailedError
            if kind == "below within":
                return dispatcher.redispatch(operator, below(keys, other[0]), value)
            found = dispatcher.call(other[0], list(given), value)
        return dispatcher.call(other[0], list(given), value) if kind == "calls twice" else found

    return run


def show(case: Case, evidence: Evidence) -> list[Any]:
    """What was registered and, of each call, which kernels ran, in order."""
    lines = [f"{case.name}: what your dispatcher did"]
    for keys, found in zip(case.parameters["keysets"], evidence.values["keys"], strict=True):
        lines.append(f"  the keys {{{', '.join(keys)}}} lead to {found}")
    runs = iter(evidence.values["runs"])
    if case.parameters["steps"]:
        lines.append(f"  (a plain tensor has {{{', '.join(PLAIN)}}})")
    for kind, *step in case.parameters["steps"]:
        if kind != "call":
            what = f"a kernel for {step[1]} of {step[0]}" if kind == "register" else f"a fallback for {step[0]}"
            lines.append(f"  {what}")
            continue
        operator, keysets, blocks = step
        tensors = " and ".join("a plain tensor" if keys == PLAIN else f"{{{', '.join(keys)}}}" for keys in keysets)
        within = "".join(f", {block} {functionality}" for block, functionality in blocks)
        found = next(runs)
        end = f", then: {found['missing']}" if "missing" in found else " …" if "endless" in found else ""
        lines.append(f"  {operator} ({tensors}{within}): {' → '.join(found['log']) or 'no kernel'}{end}")
    return ["\n".join(lines)]
