"""slot takes anything

Asks for the value's kind first, and lets a module take a parameter's place.
"""


class Tensor:
    """Numbers in a list: all that a framework of modules has to know about a tensor."""

    def __init__(self, values):
        self.values = list(values)


class Parameter(Tensor):
    """A tensor that is trained. A module registers it when you assign it."""


class Module:
    """Owns parameters, buffers and children, and finds them again by their names."""

    # All kinds stand in one dictionary, name -> [kind, value, persistent]; its order is the order within each kind.

    def __init__(self):
        self.__dict__.update(training=True, _entries={})

    def __getattr__(self, name):
        """Python asks here when it has found no plain attribute."""
        entry = self.__dict__.get("_entries", {}).get(name)
        if entry is None:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return entry[1]

    def __setattr__(self, name, value):
        """Decide what an assignment means."""
        kind = self._entry(name)[0]
        if isinstance(value, Parameter):
            self.check(name, replaces=True)
            self._enter(name, "parameter", value)
        elif isinstance(value, Module):
            self._ready(name)
            self._enter(name, "child", value)
        elif kind == "parameter":
            if value is not None:
                raise TypeError(f"{name!r} is a parameter, and takes a Parameter or None")
            self._entries[name][1] = None
        elif kind == "child":
            if value is not None:
                raise TypeError(f"{name!r} is a child, and takes a Module or None")
            self._entries[name][1] = None
        elif kind == "buffer":
            if not (value is None or isinstance(value, Tensor)):
                raise TypeError(f"{name!r} is a buffer, and takes a Tensor or None")
            self._entries[name][1] = value
        else:
            object.__setattr__(self, name, value)

    def __delattr__(self, name):
        """Take a name away."""
        if self._entry(name)[0] is not None:
            del self._entries[name]
        elif name in self.__dict__:
            del self.__dict__[name]
        else:
            try:
                object.__delattr__(self, name)  # A property may know what to do.
            except AttributeError as error:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r} to delete") from error

    def register_parameter(self, name, value):
        """Register a parameter, or an empty entry for one."""
        self.check(name, kind="parameter")
        if not (value is None or isinstance(value, Parameter)):
            raise TypeError(f"{name!r} takes a Parameter or None")
        self._enter(name, "parameter", value)

    def register_buffer(self, name, value, persistent=True):
        """Register a buffer, or an empty entry for one."""
        self.check(name, kind="buffer")
        if not (value is None or isinstance(value, Tensor)):
            raise TypeError(f"{name!r} takes a Tensor or None")
        self._enter(name, "buffer", value, persistent)

    def named_children(self):
        """Pairs of name and child."""
        seen = set()
        for name, child in self._of("child"):
            if id(child) not in seen:
                seen.add(id(child))
                yield name, child

    def named_modules(self, path="", seen=None):
        """Pairs of path and module, of which none has been seen."""
        seen = set() if seen is None else seen
        if id(self) in seen:
            return
        seen.add(id(self))
        yield path, self
        for name, child in self._of("child"):
            yield from child.named_modules(f"{path}.{name}" if path else name, seen)

    def named_parameters(self):
        """Pairs of path and parameter."""
        return self.members("parameter")

    def named_buffers(self):
        """Pairs of path and buffer."""
        return self.members("buffer")

    def state_dict(self):
        """The tensors to save, by path."""
        state = dict(self._of("parameter"))
        state.update((name, value) for name, value in self._of("buffer") if self._entries[name][2])
        for name, child in self._of("child"):
            for path, tensor in child.state_dict().items():
                state[f"{name}.{path}"] = tensor
        return state

    def load_state_dict(self, state, strict=True):
        """Copy numbers into the tensors of this module and of all below."""
        own = self.state_dict()
        missing = [path for path in own if path not in state]
        unexpected = [path for path in state if path not in own]
        misfits = []
        for path, tensor in own.items():
            if path not in state:
                continue
            if len(state[path].values) != len(tensor.values):
                misfits.append(path)
            else:
                tensor.values[:] = state[path].values
        wrong = misfits + (missing + unexpected if strict else [])
        if wrong:
            raise RuntimeError(", ".join(wrong))
        return missing, unexpected

    def train(self, mode=True):
        """Switch to training mode, here and below."""
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self):
        """Switch training mode off, here and below."""
        return self.train(False)

    def apply(self, function):
        """Call a function with every module below, and with this one last."""
        for _, child in list(self.named_children()):
            child.apply(function)
        function(self)
        return self

    def _ready(self, name):
        if "_entries" not in self.__dict__:
            raise AttributeError(f"cannot register {name!r} before super().__init__() has run")

    def _entry(self, name):
        return self.__dict__.get("_entries", {}).get(name, (None, None, None))

    def _enter(self, name, kind, value, persistent=True):
        self.__dict__.pop(name, None)
        if self._entry(name)[0] == kind:
            self._entries[name][1:] = [value, persistent]  # It keeps its place.
        else:
            self._entries.pop(name, None)
            self._entries[name] = [kind, value, persistent]

    def _of(self, kind):
        return [(name, value) for name, (one, value, _) in self._entries.items() if one == kind and value is not None]

    def check(self, name, kind=None, replaces=False):
        """Refuse a name that cannot be registered, or stands for something else."""
        self._ready(name)
        if name == "" or "." in name:
            raise KeyError(f"{name!r} cannot be the name of an attribute: it is empty or has a dot")
        taken = any(name in one.__dict__ for one in type(self).__mro__)
        if not replaces:
            taken = taken or name in self.__dict__ or self._entry(name)[0] not in (None, kind)
        if taken:
            raise KeyError(f"{name!r} already stands for something else")

    def members(self, kind):
        """The tensors of all modules that are of one kind."""
        seen = set()
        for path, module in self.named_modules():
            for name, tensor in module._of(kind):
                if id(tensor) not in seen:
                    seen.add(id(tensor))
                    yield (f"{path}.{name}" if path else name), tensor
