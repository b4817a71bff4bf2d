"""Hearing what Dynamo tells its own debug log, without printing it and without changing the user's log settings.

Dynamo offers no complete record of its graph breaks. Measured on torch 2.13 with a model whose loop prints:
`torch._dynamo.explain(...).break_reasons`, `torch._dynamo.utils.graph_break_reasons` and
`counters["graph_break"]` are all empty, since Dynamo leaves the whole function to Python; and a
data-dependent `if` appears there only as `generic_jump TensorVariable()`. The log that
`TORCH_LOGS=graph_breaks` prints has both, with reason, file and line. Likewise the sizes that a guard compares
are in the log of `TORCH_LOGS=guards`, not in `explain(...).out_guards`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

# Importing registers the loggers that are listened to.
import torch._dynamo

_REPEATED_IN_THE_REPORT: dict[str, str | tuple[str, ...]] = {
    "torch._dynamo.variables.tensor": "Graph break from",
    "torch.fx.experimental.symbolic_shapes": ("Unable to find user code corresponding to", "propagate_real_tensors"),
    "torch._guards": ("Error while creating guard", "Created at"),
}
"""Logger, and how the warnings begin that say what a graph break or an error says anyway."""


class _Listener(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@contextmanager
def listening(artifact: str) -> Iterator[list[str]]:
    """Collect what is logged for one of torch's log artifacts (`graph_breaks`, `guards`) inside the block.

    Nothing is printed that would not be printed anyway; levels and handlers are put back at the end.
    """
    listener = _Listener()
    found = [
        logging.getLogger(name) for name in list(logging.root.manager.loggerDict) if name.endswith(f".__{artifact}")
    ]
    if not found:
        raise RuntimeError(
            f"torch {torch.__version__} has no log artifact {artifact!r}; fxopt needs torch 2.11 or newer"
        )
    before = [(logger, logger.level, logger.propagate) for logger in found]
    for logger in found:
        # An artifact that nobody asked for would otherwise reach the handlers of its parents.
        logger.propagate = logger.propagate and logger.isEnabledFor(logging.DEBUG)
        logger.setLevel(logging.DEBUG)
        logger.addHandler(listener)
    try:
        yield listener.messages
    finally:
        for logger, level, propagate in before:
            logger.removeHandler(listener)
            logger.setLevel(level)
            logger.propagate = propagate


@contextmanager
def without_repeated_warnings() -> Iterator[None]:
    """Keep torch from printing warnings about a graph break or failure that is reported as data."""

    def is_news(record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(_REPEATED_IN_THE_REPORT[record.name])

    loggers = [logging.getLogger(name) for name in _REPEATED_IN_THE_REPORT]
    for logger in loggers:
        logger.addFilter(is_news)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_news)
