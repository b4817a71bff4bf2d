"""wrong names

Remembers that a name was a passing buffer's after it was deleted: a parameter of that name is not saved.
"""


class Tensor:
    """Numbers in a list: all that a framework of modules has to know about a tensor."""

    def __init__(self, values):
        self.values = list(values)


class Parameter(Tensor):
    """A tensor that is trained. A module registers it when you assign it."""


KINDS = {"parameter": Parameter, "buffer": Tensor}


class Module:
    """Owns parameters, buffers and children, and finds them again by their names."""

    def __init__(self):
        vars(self).update(training=True, _kinds={}, _passing=set())

    def __setattr__(self, name, value):
        kinds = vars(self).get("_kinds", {})
        old = kinds.get(name)
        new = "parameter" if isinstance(value, Parameter) else "module" if isinstance(value, Module) else None
        if new is not None and "_kinds" not in vars(self):
            raise AttributeError(f"call super().__init__() before you assign {name}")
        if old == "parameter" and new == "module":
            raise TypeError(f"{name} is a parameter")
        if new is None and old is not None and value is not None:
            if old != "buffer" or not isinstance(value, Tensor):
                raise TypeError(f"{name} is a {old}")
        if new is not None and new != old:
            kinds.pop(name, None)
            kinds[name] = new
            self._passing.discard(name)
        vars(self)[name] = value

    def __delattr__(self, name):
        object.__delattr__(self, name)
        self._kinds.pop(name, None)

    def _register(self, kind, name, value):
        if hasattr(self, name) and self._kinds.get(name) != kind:
            raise KeyError(f"{name} is there already")
        if "." in name or not name:
            raise KeyError(f"{name!r} is no name")
        if value is not None and not isinstance(value, KINDS[kind]):
            raise TypeError(f"{name} is to be a {kind}")
        self._kinds[name] = kind
        vars(self)[name] = value

    def register_parameter(self, name, value):
        self._register("parameter", name, value)

    def register_buffer(self, name, value, persistent=True):
        self._register("buffer", name, value)
        self._passing.discard(name)
        if not persistent:
            self._passing.add(name)

    def _own(self, kind):
        """Pairs of name and value of one kind, without those that are empty."""
        every = ((name, vars(self)[name]) for name, other in self._kinds.items() if other == kind)
        return [(name, value) for name, value in every if value is not None]

    def named_children(self):
        return _first_names(self._own("module"))

    def named_modules(self):
        return _first_names(self._all_ways(""))

    def _all_ways(self, path):
        yield path.removesuffix("."), self
        for name, child in self._own("module"):
            yield from child._all_ways(f"{path}{name}.")

    def _tensors(self, kind):
        return _first_names(
            (f"{path}.{name}".removeprefix("."), one)
            for path, module in self._all_ways("")
            for name, one in module._own(kind)
        )

    def named_parameters(self):
        return self._tensors("parameter")

    def named_buffers(self):
        return self._tensors("buffer")

    def state_dict(self):
        state = {}
        for path, module in self._all_ways(""):
            for name, one in module._own("parameter") + module._own("buffer"):
                if name not in module._passing:
                    state[f"{path}.{name}".removeprefix(".")] = one
        return state

    def load_state_dict(self, state, strict=True):
        own = self.state_dict()
        common = [path for path in own if path in state]
        fits = [path for path in common if len(own[path].values) == len(state[path].values)]
        for path in fits:
            own[path].values = list(state[path].values)
        missing, unexpected = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        complaints = {"another size": [path for path in common if path not in fits]}
        if strict:
            complaints |= {"missing": missing, "unexpected": unexpected}
        told = [f"{what}: {', '.join(paths)}" for what, paths in complaints.items() if paths]
        if told:
            raise RuntimeError("\n".join(told))
        return missing, unexpected

    def train(self, mode=True):
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self):
        return self.train(mode=False)

    def apply(self, function):
        for _, child in self.named_children():
            child.apply(function)
        function(self)
        return self


def _first_names(pairs):
    """The pairs whose second part has not been there before."""
    seen = []
    for name, one in pairs:
        if not any(one is other for other in seen):
            seen.append(one)
            yield name, one
