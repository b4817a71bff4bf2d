"""Keeps the blocks that are open on a stack, and walks down the functionalities until one does not fall through."""

FUNCTIONALITIES = ("Dense", "Sparse", "BackendSelect", "ADInplaceOrView", "Autograd", "AutocastCPU")
BACKENDS = ("CPU", "CUDA")
FALLTHROUGH = "fallthrough"


def joined(functionality, backend):
    return {"Dense": backend, "Sparse": f"Sparse{backend}", "Autograd": f"Autograd{backend}"}.get(
        functionality, functionality
    )


def runtime_key(keys):
    backend = "CUDA" if "CUDA" in keys else "CPU"
    for functionality in reversed(FUNCTIONALITIES):
        if functionality in keys:
            return joined(functionality, backend)
    return "Undefined"


def below(keys, functionality):
    rank = FUNCTIONALITIES.index(functionality)
    return frozenset(key for key in keys if key in BACKENDS or FUNCTIONALITIES.index(key) < rank)


class Block:
    def __init__(self, blocks, kind, functionality):
        self.blocks, self.entry = blocks, (kind, functionality)

    def __enter__(self):
        self.blocks.append(self.entry)

    def __exit__(self, *error):
        self.blocks.pop()


class Dispatcher:
    def __init__(self):
        self.kernels, self.fallbacks = {}, {}
        self.blocks = [("include", "BackendSelect"), ("include", "ADInplaceOrView"), ("exclude", "AutocastCPU")]

    def register(self, operator, key, kernel):
        self.kernels[operator, key] = kernel

    def register_fallback(self, key, kernel):
        self.fallbacks[key] = kernel

    def including(self, functionality):
        return Block(self.blocks, "include", functionality)

    def excluding(self, functionality):
        return Block(self.blocks, "exclude", functionality)

    def candidates(self, operator, key):
        """Who could fill an entry, the first one first."""

        def has(name):
            return (operator, name) in self.kernels

        explicit = "CompositeExplicitAutograd"
        yield self.kernels.get((operator, key))
        if key in ("AutogradCPU", "AutogradCUDA"):
            if not has(explicit) and not has(key[len("Autograd") :]):
                yield self.kernels.get((operator, "CompositeImplicitAutograd"))
            yield self.kernels.get((operator, "Autograd"))
        elif key in ("CPU", "CUDA", "SparseCPU", "SparseCUDA", "Undefined"):
            yield self.kernels.get((operator, explicit))
            yield self.kernels.get((operator, "CompositeImplicitAutograd"))
        yield self.fallbacks.get(key)

    def found(self, operator, key):
        return next((kernel for kernel in self.candidates(operator, key) if kernel is not None), None)

    def call(self, operator, keysets, value):
        keys = {key for keyset in keysets for key in keyset} | {name for kind, name in self.blocks if kind == "include"}
        keys -= {name for kind, name in self.blocks if kind == "exclude"}
        backend = "CUDA" if "CUDA" in keys else "CPU"
        for functionality in FUNCTIONALITIES:
            if functionality in keys and self.found(operator, joined(functionality, backend)) == FALLTHROUGH:
                keys.remove(functionality)
        return self.redispatch(operator, frozenset(keys), value)

    def redispatch(self, operator, keys, value):
        kernel = self.found(operator, runtime_key(keys))
        if kernel is None:
            raise NotImplementedError(f"{operator}: nothing is registered for {runtime_key(keys)}")
        return kernel(operator, keys, value)
