"""Engines that do what they should not, and two that are right. Loaded by the processes in which engines are tried."""

from __future__ import annotations

import inspect
import os
import time
from pathlib import Path

import torch

from fxopt_workbench.engines.engine import Engine
from fxopt_workbench.engines.program import Program, Run


def _right(program: Program, folder: Path, threads: int) -> Run:
    return program.graph.forward


def _slow(program: Program, folder: Path, threads: int) -> Run:
    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        time.sleep(0.02)
        return list(program.graph(*tensors))

    return run


def _crashes(program: Program, folder: Path, threads: int) -> Run:
    os.abort()


def _raises(program: Program, folder: Path, threads: int) -> Run:
    raise RuntimeError("this engine takes no such graph\nand says more")


def _hangs(program: Program, folder: Path, threads: int) -> Run:
    while True:
        time.sleep(1)


def _wrong(program: Program, folder: Path, threads: int) -> Run:
    return lambda *tensors: [one + 0.25 for one in program.graph(*tensors)]


def _leaks(program: Program, folder: Path, threads: int) -> Run:
    kept = []

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        kept.append(torch.ones(1 << 20))
        return list(program.graph(*tensors))

    return run


def _overwrites(program: Program, folder: Path, threads: int) -> Run:
    kept: list[torch.Tensor] = []

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        found = program.graph(*tensors)
        if not kept:
            kept.extend(one.clone() for one in found)
        for old, new in zip(kept, found, strict=True):
            old.copy_(new)
        return list(kept)

    return run


def _crashes_later(program: Program, folder: Path, threads: int) -> Run:
    """Crashes while it is timed."""

    def run(*tensors: torch.Tensor) -> list[torch.Tensor]:
        if any(one.function == "seconds" for one in inspect.stack(context=0)):
            os.abort()
        return list(program.graph(*tensors))

    return run


EAGER_SLOWED = Engine("eager", _slow, gradients=True, effects=True, live_weights=True, other_sizes=True)
RIGHT = Engine("right", _right)
CRASHES = Engine("crashes", _crashes)
CRASHES_LATER = Engine("crashes_later", _crashes_later)
RAISES = Engine("raises", _raises)
HANGS = Engine("hangs", _hangs)
WRONG = Engine("wrong", _wrong)
LEAKS = Engine("leaks", _leaks)
OVERWRITES = Engine("overwrites", _overwrites)
MISSING = Engine("missing", _right, {"no-such-package": "no_such_package"})
