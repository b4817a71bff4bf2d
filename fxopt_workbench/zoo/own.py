"""A learner's own model, named as `module:factory`; so comes any installed library's model in, too."""

from __future__ import annotations

import importlib
import inspect
import sys
import traceback
from pathlib import Path
from typing import Any

from torch import nn

from fxopt_core.suggestions import did_you_mean
from fxopt_workbench.zoo.recipe import ExampleInputs, Recipe

FACTORY = "a function without arguments that returns (model, example_inputs)"
MOST_LISTED = 8
"""How many functions of a module a message lists where none of them is near."""

EXPECTED = (
    "expected a pair (model, example_inputs): a torch.nn.Module, and a tuple of positional arguments or a dictionary "
    "of keyword arguments"
)


class OwnModelError(ValueError):
    """`module:factory` names no module or factory, or the factory does not give a model and example inputs."""


def recipe(name: str) -> Recipe:
    """The recipe behind `module:factory`; the current folder joins the path of imports, last.

    The factory takes no arguments and returns (model, example_inputs). The first line of its docstring is the
    description.

    Raises:
        OwnModelError: no such module or factory, or importing the module failed. Building it raises this error when
            the factory fails or returns anything else. The message says what was expected; the cause is attached.
    """
    module_name, _, factory_name = name.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), *factory_name.split("."))):
        raise OwnModelError(f"{name!r} is not of the form module:factory; expected, say, mypackage.mymodule:build.")
    if str(Path.cwd()) not in sys.path:
        # As for `python -m`; an installed command does not look there. What is installed goes first.
        sys.path.append(str(Path.cwd()))
    factory = _find(module_name, factory_name)

    def build() -> tuple[nn.Module, ExampleInputs]:
        try:
            result = factory()
        except (Exception, SystemExit) as error:
            raise OwnModelError(f"the factory {name} failed: {_in_short(error)}.") from error
        return checked(f"the factory {name} returned", result)

    documented = (factory.__doc__ or "").strip().splitlines()
    return Recipe(build, documented[0] if documented else f"Made by {name}.", own=True)


def _find(module_name: str, factory_name: str) -> Any:
    importlib.invalidate_caches()
    try:
        found: Any = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            raise OwnModelError(
                f"there is no module {error.name!r}, neither installed nor in the current folder {Path.cwd()}."
            ) from error
        raise OwnModelError(f"the module {module_name} cannot be imported: {_in_short(error)}.") from error
    for part in factory_name.split("."):
        if not hasattr(found, part):
            raise OwnModelError(
                f"the module {module_name} has no {factory_name!r}; expected the name of {FACTORY}."
                f"{did_you_mean(part, dir(found), most=1) or _functions_of(found)}"
            )
        found = getattr(found, part)
    if not callable(found) or isinstance(found, nn.Module):
        raise OwnModelError(f"{module_name}:{factory_name} is of the type {type(found).__name__}; expected {FACTORY}.")
    if needed := _needed_by(found):
        raise OwnModelError(
            f"the factory {module_name}:{factory_name} needs {' and '.join(map(repr, needed))}; expected {FACTORY}. "
            "Write one that calls it with what it needs."
        )
    return found


def _functions_of(module: Any) -> str:
    """A sentence that lists the functions which a module defines itself; nothing where it defines none."""
    names = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == getattr(module, "__name__", None) and name[0] != "_"
    ]
    more = ", …" if len(names) > MOST_LISTED else ""
    return f" Its functions are {', '.join(names[:MOST_LISTED])}{more}." if names else ""


def _needed_by(factory: Any) -> list[str]:
    """The names of the arguments without which a factory cannot be called."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except ValueError:  # some of what is written in C does not say
        return []
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one.name for one in parameters if one.default is one.empty and one.kind not in optional]


def checked(who: str, result: Any) -> tuple[nn.Module, ExampleInputs]:
    """The pair of a model and its example inputs.

    Args:
        who: begins the message when it is none, such as `the factory a:b returned`.
        result: what should be that pair.

    Raises:
        OwnModelError: it is anything else.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        size = f" of {len(result)}" if isinstance(result, tuple) else ""
        wrong = f"a {type(result).__name__}{size}"
    elif not isinstance(result[0], nn.Module):
        wrong = f"a model of the type {type(result[0]).__name__}"
    elif not isinstance(result[1], tuple | dict):
        wrong = f"example inputs of the type {type(result[1]).__name__} (a single tensor x is given as (x,))"
    elif isinstance(result[1], dict) and not all(isinstance(key, str) for key in result[1]):
        wrong = f"example inputs with the keywords {list(result[1])}"
    else:
        return result
    raise OwnModelError(f"{who} {wrong}; {EXPECTED}.")


def _in_short(error: BaseException) -> str:
    """Kind, message and place of an error in one line."""
    said = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    # Of our own lines none is to blame.
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    if isinstance(error, SyntaxError) or not places:
        return said  # a syntax error names the place itself
    return f"{said} ({Path(places[-1].filename).name}, line {places[-1].lineno})"
