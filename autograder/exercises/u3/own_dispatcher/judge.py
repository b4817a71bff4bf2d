"""Which kernels run: asked of PyTorch, which gets the same kernels in a library of its own.

What is right is what PyTorch's dispatcher does. Only to name a mistake there is a small dispatcher beside it, which can
make each of the mistakes: the one that does what the learner's did has its name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any

import torch
from torch._C import DispatchKey, DispatchKeySet
from torch.library import _scoped_library, fallthrough_kernel

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.verdict import Agreement, Deviation
from autograder.exercises.u3.own_dispatcher.cases import hidden_cases
from autograder.exercises.u3.own_dispatcher.model import Model, run_steps
from autograder.exercises.u3.own_dispatcher.visible import COUNTS, START, Step

__all__ = ["MISCONCEPTIONS", "hidden_cases", "judge"]

MISCONCEPTIONS = {
    "asked PyTorch": "Your dispatcher asks PyTorch's. Write down its rules: that is the whole task.",
    "not a key": "`runtime_key` returns the name of a key: a string.",
    "parts not joined": (
        "The highest functionality and the highest backend name the key *together*: Sparse and CUDA, from whichever "
        "arguments they come, make `SparseCUDA`."
    ),
    "no functionality": (
        "Where no functionality is left the key is `Undefined`, even if a backend is left. Composite kernels serve "
        "that key, too."
    ),
    "wrong key": (
        "`runtime_key` named another key than PyTorch: take the highest functionality and the highest backend."
    ),
    "first argument only": "The keys of *all* arguments count. You looked at one of them.",
    "thread sets forgotten": (
        "What the thread includes and excludes was not taken into account: add what it includes to the keys of the "
        "arguments, then take away what it excludes."
    ),
    "include wins": "A key that is included and excluded is excluded: add first, then take away.",
    "not restored after an error": (
        "A kernel raised inside a `with` block, and afterwards the thread's sets were not what they had been before "
        "the block. Put the old set back in `finally`."
    ),
    "not restored to what it was": (
        "At the end of a `with` block the thread's sets must be what they were before it. Blocks can stand inside one "
        "another and name the same functionality: put the old set back, and do not take the functionality out."
    ),
    "exact kernel last": "A kernel registered for exactly this key comes before every alias.",
    "implicit before explicit": (
        "If an operator has both composite kernels, the explicit one fills the entries of backends."
    ),
    "no composite at autograd": (
        "`CompositeImplicitAutograd` fills the autograd entries as well: its kernel runs *instead* of autograd, and "
        "the operators that it calls bring their derivatives."
    ),
    "implicit hides a derivative": (
        "At an autograd key, `CompositeImplicitAutograd` steps back where the backend has a kernel of its own, and "
        "where there is a `CompositeExplicitAutograd`: such an operator is no longer made of others, so autograd must "
        "see it whole."
    ),
    "any kernel counts": (
        "Only a kernel for the *same* backend, dense, keeps the composite kernel out of an autograd entry. One for "
        "sparse tensors, or for another backend, does not."
    ),
    "autograd before implicit": "In an autograd entry, `CompositeImplicitAutograd` comes before `Autograd`.",
    "composite for every key": (
        "A composite kernel fills entries of backends (and of autograd, if it is implicit). For other keys, such as "
        "`AutocastCPU` or `ADInplaceOrView`, it stands aside."
    ),
    "no fallback": "Where the operator has nothing for a key, the fallback for all operators fills the entry.",
    "fallback too early": (
        "A fallback fills what nothing else fills: look for the operator's own kernels and aliases first."
    ),
    "fallthrough ends the walk": (
        "An entry that falls through must not be chosen: take its functionality out of the keys, and choose among the "
        "others."
    ),
    "redispatch starts anew": (
        "`redispatch` takes the keys as they are. The thread's sets were applied when the call began: applied again, "
        "they bring back a key from which the kernel has just gone on."
    ),
    "below keeps its own key": (
        "`below` takes out the functionality itself and everything above it. With its own key still in the set, a "
        "kernel calls itself."
    ),
    "below keeps what is above": (
        "`below` takes out the functionality and everything above it, also where the functionality itself is not "
        "among the keys."
    ),
    "below drops too much": (
        "`below` keeps every lower functionality, and all backends: without a backend no kernel can be found."
    ),
    "old table": (
        "A kernel or a fallback that is registered after a call, or in place of another one, must count from then on: "
        "an entry kept from before is out of date."
    ),
    "nothing there": "Where an entry is empty, raise `NotImplementedError`.",
    "unnamed": "The error must name the operator and the key for which it has no kernel.",
    "other keys": (
        "The right kernels ran, and one of them was given other keys than in PyTorch. It gets those that are left, or "
        "just those that `redispatch` was given."
    ),
    "all keys handed over": (
        "A kernel gets the keys that are left: of the call's keys all but those that fall through."
    ),
    "value lost": "A call returns what the kernel returned.",
    "wrong kernels": "Other kernels ran than in PyTorch, or in another order.",
}

BITS = {
    "Dense": "Dense",
    "Sparse": "Sparse",
    "BackendSelect": "BackendSelect",
    "ADInplaceOrView": "ADInplaceOrView",
    "Autograd": "AutogradFunctionality",
    "AutocastCPU": "AutocastCPU",
}
"""PyTorch's names of the functionalities, from the lowest to the highest."""

