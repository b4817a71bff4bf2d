"""Modules that a model converts in each call, although they are of that dtype: `self.head = self.head.to(self.dtype)`.

The first call converts, and every later one leaves all as it is. A graph that is recorded cannot go through it all the
same: inside, parameters stand for those of the model and cannot be exchanged. In transformers, the routers of Switch
Transformers and NLLB-MoE do so.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from fxopt_workbench.huggingface.sources import source_of_forward

_CONVERTED = re.compile(r"self\.(\w+) = self\.\1\.to\(")


def leave_converted_modules(model: torch.nn.Module) -> bool:
    """Let modules that are converted to what they are stay as they are; whether the model has any such."""
    parts = [
        getattr(module, name, None)
        for module in model.modules()
        for name in _CONVERTED.findall(source_of_forward(module))
    ]
    found = [part for part in parts if isinstance(part, torch.nn.Module)]
    for part in found:
        setattr(part, "to", partial(_to, part, part.to))  # noqa: B010  mypy knows it as a method
    return bool(found)


def _to(module: torch.nn.Module, convert: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    device, dtype, _, layout = torch._C._nn._parse_to(*args, **kwargs)
    for tensor in (*module.parameters(), *module.buffers()):
        typed = tensor.is_floating_point() or tensor.is_complex()
        if layout or device not in (None, tensor.device) or (typed and dtype not in (None, tensor.dtype)):
            return convert(*args, **kwargs)
    return module
