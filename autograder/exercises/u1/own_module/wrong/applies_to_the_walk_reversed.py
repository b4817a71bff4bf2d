"""other modules

Takes `named_modules` from behind for the order in which `apply` goes.
"""


class Tensor:
    def __init__(self, values):
        self.values = list(values)


class Parameter(Tensor):
    pass


NONE = object()
KINDS = ("parameter", "child", "buffer")


class Module:
    def __init__(self):
        object.__setattr__(self, "training", True)
        # for each kind: an ordered list of [name, value]
        object.__setattr__(self, "_slots_of", {"parameter": [], "buffer": [], "child": []})
        object.__setattr__(self, "_silent", set())

    def _all(self, kind):
        slots = self.__dict__.get("_slots_of")
        return [] if slots is None else slots[kind]

    def _entry(self, kind, name):
        for entry in self._all(kind):
            if entry[0] == name:
                return entry
        return None

    def __getattr__(self, name):
        for kind in KINDS:
            entry = self._entry(kind, name)
            if entry is not None:
                return entry[1]
        raise AttributeError(f"no attribute {name!r}")

    def _remove(self, name, but=None):
        for kind in KINDS:
            if kind != but:
                slots = self._all(kind)
                slots[:] = [entry for entry in slots if entry[0] != name]
        if but != "buffer":
            self._silent.discard(name)
        self.__dict__.pop(name, None)

    def _put(self, kind, name, value):
        if "_slots_of" not in self.__dict__:
            raise AttributeError(f"call super().__init__() before assigning {name!r}")
        self._remove(name, but=kind)
        entry = self._entry(kind, name)
        if entry is None:
            self._all(kind).append([name, value])
        else:
            entry[1] = value

    def __setattr__(self, name, value):
        if isinstance(value, Parameter):
            return self._put("parameter", name, value)
        entry = self._entry("parameter", name)
        if entry is not None:
            if value is not None:
                raise TypeError(f"{name!r} is a parameter")
            entry[1] = None
            return None
        if isinstance(value, Module):
            return self._put("child", name, value)
        entry = self._entry("child", name)
        if entry is not None:
            if value is not None:
                raise TypeError(f"{name!r} is a child")
            entry[1] = None
            return None
        entry = self._entry("buffer", name)
        if entry is not None:
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(f"{name!r} is a buffer")
            entry[1] = value
            return None
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        for kind in KINDS:
            if self._entry(kind, name) is not None:
                self._all(kind)[:] = [entry for entry in self._all(kind) if entry[0] != name]
                self._silent.discard(name)
                return
        if name not in self.__dict__:
            raise AttributeError(f"no attribute {name!r}")
        object.__delattr__(self, name)

    def _register(self, kind, name, value, accepted):
        if "_slots_of" not in self.__dict__:
            raise AttributeError(f"call super().__init__() before registering {name!r}")
        if not name or "." in name:
            raise KeyError(f"bad name {name!r}")
        if self._entry(kind, name) is None and hasattr(self, name):
            raise KeyError(f"{name!r} is taken")
        if value is not None and not isinstance(value, accepted):
            raise TypeError(f"cannot register {name!r}")
        self._put(kind, name, value)

    def register_parameter(self, name, value):
        self._register("parameter", name, value, Parameter)

    def register_buffer(self, name, value, persistent=True):
        self._register("buffer", name, value, Tensor)
        (self._silent.discard if persistent else self._silent.add)(name)

    def named_children(self):
        seen = []
        for name, child in self._all("child"):
            if child is not None and not any(child is one for one in seen):
                seen.append(child)
                yield name, child

    def named_modules(self, path="", seen=None):
        seen = set() if seen is None else seen
        if id(self) in seen:
            return
        seen.add(id(self))
        yield path, self
        for name, child in self._all("child"):
            if child is not None:
                yield from child.named_modules(f"{path}.{name}" if path else name, seen)

    def _tensors(self, kind):
        seen = set()
        for path, module in self.named_modules():
            for name, value in module._all(kind):
                if value is not None and id(value) not in seen:
                    seen.add(id(value))
                    yield (f"{path}.{name}" if path else name), value

    def named_parameters(self):
        return self._tensors("parameter")

    def named_buffers(self):
        return self._tensors("buffer")

    def state_dict(self):
        state = {name: value for name, value in self._all("parameter") if value is not None}
        state |= {n: v for n, v in self._all("buffer") if v is not None and n not in self._silent}
        for name, child in self._all("child"):
            if child is not None:
                state |= {f"{name}.{path}": value for path, value in child.state_dict().items()}
        return state

    def load_state_dict(self, state, strict=True):
        mine = self.state_dict()
        missing = [path for path in mine if path not in state]
        unexpected = [path for path in state if path not in mine]
        wrong = []
        for path, tensor in mine.items():
            if path in state:
                if len(state[path].values) == len(tensor.values):
                    tensor.values[:] = state[path].values
                else:
                    wrong.append(path)
        bad = wrong + (missing + unexpected if strict else [])
        if bad:
            raise RuntimeError("wrong paths: " + ", ".join(bad))
        return missing, unexpected

    def train(self, mode=True):
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self):
        return self.train(False)

    def apply(self, function):
        for _, module in reversed(list(self.named_modules())):
            function(module)
        return self
