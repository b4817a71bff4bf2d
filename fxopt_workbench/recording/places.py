"""Where in the user's program an operator was called."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

_NOT_THE_USERS = (str(Path(torch.__file__).parent), str(Path(__file__).parent))


@dataclass(frozen=True)
class Place:
    """A line of the user's program.

    Attributes:
        file: its path.
        line: number, from 1.
        function: in which it stands.
    """

    file: str
    line: int
    function: str

    @property
    def code(self) -> str:
        """The line itself."""
        return linecache.getline(self.file, self.line).strip()

    @property
    def stack_trace(self) -> str:
        """As Python prints it, and torch keeps it in `node.meta`."""
        return f'  File "{self.file}", line {self.line}, in {self.function}\n    {self.code}\n'

    def __str__(self) -> str:
        return f"{'/'.join(Path(self.file).parts[-2:])}:{self.line} in {self.function}"


def current_place() -> Place:
    """The innermost line that is neither torch's nor the recorder's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)


@contextmanager
def module_stack(model: Any) -> Iterator[dict[str, tuple[str, str]]]:
    """The modules of `model` that are being called, outermost first, as torch keeps them in `node.meta`.

    Yields:
        A dictionary that changes as modules are entered and left: name → (path, class).
    """
    paths = {id(module): path for path, module in model.named_modules()} if isinstance(model, nn.Module) else {}
    stack: dict[str, tuple[str, str]] = {}

    def enter(module: nn.Module, _: Any) -> None:
        if id(module) in paths:
            path = paths[id(module)]
            stack[f"{path}@{len(stack)}"] = (path, f"{type(module).__module__}.{type(module).__qualname__}")

    def leave(module: nn.Module, *_: Any) -> None:
        if id(module) in paths:
            stack.popitem()

    handles = (register_module_forward_pre_hook(enter), register_module_forward_hook(leave, always_call=True))
    try:
        yield stack
    finally:
        for handle in handles:
            handle.remove()