_numbers = count()


def bits(names: Any) -> DispatchKeySet:
    """PyTorch's key set of some functionalities and backends."""
    backends = {name: DispatchKeySet(getattr(DispatchKey, name)) for name in ("CPU", "CUDA")}
    dense = DispatchKeySet(DispatchKey.Dense)
    keys = DispatchKeySet(DispatchKey.Undefined)
    for name in names:
        # `-` takes functionalities out and leaves backends.
        keys = keys | (backends[name] - dense if name in backends else DispatchKeySet(getattr(DispatchKey, BITS[name])))
    return keys


def names_in(keys: DispatchKeySet) -> list[str]:
    """Which functionalities and backends are in a key set."""
    return sorted(name for name in (*BITS, "CPU", "CUDA") if bits([name]).raw_repr() & keys.raw_repr())


def by_pytorch(steps: list[Step]) -> list[dict[str, Any]]:
    """What each call does: PyTorch's tables, thread-local sets and redispatch, with kernels that note their names."""
    space = f"fxopt_u3_{next(_numbers)}"
    log: list[tuple[str, list[str]]] = []
    runs: list[dict[str, Any]] = []
    given: list[list[str]] = []
    tensor = torch.ones(1)
    with _scoped_library(space, "DEF") as library:
        for name in dict.fromkeys(step[1] for step in steps):
            library.define(f"{name}(Tensor x) -> Tensor")

        def invoke(operator: str) -> torch.Tensor:
            keys = bits(name for names in given for name in names)
            keys = keys | torch._C._dispatch_tls_local_include_set()
            keys = keys - torch._C._dispatch_tls_local_exclude_set()
            passed = DispatchKeySet(DispatchKey.Undefined)
            for functionality in BITS:
                alone = keys & (bits([functionality]) | bits(["CPU", "CUDA"]))
                key = alone.highestPriorityTypeId()
                falls = key != DispatchKey.Undefined and _falls_through(f"{space}::{operator}", key)
                passed = passed | (alone - bits([functionality]) if falls else alone)
            found: torch.Tensor = getattr(getattr(torch.ops, space), operator).default.redispatch(passed, tensor)
            return found

        def go_on(operator: str, keys: DispatchKeySet, functionality: str, x: torch.Tensor) -> torch.Tensor:
            highest = DispatchKey.AutogradOther if functionality == "Autograd" else getattr(DispatchKey, functionality)
            lower = keys & torch._C._dispatch_keyset_full_after(highest)
            below: torch.Tensor = getattr(getattr(torch.ops, space), operator).default.redispatch(lower, x)
            return below

        def kernel(operator: str, name: str, does: list[Any]) -> Callable[..., torch.Tensor]:
            def run(keys: DispatchKeySet, x: torch.Tensor) -> torch.Tensor:
                log.append((name, names_in(keys)))
                kind, *rest = does
                if kind == "compute":
                    return x
                if kind == "below":
                    return go_on(operator, keys, rest[0], x)
                *other, excluded, included = rest
                with ExitStack() as stack:
                    for functionality in excluded:
                        stack.enter_context(torch._C._ExcludeDispatchKeyGuard(bits([functionality])))
                    for functionality in included:
                        stack.enter_context(
                            torch._C._IncludeDispatchKeyGuard(getattr(DispatchKey, BITS[functionality]))
                        )
                    if kind == "fails":
                        raise ZeroDivisionError
                    if kind == "below within":
                        return go_on(operator, keys, other[0], x)
                    found = invoke(other[0])
                return invoke(other[0]) if kind == "calls twice" else found

            return run

        for kind, operator, *rest in steps:
            if kind == "register":
                key, name, does = rest
                if does == ["fallthrough"]:
                    library.impl(operator, fallthrough_kernel, key)
                else:
                    library.impl(operator, kernel(operator, name, does), key, with_keyset=True)
                continue
            keysets, blocks = rest
            given[:] = keysets
            log.clear()
            with ExitStack() as stack:
                for block, functionality in blocks:
                    stack.enter_context(
                        torch._C._ExcludeDispatchKeyGuard(bits([functionality]))
                        if block == "excluding"
                        else torch._C._IncludeDispatchKeyGuard(getattr(DispatchKey, BITS[functionality]))
                    )
                end = _outcome(partial(invoke, operator))
                runs.append({**end, "log": [name for name, _ in log], "keys": [keys for _, keys in log]})
    return runs


def right_runs(steps: list[Step]) -> list[dict[str, Any]]:
    """What each call does. PyTorch's fallbacks are there from the start: without one, the model is asked."""
    if any(step[0] == "fallback" for step in steps):
        return [{"value": START + COUNTS, **run} if "missing" not in run else run for run in run_steps(steps, Model())]
    return by_pytorch(steps)


