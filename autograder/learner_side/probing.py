"""What probes use to watch the learner's code. Runs beside that code, so nothing here is proof of anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from autograder.learner_side.stand_in import calls_of


def torch_calls() -> Any:
    """Context: names of the functions and methods of torch that are called meanwhile, in order.

    In a check these are what PyTorch was asked. While a task is graded `without` PyTorch there is none to ask: the name
    is noted, and the exception goes on, by which a grade says "asked PyTorch".
    """
    asked = calls_of("torch")
    return _watching() if asked is None else _absent(asked)


@contextmanager
def _absent(asked: list[str]) -> Iterator[list[str]]:
    names: list[str] = []
    before = len(asked)
    try:
        yield names
    finally:
        names += [name.rpartition(".")[2] for name in asked[before:]]


@contextmanager
def _watching() -> Iterator[list[str]]:
    from torch.overrides import TorchFunctionMode

    class Noting(TorchFunctionMode):
        def __torch_function__(
            self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            names.append(str(getattr(function, "__name__", function)))
            return function(*args, **(kwargs or {}))

    names: list[str] = []
    with Noting():
        yield names
