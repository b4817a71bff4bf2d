"""A small dispatcher that can make each of the mistakes that learners make, to tell which one it was.

It decides nothing: what is right is asked of PyTorch. Without a flaw it must do as PyTorch does (a test compares them).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ClassVar

from autograder.exercises.u3.own_dispatcher.visible import LONGEST_LOG

FUNCTIONALITIES = ("Dense", "Sparse", "BackendSelect", "ADInplaceOrView", "Autograd", "AutocastCPU")
BACKENDS = ("CPU", "CUDA")
EXPLICIT, IMPLICIT, FALLTHROUGH = "CompositeExplicitAutograd", "CompositeImplicitAutograd", "fallthrough"
ON_BACKENDS = ("CPU", "CUDA", "SparseCPU", "SparseCUDA", "Undefined")
ON_AUTOGRAD = ("AutogradCPU", "AutogradCUDA")
DEEPEST = 40
"""Kernels within kernels, after which a walk has no end."""


class Model:
    """A dispatcher with one flaw, or none."""

    FLAWS: ClassVar[dict[str, tuple[str, ...]]] = {
        "first argument only": ("first argument only",),
        "thread sets forgotten": ("thread sets forgotten",),
        "include wins": ("include wins",),
        "not restored after an error": (
            "not restored after an error",
            "not restored after an error, excluding",
            "not restored after an error, including",
        ),
        "not restored to what it was": (
            "not restored to what it was",
            "not restored to what it was, excluding",
            "not restored to what it was, including",
            "restored to the start",
            "restored to the start, excluding",
            "restored to the start, including",
        ),
        "exact kernel last": ("exact kernel last", "explicit before exact"),
        "implicit before explicit": ("implicit before explicit",),
        "no composite at autograd": ("no composite at autograd",),
        "implicit hides a derivative": ("implicit hides a derivative",),
        "any kernel counts": ("any kernel counts", "any backend counts", "sparse counts"),
        "autograd before implicit": ("autograd before implicit",),
        "composite for every key": ("composite for every key",),
        "no fallback": ("no fallback", "no fallback on backends", "fallback at autograd only"),
        "fallback too early": ("fallback too early",),
        "fallthrough ends the walk": ("fallthrough ends the walk",),
        "all keys handed over": ("all keys handed over",),
        "redispatch starts anew": (
            "redispatch starts anew",
            "redispatch adds the sets",
            "redispatch includes",
            "redispatch excludes",
        ),
        "below keeps its own key": ("below keeps its own key",),
        "below keeps what is above": ("below drops its own key only", "below needs its own key"),
        "below drops too much": ("below drops too much",),
        "old table": (
            "old table",
            "old table, but for the key",
            "old table, but for the operator",
            "old misses",
            "old hits",
            "old fallbacks",
            "old table, but for fallbacks",
            "old table, but for kernels",
            "first kernel stays",
            "first fallback stays",
            "first one stays",
            "fallbacks of before",
        ),
        "no functionality": ("no functionality",),
        "parts not joined": ("parts not joined",),
    }
    """For each mistake the ways to make it."""

    def __init__(self, flaw: str = "") -> None:
        self.flaw = flaw
        self.registered: dict[str, dict[str, Any]] = {}
        self.fallbacks: dict[str, Any] = dict.fromkeys(("BackendSelect", "ADInplaceOrView", "AutocastCPU"), FALLTHROUGH)
        self.sets = {"including": {"BackendSelect", "ADInplaceOrView"}, "excluding": {"AutocastCPU"}}
        self.known: dict[tuple[str, str], Any] = {}
        self.fallbacks_of: dict[str, dict[str, Any]] = {}
        self.depth = 0

    def _pass_on(self, operator: str, keys: frozenset[str]) -> None:
        self.redispatch(operator, self.below(keys, "Autograd"))

    def runtime_key(self, keys: frozenset[str]) -> str:
        """The key that a set of functionalities and backends leads to."""
        functionality = max((key for key in keys if key in FUNCTIONALITIES), key=FUNCTIONALITIES.index, default="")
        choose = min if self.flaw == "parts not joined" else max
        backend = choose((key for key in keys if key in BACKENDS), key=BACKENDS.index, default="")
        if not functionality:
            return backend or "Undefined" if self.flaw == "no functionality" else "Undefined"
        if functionality == "Dense":
            return backend
        return functionality + backend if functionality in ("Sparse", "Autograd") else functionality

    def below(self, keys: frozenset[str], functionality: str) -> frozenset[str]:
        """The keys without a functionality and what is above it."""
        if self.flaw == "below drops its own key only":
            return keys - {functionality}
        if self.flaw == "below needs its own key" and functionality not in keys:
            return keys
        least = FUNCTIONALITIES.index(functionality) + (self.flaw == "below keeps its own key")
        if self.flaw == "below drops too much":
            return frozenset(key for key in keys if key in FUNCTIONALITIES[: max(least - 1, 0)] or key in BACKENDS)
        return frozenset(key for key in keys if key in FUNCTIONALITIES[:least] or key in BACKENDS)

    def entry(self, operator: str, key: str) -> Any:
        """The kernel for a key; `None` where there is none."""
        kept = self.known.get((operator, key), "")
        if self.flaw == "old misses" and kept is not None:
            self.known.pop((operator, key), None)
        elif self.flaw in ("old hits", "old fallbacks") and kept is None:
            del self.known[operator, key]
        elif not self.flaw.startswith("old "):
            return self._computed(operator, key)
        if (operator, key) not in self.known:
            self.known[operator, key] = self._computed(operator, key)
        return self.known[operator, key]

    def _computed(self, operator: str, key: str) -> Any:
        own, flaw = self.registered.get(operator, {}), self.flaw
        fallbacks = self.fallbacks
        if flaw == "fallbacks of before":
            fallbacks = self.fallbacks_of.get(operator, fallbacks)
        autograd, backend = key in ON_AUTOGRAD, key in ON_BACKENDS
        everywhere = flaw == "composite for every key" and not autograd
        order = [key, EXPLICIT, IMPLICIT, "Autograd", "fallback"]
        if flaw == "exact kernel last":
            order = [EXPLICIT, IMPLICIT, key, "Autograd", "fallback"]
        elif flaw == "explicit before exact":
            order = [EXPLICIT, key, IMPLICIT, "Autograd", "fallback"]
        elif flaw == "implicit before explicit":
            order = [key, IMPLICIT, EXPLICIT, "Autograd", "fallback"]
        elif flaw == "autograd before implicit":
            order = [key, EXPLICIT, "Autograd", IMPLICIT, "fallback"]
        elif flaw == "fallback too early":
            order = [key, "fallback", EXPLICIT, IMPLICIT, "Autograd"]
        serves = {
            EXPLICIT: backend or everywhere,
            IMPLICIT: backend
            or everywhere
            or (autograd and flaw != "no composite at autograd" and not self._steps_back(own, key)),
            "Autograd": autograd,
        }
        for one in order:
            if one == "fallback":
                left_out = flaw == "no fallback" or (flaw == "no fallback on backends" and key in ON_BACKENDS)
                if flaw == "fallback at autograd only" and fallbacks.get(key) != FALLTHROUGH:
                    left_out = not autograd
                if key in fallbacks and not left_out:
                    return fallbacks[key]
            elif one in own and serves.get(one, True):
                return own[one]
        return None

    def _steps_back(self, own: dict[str, Any], key: str) -> bool:
        if self.flaw == "implicit hides a derivative":
            return False
        backend = key.removeprefix("Autograd")
        counts = {
            "any kernel counts": ON_BACKENDS,
            "any backend counts": BACKENDS,
            "sparse counts": (backend, f"Sparse{backend}"),
        }.get(self.flaw, (backend,))
        return EXPLICIT in own or any(one in own for one in counts)

    def register(self, operator: str, key: str, kernel: Any) -> None:
        """A kernel, or that there is none to choose, for a key or an alias."""
        own = self.registered.setdefault(operator, {})
        self.fallbacks_of[operator] = dict(self.fallbacks)
        if key not in own or self.flaw not in ("first kernel stays", "first one stays"):
            own[key] = kernel
        if self.flaw == "old table, but for kernels":
            self.known = {}
        elif self.flaw == "old fallbacks":
            self.known = {one: kernel for one, kernel in self.known.items() if one[0] != operator}
        elif self.flaw == "old table, but for the key":
            self.known.pop((operator, key), None)
        elif self.flaw == "old table, but for the operator" and key not in (EXPLICIT, IMPLICIT, "Autograd"):
            self.known = {one: kernel for one, kernel in self.known.items() if one[0] != operator}

    def register_fallback(self, key: str, kernel: Any = None) -> None:
        """A kernel (else one that goes on below autograd) for all operators that have nothing else for the key."""
        if key not in self.fallbacks or self.flaw not in ("first fallback stays", "first one stays"):
            self.fallbacks[key] = kernel or self._pass_on
        if self.flaw == "old table, but for fallbacks":
            self.known = {}

    def call(self, operator: str, keysets: list[frozenset[str]]) -> None:
        """A call with arguments of these keys."""
        keys = set().union(*(keysets[:1] if self.flaw == "first argument only" else keysets))
        self.redispatch(operator, self._effective(operator, keys), anew=True)

    def _effective(self, operator: str, keys: set[str]) -> frozenset[str]:
        if self.flaw == "include wins":
            keys = (keys - self.sets["excluding"]) | self.sets["including"]
        elif self.flaw != "thread sets forgotten":
            keys = (keys | self.sets["including"]) - self.sets["excluding"]
        if self.flaw in ("fallthrough ends the walk", "all keys handed over"):
            return frozenset(keys)
        return self._left(operator, frozenset(keys))

    def _left(self, operator: str, keys: frozenset[str]) -> frozenset[str]:
        """The keys without what falls through."""
        backends = keys & set(BACKENDS)
        return frozenset(
            key
            for key in keys
            if key in BACKENDS or self.entry(operator, self.runtime_key(frozenset(backends | {key}))) != FALLTHROUGH
        )

    def redispatch(self, operator: str, keys: frozenset[str], *, anew: bool = False) -> None:
        """The kernel for these keys."""
        if self.flaw == "redispatch starts anew" and not anew:
            keys = self._effective(operator, set(keys))
        if self.flaw in ("redispatch adds the sets", "redispatch includes") and not anew:
            keys = keys | self.sets["including"]
        if self.flaw in ("redispatch adds the sets", "redispatch excludes") and not anew:
            keys = keys - self.sets["excluding"]
        key = self.runtime_key(self._left(operator, keys) if self.flaw == "all keys handed over" else keys)
        kernel = self.entry(operator, key)
        if kernel is None or kernel == FALLTHROUGH:
            raise NotImplementedError(operator, key)
        self.depth += 1
        if self.depth > DEEPEST:
            raise RecursionError
        try:
            kernel(operator, keys)
        finally:
            self.depth -= 1

    @contextmanager
    def block(self, kind: str, functionality: str) -> Iterator[None]:
        """What `including` and `excluding` do."""
        before = self.sets[kind]
        self.sets[kind] = before | {functionality}
        flaw, _, kinds = self.flaw.partition(", ")
        if flaw == "not restored after an error" and kinds in ("", kind):
            yield
            self.sets[kind] = before
            return
        if flaw == "not restored to what it was" and kinds in ("", kind):
            try:
                yield
            finally:
                self.sets[kind] = self.sets[kind] - {functionality}
            return
        if flaw == "restored to the start" and kinds in ("", kind):
            try:
                yield
            finally:
                self.sets[kind] = Model().sets[kind]
            return
        try:
            yield
        finally:
            self.sets[kind] = before


def run_steps(steps: list[list[Any]], model: Model) -> list[dict[str, Any]]:
    """What a dispatcher does with a program: for each call the kernels, and whether one was missing."""
    log: list[tuple[str, list[str]]] = []
    runs: list[dict[str, Any]] = []
    given: list[frozenset[str]] = []

    def kernel(name: str, does: list[Any]) -> Callable[..., None] | str:
        if does == [FALLTHROUGH]:
            return FALLTHROUGH

        def run(operator: str, keys: frozenset[str]) -> None:
            log.append((name, sorted(keys)))
            kind, *rest = does
            if kind == "below":
                model.redispatch(operator, model.below(keys, *rest))
            elif kind != "compute":
                *other, excluded, included = rest
                with ExitStack() as stack:
                    for functionality in excluded:
                        stack.enter_context(model.block("excluding", functionality))
                    for functionality in included:
                        stack.enter_context(model.block("including", functionality))
                    if kind == "fails":
                        raise ZeroDivisionError
                    if kind == "below within":
                        model.redispatch(operator, model.below(keys, other[0]))
                    else:
                        model.call(other[0], given)
                if kind == "calls twice":
                    model.call(other[0], given)

        return run

    for key in ON_AUTOGRAD:
        if ["fallback", key] not in steps:
            model.register_fallback(key)
    for kind, operator, *rest in steps:
        if kind == "fallback":
            model.register_fallback(operator, kernel(*rest) if rest else None)
            continue
        if kind == "register":
            key, name, does = rest
            model.register(operator, key, kernel(name, does))
            continue
        keysets, blocks = rest
        given[:] = [frozenset(keys) for keys in keysets]
        log.clear()
        end: dict[str, Any] = {}
        with ExitStack() as stack:
            for block, functionality in blocks:
                stack.enter_context(model.block(block, functionality))
            try:
                model.call(operator, given)
            except NotImplementedError as error:
                end = {"missing": list(error.args)}
            except RecursionError:
                end = {"endless": True}
            except ZeroDivisionError:
                end = {"failed": True}
            ran = log[:LONGEST_LOG]
            runs.append({"log": [name for name, _ in ran], "keys": [keys for _, keys in ran], **end})
    return runs
