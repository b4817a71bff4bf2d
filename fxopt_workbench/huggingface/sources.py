"""The source text of a model."""

from __future__ import annotations

import inspect

import torch


def source_of_forward(module: torch.nn.Module) -> str:
    """The text of `forward` as the module's class defines it; empty where Python does not know it, as after `exec`."""
    try:
        return inspect.getsource(type(module).forward)
    except (OSError, TypeError):
        return ""
