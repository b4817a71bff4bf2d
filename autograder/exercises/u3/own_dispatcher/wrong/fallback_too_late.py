"""old table

Tables are not filled again when a fallback is registered after the operator.
"""

FUNCTIONALITIES = ("Dense", "Sparse", "BackendSelect", "ADInplaceOrView", "Autograd", "AutocastCPU")
BACKENDS = ("CPU", "CUDA")
PER_BACKEND = ("Dense", "Sparse", "Autograd")  # The other functionalities are keys by themselves.
FALLTHROUGH = "fallthrough"

from contextlib import contextmanager

NAMES = {}
for _f in FUNCTIONALITIES:
    for _b in BACKENDS if _f in PER_BACKEND else (None,):
        NAMES[_f, _b] = _f if _b is None else _b if _f == "Dense" else _f + _b
NAMES[None, None] = "Undefined"
PARTS = {name: parts for parts, name in NAMES.items()}


def top(keys):
    backend = next((b for b in reversed(BACKENDS) if b in keys), None)
    functionality = next((f for f in reversed(FUNCTIONALITIES) if f in keys), None)
    return functionality, backend if functionality in PER_BACKEND else None


def runtime_key(keys: frozenset[str]) -> str:
    """The key under which a kernel is looked up."""
    return NAMES[top(keys)]


def below(keys: frozenset[str], functionality: str) -> frozenset[str]:
    """The keys without a functionality and all above it."""
    at = FUNCTIONALITIES.index(functionality)
    return frozenset(keys).difference(FUNCTIONALITIES[at:])


class Dispatcher:
    """Chooses a kernel for each call: a table per operator, filled eagerly at each registration."""

    def __init__(self):
        self.included = frozenset({"BackendSelect", "ADInplaceOrView"})
        self.excluded = frozenset({"AutocastCPU"})
        self.registered = {}
        self.fallbacks = {}
        self.tables = {}

    def register(self, operator: str, key: str, kernel) -> None:
        self.registered.setdefault(operator, {})[key] = kernel
        self.fill(operator)

    def register_fallback(self, key: str, kernel) -> None:
        self.fallbacks[key] = kernel

    def fill(self, operator):
        own = self.registered[operator]
        table = dict(self.fallbacks)
        autograds = {f"Autograd{b}" for b in BACKENDS}
        backends = {name for name, (f, b) in PARTS.items() if f in ("Dense", "Sparse", None)}
        if "Autograd" in own:
            table.update(dict.fromkeys(autograds, own["Autograd"]))
        if "CompositeImplicitAutograd" in own:
            places = set(backends)
            if "CompositeExplicitAutograd" not in own:
                places |= {f"Autograd{b}" for b in BACKENDS if b not in own}
            table.update(dict.fromkeys(places, own["CompositeImplicitAutograd"]))
        if "CompositeExplicitAutograd" in own:
            table.update(dict.fromkeys(backends, own["CompositeExplicitAutograd"]))
        table.update((name, own[name]) for name in PARTS if name in own)
        self.tables[operator] = table

    def call(self, operator: str, keysets: list[frozenset[str]], value):
        keys = self.included.union(*keysets) - self.excluded
        backend = next((b for b in reversed(BACKENDS) if b in keys), None)
        gone = {
            f
            for f in FUNCTIONALITIES
            if f in keys and self.entry(operator, NAMES.get((f, backend if f in PER_BACKEND else None))) == FALLTHROUGH
        }
        return self.redispatch(operator, keys - gone, value)

    def redispatch(self, operator: str, keys: frozenset[str], value):
        kernel = self.entry(operator, runtime_key(keys))
        if kernel is None:
            raise NotImplementedError(f"{operator}: no kernel for {runtime_key(keys)}")
        return kernel(operator, keys, value)

    @contextmanager
    def including(self, functionality: str):
        before, self.included = self.included, self.included | {functionality}
        try:
            yield
        finally:
            self.included = before

    @contextmanager
    def excluding(self, functionality: str):
        before, self.excluded = self.excluded, self.excluded | {functionality}
        try:
            yield
        finally:
            self.excluded = before

    def entry(self, operator: str, key: str):
        return self.tables.get(operator, self.fallbacks).get(key)
