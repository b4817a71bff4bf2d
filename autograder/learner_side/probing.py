"""What probes use to watch the learner's code. Runs beside that code, so nothing here is proof of anything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.overrides import TorchFunctionMode


class _Noting(TorchFunctionMode):
    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self._names = names

    def __torch_function__(
        self, function: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self._names.append(str(getattr(function, "__name__", function)))
        return function(*args, **(kwargs or {}))


@contextmanager
def torch_calls() -> Iterator[list[str]]:
    """Names of the functions and methods of torch that are called meanwhile, in order."""
    names: list[str] = []
    with _Noting(names):
        yield names
