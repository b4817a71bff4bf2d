"""One table of entries for all kinds, and walks with a stack of their own."""

from dataclasses import dataclass
from typing import Any


class Tensor:
    """Numbers in a list: all that a framework of modules has to know about a tensor."""

    def __init__(self, values):
        self.values = list(values)


class Parameter(Tensor):
    """A tensor that is trained. A module registers it when you assign it."""


@dataclass
class Entry:
    kind: type
    value: Any
    saved: bool = True


class Module:
    """Owns parameters, buffers and children, and finds them again by their names."""

    table: dict[str, Entry]

    def __init__(self):
        object.__setattr__(self, "table", {})
        object.__setattr__(self, "training", True)

    def __getattr__(self, name):
        if name != "table" and name in vars(self).get("table", {}):
            return self.table[name].value
        raise AttributeError(f"no {name} in {type(self).__name__}")

    def __setattr__(self, name, value):
        table = vars(self).get("table", {})
        entry = table.get(name)
        for kind in (Parameter, Module):
            if isinstance(value, kind):
                if "table" not in vars(self):
                    raise AttributeError(f"{name} is assigned before the constructor has run")
                if entry is not None and entry.kind is kind:
                    entry.value = value
                else:
                    table.pop(name, None)
                    vars(self).pop(name, None)
                    table[name] = Entry(kind, value)
                return
            if entry is not None and entry.kind is kind:
                break
        if entry is None:
            object.__setattr__(self, name, value)
        elif value is None or (entry.kind is Tensor and isinstance(value, Tensor)):
            entry.value = value
        else:
            raise TypeError(f"{name} holds a {entry.kind.__name__}")

    def __delattr__(self, name):
        if self.table.pop(name, None) is None:
            object.__delattr__(self, name)

    def register_parameter(self, name, value):
        self.enter(name, Parameter, value, True)

    def register_buffer(self, name, value, persistent=True):
        self.enter(name, Tensor, value, persistent)

    def enter(self, name, kind, value, saved):
        entry = self.table.get(name)
        if name == "" or name.count(".") or (hasattr(self, name) and (entry is None or entry.kind is not kind)):
            raise KeyError(name)
        if not isinstance(value, (kind, type(None))):
            raise TypeError(f"{name} wants a {kind.__name__}")
        if entry is None:
            self.table[name] = Entry(kind, value, saved)
        else:
            entry.value, entry.saved = value, saved

    def filled(self, kind):
        return [(name, one) for name, one in self.table.items() if one.kind is kind and one.value is not None]

    def named_children(self):
        children = {}
        for name, entry in self.filled(Module):
            children.setdefault(id(entry.value), (name, entry.value))
        return list(children.values())

    def named_modules(self):
        found, stack = {}, [("", self)]
        while stack:
            path, module = stack.pop()
            if id(module) not in found:
                found[id(module)] = (path, module)
                below = [(f"{path}.{name}" if path else name, entry.value) for name, entry in module.filled(Module)]
                stack += reversed(below)
        return list(found.values())

    def tensors(self, kind):
        found = {}
        for path, module in self.named_modules():
            for name, entry in module.filled(kind):
                found.setdefault(id(entry.value), (f"{path}.{name}" if path else name, entry.value))
        return list(found.values())

    def named_parameters(self):
        return self.tensors(Parameter)

    def named_buffers(self):
        return self.tensors(Tensor)

    def state_dict(self):
        state = {name: entry.value for kind in (Parameter, Tensor) for name, entry in self.filled(kind) if entry.saved}
        for name, entry in self.filled(Module):
            state.update((f"{name}.{path}", one) for path, one in entry.value.state_dict().items())
        return state

    def load_state_dict(self, state, strict=True):
        wrong, missing, unexpected = [], [], [path for path in state if path not in self.state_dict()]
        for path, tensor in self.state_dict().items():
            if path not in state:
                missing.append(path)
            elif len(tensor.values) != len(state[path].values):
                wrong.append(path)
            else:
                for place, number in enumerate(state[path].values):
                    tensor.values[place] = number
        if strict:
            wrong = wrong + missing + unexpected
        if wrong:
            raise RuntimeError(f"cannot load {wrong}")
        return missing, unexpected

    def train(self, mode=True):
        self.training = mode
        for _, child in self.named_children():
            child.train(mode)
        return self

    def eval(self):
        self.train(False)
        return self

    def apply(self, function):
        [child.apply(function) for _, child in self.named_children()]
        function(self)
        return self