def _falls_through(operator: str, key: DispatchKey) -> bool:
    """What PyTorch's table says of an entry."""
    found = re.search(rf"^{key.name}: (.*)$", torch._C._dispatch_dump_table(operator), re.MULTILINE)
    return found is not None and found[1].startswith("fallthrough")


def _outcome(question: Callable[[], torch.Tensor]) -> dict[str, Any]:
    try:
        question()
    except ZeroDivisionError:
        return {"failed": True}
    except NotImplementedError as error:
        named = re.search(r"Could not run '\w+::(\w+)' with arguments from the '(\w+)' backend", str(error))
        undefined = re.search(r"registered for schema \w+::(\w+)", str(error))
        if named is None and undefined is None:
            raise
        return {"missing": [named[1], named[2]] if named else [undefined[1] if undefined else "", "Undefined"]}
    return {"value": START + COUNTS}


def judge(case: Case, evidence: Evidence) -> Iterator[tuple[str, str] | Deviation | Agreement]:
    """The first call that went otherwise than in PyTorch, and the mistakes that would have led to all that was seen."""
    told = False
    for keys, found in zip(case.parameters["keysets"], evidence.values["keys"], strict=True):
        wanted = bits(keys).highestPriorityTypeId().name
        if found != wanted and not told:
            told = True
            yield _wrong_key(found, wanted), f"(the keys {{{', '.join(keys)}}}: found {found}, wanted {wanted})"
    steps = case.parameters["steps"]
    wanted_runs = right_runs(steps)
    calls = [step for step in steps if step[0] == "call"]
    found_runs = evidence.values["runs"]
    for step, right, run in zip(calls, wanted_runs, found_runs, strict=True):
        if not told and (name := _difference(right, run)) is not None:
            told = True
            keys = name == "other keys"
            figures = f"({_in_words(step)}: found {_outcome_words(run, keys)}, wanted {_outcome_words(right, keys)})"
            if name in ("wrong kernels", "other keys"):
                yield Deviation(name, tuple(_leading_to(steps, found_runs, keys=keys)), figures, len(steps))
            else:
                yield name, figures
    if not told and steps:
        yield Agreement("wrong kernels", lambda names: set(names) - set(_leading_to(steps, found_runs)))
        yield Agreement("other keys", lambda names: set(names) - set(_leading_to(steps, found_runs, keys=True)))
    if not told and evidence.values["torch_calls"]:
        yield "asked PyTorch", f"(it called {', '.join(evidence.values['torch_calls'])})"


def _wrong_key(found: Any, wanted: str) -> str:
    if found is None:
        return "not a key"
    if wanted == "Undefined":
        return "no functionality"
    return "parts not joined" if wanted.startswith(("Sparse", "Autograd")) or wanted == "CUDA" else "wrong key"


def _difference(wanted: dict[str, Any], found: dict[str, Any]) -> str | None:
    if wanted["log"] != found["log"]:
        return "wrong kernels"
    if "missing" in wanted:
        if "missing" not in found:
            return "nothing there"
        words = set(re.findall(r"\w+", found["missing"]))
        return None if set(wanted["missing"]) <= words else "unnamed"
    if "missing" in found or "endless" in found:
        return "wrong kernels"
    if "failed" in wanted:
        return None if "failed" in found else "wrong kernels"
    if found.get("value") != wanted["value"]:
        return "value lost"
    return None if found["keys"] == wanted["keys"] else "other keys"


def _leading_to(steps: list[Step], found: list[dict[str, Any]], *, keys: bool = False) -> list[str]:
    """The mistakes that lead to these kernels (and keys) in all calls, each in one of the ways to make it."""

    def leads(flaw: str) -> bool:
        runs = run_steps(steps, Model(flaw))
        return all(map(_alike, runs, found)) and (not keys or [run["keys"] for run in runs] == given)

    given = [run["keys"] for run in found]
    return [name for name, ways in Model.FLAWS.items() if any(map(leads, ways))]


def _alike(run: dict[str, Any], found: dict[str, Any]) -> bool:
    named = set(re.findall(r"\w+", found["missing"])) if "missing" in found else set()
    return (
        run["log"] == found["log"]
        and all((end in run) == (end in found) for end in ("missing", "endless", "failed"))
        and named >= set(run.get("missing", []))
    )


def _in_words(step: Step) -> str:
    _, operator, keysets, blocks = step
    keys = " and ".join("{" + ", ".join(keys) + "}" for keys in keysets)
    within = "".join(f", {block} {functionality}" for block, functionality in blocks)
    return f"{operator} with the keys {keys}{within}"


def _outcome_words(run: dict[str, Any], keys: bool) -> str:
    """Which kernels ran and how it ended; with the keys that each of them got, where these are what matters."""
    missing = run.get("missing")
    end = f" and no kernel for {missing[1]}" if isinstance(missing, list) else " and an error" if missing else ""
    end += " and so on without end" if "endless" in run else ""
    kernels = list(map(_given, run["log"], run["keys"])) if keys else run["log"]
    return (" → ".join(kernels) or "no kernel") + end


def _given(name: str, keys: list[str] | None) -> str:
    return f"{name} (given {'no set of keys' if keys is None else '{' + ', '.join(keys) + '}'})"
