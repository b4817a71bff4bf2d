"""wrong result

Returns missing and unexpected paths as sets.
"""


class Tensor:
    """Numbers in a list: all that a framework of modules has to know about a tensor."""

    def __init__(self, values):
        self.values = list(values)


class Parameter(Tensor):
    """A tensor that is trained. A module registers it when you assign it."""


class Module:
    """Owns parameters, buffers and children, and finds them again by their names."""

    def __init__(self):
        self.__dict__.update(training=True, _parameters={}, _modules={}, _buffers={}, _passing=set())

    def __getattr__(self, name):
        """Python asks here when it has found no plain attribute."""
        for place in ("_parameters", "_modules", "_buffers"):
            if name in self.__dict__.get(place, {}):
                return self.__dict__[place][name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __setattr__(self, name, value):
        """Decide what an assignment means."""
        for place, kind in (("_parameters", Parameter), ("_modules", Module), ("_buffers", Tensor)):
            entries = self.__dict__.get(place)
            if isinstance(value, kind) and place != "_buffers":
                if entries is None:
                    raise AttributeError(f"cannot assign {name!r} before super().__init__()")
                self.take_out(name, but=place)
                entries[name] = value
                return
            if name in (entries or {}):
                if value is not None and not isinstance(value, kind):
                    raise TypeError(f"{name!r} takes a {kind.__name__} or None, not a {type(value).__name__}")
                entries[name] = value
                return
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        """Take a name away."""
        if not any(name in self.__dict__[place] for place in ("_parameters", "_modules", "_buffers")):
            object.__delattr__(self, name)
        self.take_out(name)

    def register_parameter(self, name, value):
        """Register a parameter, or an empty entry for one."""
        if value is not None and not isinstance(value, Parameter):
            raise TypeError(f"{name!r} takes a Parameter or None, not a {type(value).__name__}")
        self.check(name, self._parameters)
        self._parameters[name] = value

    def register_buffer(self, name, value, persistent=True):
        """Register a buffer, or an empty entry for one."""
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"{name!r} takes a Tensor or None, not a {type(value).__name__}")
        self.check(name, self._buffers)
        self._buffers[name] = value
        if persistent:
            self._passing.discard(name)
        else:
            self._passing.add(name)

    def named_children(self):
        """Pairs of name and child."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def named_modules(self, path="", seen=None):
        """Pairs of path and module, of which none has been seen."""
        seen = set() if seen is None else seen
        if id(self) not in seen:
            seen.add(id(self))
            yield path, self
            for name, child in self._modules.items():
                if child is not None:
                    yield from child.named_modules(f"{path}.{name}" if path else name, seen)

    def named_parameters(self):
        """Pairs of path and parameter."""
        return self.members("_parameters")

    def named_buffers(self):
        """Pairs of path and buffer."""
        return self.members("_buffers")

    def state_dict(self):
        """The tensors to save, by path."""
        lasting = {name: one for name, one in self._buffers.items() if name not in self._passing}
        state = {name: one for name, one in (self._parameters | lasting).items() if one is not None}
        for name, child in self._modules.items():
            if child is not None:
                state |= {f"{name}.{path}": one for path, one in child.state_dict().items()}
        return state

    def load_state_dict(self, state, strict=True):
        """Copy numbers into the tensors of this module and of all below."""
        own = self.state_dict()
        missing = [path for path in own if path not in state]
        unexpected = [path for path in state if path not in own]
        wrong = [*missing, *unexpected] if strict else []
        for path in (path for path in own if path in state):
            if len(own[path].values) == len(state[path].values):
                own[path].values[:] = state[path].values
            else:
                wrong.append(path)
        if wrong:
            raise RuntimeError(f"these don't fit: {', '.join(wrong)}")
        return set(missing), set(unexpected)

    def train(self, mode=True):
        """Switch to training mode, here and below."""
        self.training = mode
        for _, child in self.named_children():
            child.train(mode)
        return self

    def eval(self):
        """Switch training mode off, here and below."""
        return self.train(False)

    def apply(self, function):
        """Call a function with every module below, and with this one last."""
        for _, child in self.named_children():
            child.apply(function)
        function(self)
        return self

    # Further methods of your own go here. These are only suggestions.
    def check(self, name, entries):
        """Refuse a name that cannot be registered, or stands for something that is not in these entries."""
        if not name or "." in name or (hasattr(self, name) and name not in entries):
            raise KeyError(f"{name!r} is empty, has a dot, or stands for something else")

    def take_out(self, name, but=None):
        """Remove a name from everywhere, or from all places but one."""
        for place in {"_parameters", "_modules", "_buffers"} - {but}:
            self.__dict__[place].pop(name, None)
        self.__dict__.pop(name, None)
        self._passing.discard(name)

    def members(self, place):
        """The tensors of all modules that one of their dictionaries holds."""
        seen = set()
        for path, module in self.named_modules():
            for name, one in module.__dict__[place].items():
                if one is not None and id(one) not in seen:
                    seen.add(id(one))
                    yield f"{path}.{name}" if path else name, one
