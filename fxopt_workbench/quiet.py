"""What torch logs of itself, left out for a while. Imports no torch."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_logs(*names: str) -> Iterator[None]:
    """Have loggers say nothing inside.

    Args:
        names: of the loggers, such as `torch._subclasses.fake_tensor`.
    """
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
