"""not restored to what it was

Ends a block with what the thread excludes from the start: an outer block is over as well.
"""

FUNCTIONALITIES = ("Dense", "Sparse", "BackendSelect", "ADInplaceOrView", "Autograd", "AutocastCPU")
BACKENDS = ("CPU", "CUDA")
PER_BACKEND = ("Dense", "Sparse", "Autograd")  # The other functionalities are keys by themselves.
FALLTHROUGH = "fallthrough"

from contextlib import contextmanager

BACKEND_KEYS = ("CPU", "CUDA", "SparseCPU", "SparseCUDA")
AUTOGRAD_KEYS = ("AutogradCPU", "AutogradCUDA")


def runtime_key(keys: frozenset[str]) -> str:
    """The key under which a kernel is looked up."""
    functionalities = [one for one in FUNCTIONALITIES if one in keys]
    backends = [one for one in BACKENDS if one in keys]
    if not functionalities:
        return "Undefined"
    highest = functionalities[-1]
    if highest not in PER_BACKEND or not backends:
        return highest
    return backends[-1] if highest == "Dense" else highest + backends[-1]


def below(keys: frozenset[str], functionality: str) -> frozenset[str]:
    """The keys without a functionality and all above it."""
    return frozenset(keys) - frozenset(FUNCTIONALITIES[FUNCTIONALITIES.index(functionality) :])


class Dispatcher:
    """Chooses a kernel for each call."""

    def __init__(self):
        self.included = frozenset({"BackendSelect", "ADInplaceOrView"})
        self.excluded = frozenset({"AutocastCPU"})
        self.registered = {}
        self.fallbacks = {}

    def register(self, operator: str, key: str, kernel) -> None:
        """Enter a kernel (or FALLTHROUGH) for a key or an alias."""
        self.registered.setdefault(operator, {})[key] = kernel

    def register_fallback(self, key: str, kernel) -> None:
        """Enter a kernel (or FALLTHROUGH) for all operators that have nothing else for the key."""
        self.fallbacks[key] = kernel

    def call(self, operator: str, keysets: list[frozenset[str]], value):
        """Call an operator whose arguments have these keys."""
        keys = frozenset().union(*keysets) | self.included
        keys -= self.excluded
        backends = keys & frozenset(BACKENDS)
        passing = set()
        for one in keys & frozenset(FUNCTIONALITIES):
            if self.entry(operator, runtime_key(backends | {one})) == FALLTHROUGH:
                passing.add(one)
        return self.redispatch(operator, keys - passing, value)

    def redispatch(self, operator: str, keys: frozenset[str], value):
        """Run the kernel for these keys."""
        key = runtime_key(keys)
        kernel = self.entry(operator, key)
        if kernel is None:
            raise NotImplementedError(f"{operator} has no kernel for {key}")
        return kernel(operator, keys, value)

    @contextmanager
    def including(self, functionality: str):
        """For the block, the thread includes a functionality."""
        before = self.included
        self.included = before | {functionality}
        try:
            yield
        finally:
            self.included = before

    @contextmanager
    def excluding(self, functionality: str):
        """For the block, the thread excludes a functionality."""
        before = self.excluded
        self.excluded = before | {functionality}
        try:
            yield
        finally:
            self.excluded = frozenset({"AutocastCPU"})

    # Further methods of your own go here.
    def entry(self, operator: str, key: str):
        """The kernel for a key; None if there is none."""
        kernels = self.registered.get(operator, {})
        if key in kernels:
            return kernels[key]
        bottom = key in BACKEND_KEYS or key == "Undefined"
        if bottom and "CompositeExplicitAutograd" in kernels:
            return kernels["CompositeExplicitAutograd"]
        if "CompositeImplicitAutograd" in kernels:
            above = key in AUTOGRAD_KEYS and "CompositeExplicitAutograd" not in kernels
            if above and key.removeprefix("Autograd") in kernels:
                above = False
            if bottom or above:
                return kernels["CompositeImplicitAutograd"]
        if key in AUTOGRAD_KEYS and "Autograd" in kernels:
            return kernels["Autograd"]
        return self.fallbacks.get(key)
