"""Fills every entry when something is registered, as PyTorch does, and keeps key sets as bits of a number."""

from contextlib import contextmanager

FUNCTIONALITIES = ("Dense", "Sparse", "BackendSelect", "ADInplaceOrView", "Autograd", "AutocastCPU")
BACKENDS = ("CPU", "CUDA")
FALLTHROUGH = "fallthrough"
BIT = {name: 1 << number for number, name in enumerate(BACKENDS + FUNCTIONALITIES)}
ON_BACKENDS = ["CPU", "CUDA", "SparseCPU", "SparseCUDA", "Undefined"]
ON_AUTOGRAD = ["AutogradCPU", "AutogradCUDA"]
OTHERS = ["BackendSelect", "ADInplaceOrView", "AutocastCPU"]


def packed(keys):
    return sum(BIT[key] for key in keys)


def unpacked(bits):
    return frozenset(name for name, bit in BIT.items() if bits & bit)


def runtime_key(keys):
    bits = keys if isinstance(keys, int) else packed(keys)
    functionality, backend = bits >> len(BACKENDS), bits & 3
    if not functionality:
        return "Undefined"
    name = FUNCTIONALITIES[functionality.bit_length() - 1]
    if name in OTHERS:
        return name
    return {"Dense": ""}.get(name, name) + BACKENDS[backend.bit_length() - 1]


def below(keys, functionality):
    return unpacked(packed(keys) & (BIT[functionality] - 1))


class Dispatcher:
    def __init__(self):
        self.sets = [packed(["BackendSelect", "ADInplaceOrView"]), packed(["AutocastCPU"])]
        self.registered, self.fallbacks, self.tables = {}, {}, {}

    def register(self, operator, key, kernel):
        self.registered.setdefault(operator, {})[key] = kernel
        self.tables[operator] = self.computed(operator)

    def register_fallback(self, key, kernel):
        self.fallbacks[key] = kernel
        self.tables = {operator: self.computed(operator) for operator in self.registered}

    def computed(self, operator):
        own = self.registered[operator]
        table = dict(self.fallbacks)
        if "Autograd" in own:
            table.update(dict.fromkeys(ON_AUTOGRAD, own["Autograd"]))
        for backend in BACKENDS:
            if "CompositeImplicitAutograd" in own and backend not in own and "CompositeExplicitAutograd" not in own:
                table["Autograd" + backend] = own["CompositeImplicitAutograd"]
        for alias in ("CompositeImplicitAutograd", "CompositeExplicitAutograd"):
            if alias in own:
                table.update(dict.fromkeys(ON_BACKENDS, own[alias]))
        return {**table, **own}  # nobody asks for an alias

    def call(self, operator, keysets, value):
        bits = (packed(frozenset().union(*keysets)) | self.sets[0]) & ~self.sets[1]
        table = self.tables.get(operator, self.fallbacks)
        for functionality in FUNCTIONALITIES:
            bit = BIT[functionality]
            if bits & bit and table.get(runtime_key(bit | bits & 3)) == FALLTHROUGH:
                bits &= ~bit
        return self.redispatch(operator, unpacked(bits), value)

    def redispatch(self, operator, keys, value):
        key = runtime_key(keys)
        table = self.tables.get(operator, self.fallbacks)
        if key not in table:
            raise NotImplementedError(f"no kernel of {operator!r} for the key {key!r}")
        return table[key](operator, keys, value)

    @contextmanager
    def _changed(self, which, functionality):
        before = list(self.sets)
        self.sets[which] |= BIT[functionality]
        try:
            yield
        finally:
            self.sets = before

    def including(self, functionality):
        return self._changed(0, functionality)

    def excluding(self, functionality):
        return self._changed(1, functionality)
