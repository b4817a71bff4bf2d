"""Passes by name, and named sequences of them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from torch import fx

from fxopt_core.graphs.editor import GraphEditor
from fxopt_core.passes.base import OptimizationPass, PassResult
from fxopt_core.suggestions import did_you_mean

ENTRY_POINTS = "fxopt.passes"
"""The entry-point group through which other packages bring passes of their own."""

_EXACT = ("dead_code", "constant_folding", "algebraic_simplification", "redundant_layout", "common_subexpressions")

PRESETS: dict[str, tuple[str, ...]] = {
    "exact": _EXACT,
    "inference": (*_EXACT, "conv_batchnorm_folding", "attention_fusion", "linear_activation_fusion"),
    "training": _EXACT,
}
"""Sequences of passes: `exact` changes no bit of a result, `training` keeps gradients, `inference` may fold weights."""

Pass = TypeVar("Pass", bound=type[OptimizationPass])
_PASSES: dict[str, type[OptimizationPass]] = {}


def register_pass(name: str) -> Callable[[Pass], Pass]:
    """Class decorator: make a pass known by its name.

    Raises:
        TypeError: what is decorated is no subclass of `OptimizationPass`.
        ValueError: another pass or a preset has this name, or it is none that `--passes` and the keys of rewrites take.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[\w.-]+", name):
        raise ValueError(
            f"@register_pass is given the name {name!r}; expected letters, digits, `_`, `-` and `.` only. Write "
            '@register_pass("my_pass") over the class.'
        )

    def register(class_: Pass) -> Pass:
        if not (isinstance(class_, type) and issubclass(class_, OptimizationPass)):
            raise TypeError(f"@register_pass({name!r}) is given {class_!r}; expected a subclass of OptimizationPass.")
        known = _PASSES.get(name)
        same = known is not None and (known.__module__, known.__qualname__) == (class_.__module__, class_.__qualname__)
        if name in PRESETS or (known is not None and not same):
            raise ValueError(f"there already is a pass or preset {name!r}; register yours under another name.")
        class_.name = name
        _PASSES[name] = class_
        return class_

    return register


@cache
def _load_entry_points() -> None:
    """Import what other packages bring, once."""
    for entry_point in entry_points(group=ENTRY_POINTS):
        loaded = entry_point.load()
        if isinstance(loaded, type) and entry_point.name not in _PASSES:
            register_pass(entry_point.name)(loaded)


def pass_names() -> list[str]:
    """The names of all passes, sorted."""
    _load_entry_points()
    return sorted(_PASSES)


def make_pass(name: str, **options: Any) -> OptimizationPass:
    """A pass by its name.

    Raises:
        ValueError: there is no such pass; the message offers the nearest names.
        TypeError: the pass takes no such option.
    """
    _load_entry_points()
    if name not in _PASSES:
        hint = did_you_mean(name, [*_PASSES, *PRESETS], most=3)
        raise ValueError(f"there is no pass {name!r}.{hint} The passes are {', '.join(pass_names())}.")
    try:
        return _PASSES[name](**options)
    except TypeError as error:
        raise TypeError(f"the pass {name!r} cannot be made with the options {options}: {error}") from error


def choose_passes(passes: str | Sequence[str | OptimizationPass], **options: Any) -> list[OptimizationPass]:
    """The passes that a preset, a name, or a list of names and passes means.

    Args:
        passes: a preset, a name, or a list of names and passes.
        options: each is given to those of the named passes that take it.

    Raises:
        ValueError: there is no such preset or pass; none of the named passes takes an option, or its value.
        TypeError: something is neither the name of a pass nor a pass.
    """
    if isinstance(passes, str):
        passes = PRESETS.get(passes, (passes,))
    entries: Collection[Any] = passes if isinstance(passes, Collection) else [passes]
    for entry in entries:
        if entries is not passes or not isinstance(entry, (str, OptimizationPass)):
            made_of = f" Write [{entry.__name__}()]." if isinstance(entry, type) else ""
            form = "expected a preset, the name of a pass, or a list of names and passes."
            raise TypeError(f"passes {'holds' if entries is passes else 'is'} {entry!r}; {form}{made_of}")
    taken = {name: _options_of(name) & options.keys() for name in passes if not isinstance(name, OptimizationPass)}
    for option in options.keys() - set().union(*taken.values()):
        raise ValueError(f"none of the passes {', '.join(map(str, taken))} takes the option {option!r}.")
    made = {name: make_pass(name, **{option: options[option] for option in chosen}) for name, chosen in taken.items()}
    return [entry if isinstance(entry, OptimizationPass) else made[entry] for entry in passes]


def _options_of(name: str) -> set[str]:
    """The names of the options that a pass takes; none where there is no such pass."""
    _load_entry_points()
    return set(inspect.signature(_PASSES[name]).parameters) if name in _PASSES else set()


def run_pass(name: str, graph_module: fx.GraphModule, *, recompile: bool = True, **options: Any) -> PassResult:
    """Run one pass on a graph, in place. Weights are never changed: changed ones are registered under new names.

    Args:
        name: of the pass.
        graph_module: the module whose graph is rewritten.
        recompile: whether to generate the module's Python code anew if anything changed.
        options: of the pass.

    Raises:
        ValueError: there is no such pass.
        TypeError: the pass takes no such option.
        PassError: the pass broke its own promise.
    """
    editor = GraphEditor(graph_module, watched=True)
    result = make_pass(name, **options).run(editor)
    editor.finish(recompile=recompile)
    return result
