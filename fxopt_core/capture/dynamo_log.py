"""Hearing what Dynamo tells its own debug log, without printing it and without changing the user's log settings.

Dynamo offers no complete record of its graph breaks. Measured on torch 2.13 with a model whose loop prints:
`torch._dynamo.explain(...).break_reasons`, `torch._dynamo.utils.graph_break_reasons` and
`counters["graph_break"]` are all empty, since Dynamo leaves the whole function to Python; and a
data-dependent `if` appears there only as `generic_jump TensorVariable()`. The log that
`TORCH_LOGS=graph_breaks` prints has both, with reason, file and line. Likewise the sizes that a guard compares
are in the log of `TORCH_LOGS=guards`, not in `explain(...).out_guards`.

What is read here is what Dynamo wrote; the workbench puts it into words for people (`Extension.explain`).
"""

from __future__ import annotations

import linecache
import logging
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_REPEATED_IN_THE_REPORT: dict[str, str | tuple[str, ...]] = {
    "torch._dynamo.variables.tensor": "Graph break from",
    "torch.fx.experimental.symbolic_shapes": ("Unable to find user code corresponding to", "propagate_real_tensors"),
    "torch._guards": ("Error while creating guard", "Created at"),
}
"""Logger, and how the warnings begin that say what a graph break or an error says anyway."""

_BREAK = re.compile(
    r"^Graph break .*?in user code at (?P<file>.+):(?P<line>\d+)\nGraph Break Reason: (?P<reason>.*)", re.DOTALL
)
_LEFT_TO_PYTHON = re.compile(r"falling back to eager|then skipping the rest of the function")
_GUARD = re.compile(r"^[|\s]*\+- (?P<kind>[A-Z][A-Z0-9_]*): (?P<expression>.+)$", re.MULTILINE)


@dataclass(frozen=True)
class GraphBreak:
    """One place where Dynamo had to end a graph.

    Attributes:
        reason: what it could not do. With the workbench, the first line says that and PyTorch's number for it
            (`[GB0059]`); where the break had a further consequence, a second line says which. Without the workbench,
            it is all that Dynamo wrote.
        file: file of the line that could not be captured, or `<ipython-input-…>` in a notebook.
        line: its number, from 1.
        source: the line itself, without indentation; empty where Python cannot find it.
        hints: what PyTorch advises.
        documentation: address of PyTorch's page about this kind of break, where there is one.
        skips_function: whether Dynamo left (the rest of) the whole function to Python, so that
            nothing of it is in any graph.
        times: how often Dynamo stopped there. A break inside a called function counts for the caller
            and for the function.
    """

    reason: str
    file: str
    line: int
    source: str
    hints: tuple[str, ...] = field(default=(), compare=False)
    documentation: str | None = field(default=None, compare=False)
    skips_function: bool = False
    times: int = 1

    @property
    def location(self) -> str:
        """`file:line`, which editors and terminals make a link of."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Guard:
    """One condition under which a captured graph may be used again.

    Attributes:
        expression: the condition. With the workbench, it is readable: `x: Tensor, torch.float32, …, size=[2, 4], …`,
            `type(self) is Net`, without memory addresses, so that two runs agree.
        kind: Dynamo's name for the check (`TENSOR_MATCH`, `TYPE_MATCH`, …). Of other methods: `VALUE` where Python
            read a value, else `SIZE`, `RANGE`, `SHAPE`, `CONSTANT`, …
        source: the user's line for whose sake it is checked; empty for conditions on the whole
            program (grad mode, default device).
        location: file (its end) and line of that source, and the function.
    """

    expression: str
    kind: str
    source: str = ""
    location: str = ""


def graph_breaks(messages: Iterable[str]) -> tuple[GraphBreak, ...]:
    """The messages of Dynamo's `graph_breaks` log.

    Messages of another form (there are none in torch 2.13) are no graph breaks and left out.
    """
    return tuple(
        GraphBreak(
            found["reason"],
            found["file"],
            int(found["line"]),
            linecache.getline(found["file"], int(found["line"])).strip(),
            skips_function=_LEFT_TO_PYTHON.search(found["reason"]) is not None,
        )
        for found in map(_BREAK.match, messages)
        if found is not None
    )


def guards(messages: Iterable[str]) -> tuple[Guard, ...]:
    """The messages of Dynamo's `guards` log, each guard once."""
    found = (one for message in messages for one in _GUARD.finditer(message))
    return tuple(dict.fromkeys(Guard(one["expression"], one["kind"]) for one in found))


@contextmanager
def messages_of(artifact: str) -> Iterator[list[str]]:
    """Collect what is logged for one of torch's log artifacts (`graph_breaks`, `guards`) inside the block.

    They are heard whatever the program has switched off, and nothing is printed that would not be printed anyway.

    Raises:
        RuntimeError: this torch has no such artifact.
    """
    import torch._dynamo  # registers the loggers that are listened to

    names = [name for name in logging.root.manager.loggerDict if name.endswith(f".__{artifact}")]
    if not names:
        raise RuntimeError(
            f"torch {torch.__version__} has no log artifact {artifact!r}; fxopt needs torch 2.11 or newer"
        )
    loggers = [logging.getLogger(name) for name in names]
    # `logging.disable` and the `disable_existing_loggers` of a configuration silence a logger whatever its level says.
    shown = {logger.name: (logger.disabled, logger.isEnabledFor) for logger in loggers}
    messages: list[str] = []

    def hear(record: logging.LogRecord) -> bool:
        messages.append(record.getMessage())
        disabled, is_enabled_for = shown[record.name]
        return not disabled and is_enabled_for(record.levelno)

    for logger in loggers:
        logger.disabled = False
        vars(logger)["isEnabledFor"] = lambda level: True
        logger.addFilter(hear)
    try:
        yield messages
    finally:
        for logger in loggers:
            logger.removeFilter(hear)
            del vars(logger)["isEnabledFor"]
            logger.disabled = shown[logger.name][0]


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
