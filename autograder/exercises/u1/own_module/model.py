"""A module framework that can make each of the mistakes: only to name what a learner's did. PyTorch decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from autograder.exercises.u1.own_module.visible import Framework, learners


class Tensor:
    """Numbers in a list."""

    def __init__(self, values: list[int]) -> None:
        self.values = list(values)


class Parameter(Tensor):
    """A tensor that a module registers when it is assigned."""


ANY_PARAMETER = ("registers anything", "registers any parameter")
ANY_BUFFER = ("registers anything", "registers any buffer")


class Model:
    """Modules by PyTorch's rules, but for the flaw that a subclass names."""

    flaw = ""

    def __init__(self) -> None:
        for name, value in (("training", True), ("_parameters", {}), ("_buffers", {}), ("_modules", {})):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_passing", set())

    def __getattr__(self, name: str) -> Any:
        for registry in ("_parameters", "_modules", "_buffers"):
            if name in self.__dict__.get(registry, {}):
                return self.__dict__[registry][name]
        raise AttributeError(f"there is no {name}")

    def __setattr__(self, name: str, value: Any) -> None:
        if "_modules" not in self.__dict__:
            if isinstance(value, (Parameter, Model)) and self.flaw != "before the constructor":
                raise AttributeError(self._said(f"cannot assign {name} before Module.__init__()"))
            object.__setattr__(self, name, value)
            return
        registries = {"_parameters": Parameter, "_modules": Model, "_buffers": Tensor}
        if value is None and self.flaw == "None is no entry":
            self._forget(name)
            object.__setattr__(self, name, None)
            return
        for registry in ("_parameters", "_modules"):
            kind = registries[registry]
            if isinstance(value, kind):
                self._move(registry, name, value)
                return
            if name in self.__dict__[registry]:
                if value is None or self.flaw == "slot takes anything":
                    self.__dict__[registry][name] = value
                    return
                if self.flaw == "slot becomes plain":
                    self._forget(name)
                    break
                raise TypeError(self._said(f"{name} takes a {kind.__name__} or None"))
        if isinstance(value, Tensor) and self.flaw == "tensors become buffers":
            self._move("_buffers", name, value)
        elif name in self._buffers and self.flaw != "buffer becomes plain":
            if value is not None and not isinstance(value, Tensor) and self.flaw != "slot takes anything":
                if self.flaw == "slot becomes plain":
                    self._forget(name)
                    object.__setattr__(self, name, value)
                    return
                raise TypeError(self._said(f"{name} takes a tensor or None"))
            if self.flaw == "persistence forgotten":
                self._passing.discard(name)
            self._buffers[name] = value
        else:
            if self.flaw == "buffer becomes plain":
                self._forget(name)
            object.__setattr__(self, name, value)

    def _said(self, message: str) -> str:
        return "" if self.flaw == "bare errors" else message

    def _forget(self, name: str) -> None:
        for registry in ("__dict__", "_parameters", "_buffers", "_modules"):
            names = object.__getattribute__(self, registry)
            if name in names:
                del names[name]
        self._passing.discard(name)

    def _move(self, registry: str, name: str, value: Any) -> None:
        """Register under a name, and take what had it out of the other places."""
        place = self.__dict__[registry]
        for other in ("__dict__", "_parameters", "_buffers", "_modules"):
            names = object.__getattribute__(self, other)
            if other == "__dict__" and self.flaw == "plain attribute in the way":
                continue
            if other not in ("__dict__", registry) and self.flaw == "registered twice":
                continue
            if name in names and (names is not place or self.flaw == "replaced goes last"):
                del names[name]
        if self.flaw != "registered twice":
            self._passing.discard(name)
        place[name] = value

    def __delattr__(self, name: str) -> None:
        found = False
        for registry in ("_parameters", "_buffers", "_modules"):
            if registry == "_buffers" and self.flaw == "buffers cannot be deleted":
                continue
            if name in self.__dict__[registry]:
                if self.flaw == "deleted leaves None":
                    self.__dict__[registry][name] = None
                else:
                    del self.__dict__[registry][name]
                found = True
                break
        if not found:
            object.__delattr__(self, name)

    def _check(self, registry: str, name: str) -> None:
        if (not name or "." in name) and self.flaw != "any name":
            raise KeyError(f"{name!r} is no name")
        if hasattr(self, name) and name not in self.__dict__[registry] and self.flaw != "overwrites what is there":
            raise KeyError(self._said(f"there is {name} already"))

    def register_parameter(self, name: str, value: Any) -> None:
        """Register a parameter."""
        self._check("_parameters", name)
        if value is not None and not isinstance(value, Parameter) and self.flaw not in ANY_PARAMETER:
            raise TypeError(f"{name} takes a Parameter or None")
        if self.flaw == "overwrites what is there":
            self._forget(name)
        self._parameters[name] = value

    def register_buffer(self, name: str, value: Any, persistent: bool = True) -> None:
        """Register a buffer."""
        self._check("_buffers", name)
        if value is not None and not isinstance(value, Tensor) and self.flaw not in ANY_BUFFER:
            raise TypeError(f"{name} takes a tensor or None")
        if self.flaw == "overwrites what is there":
            self._forget(name)
        self._buffers[name] = value
        (self._passing.discard if persistent else self._passing.add)(name)

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """Pairs of name and child."""
        seen: set[int] = set()
        for name, child in self._modules.items():
            if child is not None and (id(child) not in seen or self.flaw == "child named twice"):
                seen.add(id(child))
                yield name, child

    def named_modules(self, seen: set[int] | None = None, prefix: str = "") -> Iterator[tuple[str, Any]]:
        """Pairs of path and module."""
        seen = set() if seen is None else seen
        if id(self) in seen and self.flaw != "shared module named twice":
            return
        seen.add(id(self))
        if self.flaw == "breadth first":
            yield from self._level_by_level()
            return
        if self.flaw != "deepest first" and (prefix or self.flaw != "root left out"):
            yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                path = name if self.flaw == "no path" else f"{prefix}.{name}" if prefix else name
                yield from child.named_modules(seen, path)
        if self.flaw == "deepest first":
            yield prefix, self

    def _level_by_level(self) -> Iterator[tuple[str, Any]]:
        waiting: list[tuple[str, Any]] = [("", self)]
        seen: set[int] = set()
        for prefix, module in waiting:
            if id(module) not in seen:
                seen.add(id(module))
                yield prefix, module
                children = [(name, child) for name, child in module._modules.items() if child is not None]
                waiting += [(f"{prefix}.{name}" if prefix else name, child) for name, child in children]

    def _members(self, registry: str) -> Iterator[tuple[str, Any]]:
        seen: set[int] = set()
        for prefix, module in self._walk(registry):
            for name, value in module.__dict__[registry].items():
                if value is None and self.flaw != "None is counted":
                    continue
                if value is not None and id(value) in seen and self.flaw != "shared parameter named twice":
                    continue
                seen.add(id(value))
                yield f"{prefix}.{name}" if prefix else name, value

    def _walk(self, registry: str) -> Iterator[tuple[str, Any]]:
        if self.flaw == "root left out":
            yield "", self
        if self.flaw == "one level" and registry in ("_parameters", "_buffers"):
            yield "", self
            yield from self.named_children()
            return
        yield from self.named_modules()

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Pairs of path and parameter."""
        return self._members("_parameters")

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """Pairs of path and buffer."""
        return self._members("_buffers")

    def state_dict(self, prefix: str = "") -> dict[str, Any]:
        """The tensors to save, by path."""
        if self.flaw == "state without repeats":
            return {
                **dict(self.named_parameters()),
                **{name: one for name, one in self.named_buffers() if self._lasts(name)},
            }
        entries = [*self._parameters.items()]
        if self.flaw != "buffers not saved":
            entries += [
                (name, one)
                for name, one in self._buffers.items()
                if name not in self._passing or self.flaw == "passing buffers saved"
            ]
        if self.flaw == "buffers first":
            entries = entries[len(self._parameters) :] + entries[: len(self._parameters)]
        state = {prefix + name: one for name, one in entries if one is not None}
        if self.flaw == "copies saved":
            state = {name: type(one)(one.values) for name, one in state.items()}
        for name, child in self._modules.items():
            if child is not None:
                state |= child.state_dict(f"{prefix}{name}.")
        return state

    def _lasts(self, path: str) -> bool:
        module: Any = self
        *names, last = path.split(".")
        for name in names:
            module = module._modules[name]
        return last not in module._passing

    def load_state_dict(self, state: dict[str, Any], strict: bool = True) -> Any:
        """Copy numbers into the tensors."""
        own = self.state_dict()
        missing = [name for name in own if name not in state]
        unexpected = [name for name in state if name not in own]
        other = [name for name in own if name in state and len(own[name].values) != len(state[name].values)]
        wrong = [*missing, *unexpected, *other] if strict else other
        if self.flaw == "missing accepted":
            wrong = [name for name in wrong if name not in missing]
        if self.flaw == "unexpected accepted":
            wrong = [name for name in wrong if name not in unexpected]
        if self.flaw == "other sizes accepted":
            wrong = [name for name in wrong if name not in other]
        if self.flaw == "strict is ignored":
            wrong = [*missing, *unexpected, *other]
        if self.flaw == "not strict forgives sizes" and not strict:
            wrong = []
        if wrong and self.flaw == "all or nothing":
            raise RuntimeError(", ".join(wrong))
        for name, one in own.items():
            if name in state and (name not in other or self.flaw == "other sizes accepted"):
                if self.flaw == "loading replaces":
                    self._replace(name, state[name])
                elif self.flaw == "loading keeps the list":
                    one.values = state[name].values
                elif self.flaw == "emptied before it is copied":
                    one.values.clear()
                    one.values.extend(state[name].values)
                else:
                    one.values[:] = state[name].values
        if wrong:
            told = {"unnamed": [], "first only": wrong[:1]}.get(self.flaw, wrong)
            raise RuntimeError(", ".join(told))
        return None if self.flaw == "loading returns nothing" else (missing, unexpected)

    def _replace(self, path: str, value: Any) -> None:
        module: Any = self
        *names, last = path.split(".")
        for name in names:
            module = module._modules[name]
        registry = module._parameters if last in module._parameters else module._buffers
        registry[last] = type(registry[last])(value.values)

    def train(self, mode: bool = True) -> Any:
        """Switch to training mode."""
        self.training = mode
        if self.flaw != "one module only":
            for _, child in self.named_children():
                child.train(mode)
        return None if self.flaw == "train returns nothing" else self

    def eval(self) -> Any:
        """Switch training mode off."""
        return self.train(False)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """Call a function with every module."""
        if self.flaw == "parent first":
            function(self)
        for _, child in self.named_children():
            child.apply(function)
        if self.flaw != "parent first":
            function(self)
        return None if self.flaw == "apply returns nothing" else self


FLAWS = (
    "plain attribute in the way",
    "registered twice",
    "slot takes anything",
    "slot becomes plain",
    "None is no entry",
    "None is counted",
    "persistence forgotten",
    "tensors become buffers",
    "buffer becomes plain",
    "replaced goes last",
    "buffers cannot be deleted",
    "deleted leaves None",
    "before the constructor",
    "any name",
    "overwrites what is there",
    "registers anything",
    "registers any parameter",
    "registers any buffer",
    "child named twice",
    "shared module named twice",
    "shared parameter named twice",
    "deepest first",
    "breadth first",
    "root left out",
    "no path",
    "one level",
    "buffers not saved",
    "buffers first",
    "passing buffers saved",
    "copies saved",
    "state without repeats",
    "missing accepted",
    "unexpected accepted",
    "other sizes accepted",
    "strict is ignored",
    "not strict forgives sizes",
    "all or nothing",
    "loading replaces",
    "loading keeps the list",
    "emptied before it is copied",
    "first only",
    "unnamed",
    "bare errors",
    "one module only",
    "parent first",
    "train returns nothing",
    "apply returns nothing",
    "loading returns nothing",
)
"""Mistakes that the model can make, each by itself."""


def framework(flaw: str = "") -> Framework:
    """The model's classes, with a flaw of `FLAWS` or with none."""
    return learners(type("Flawed", (Model,), {"flaw": flaw}), Parameter, Tensor)
