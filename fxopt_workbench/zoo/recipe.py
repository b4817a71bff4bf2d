"""What the zoo knows of a model before it is built."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import nn

ExampleInputs = tuple[Any, ...] | dict[str, Any]
"""Positional or keyword arguments."""

Builder = Callable[[], tuple[nn.Module, ExampleInputs]]
"""Makes a model and example inputs on torch's default device, drawing from torch's default generator."""

SizeName = Literal["tiny", "moderate", "published"]
"""For tests (milliseconds a call), for benchmarks (tens of milliseconds on two cores), or as it was published."""


@dataclass(frozen=True)
class Recipe:
    """How to build one model.

    Attributes:
        build: makes it.
        description: what it is and what it is good for, in a sentence.
        size: how large it is.
        ready: whether it is made with values, also for the device `meta`.
        own: whether it is somebody's own, which comes in a mode of their choice.
    """

    build: Builder
    description: str
    size: SizeName = "tiny"
    ready: bool = False
    own: bool = False
