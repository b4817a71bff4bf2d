"""Which model, on which device: the options that commands share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from fxopt_core.suggestions import did_you_mean

if TYPE_CHECKING:
    import torch

    from fxopt_workbench.zoo import ZooModel

Device = Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, mps; by default, the best one here.")]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", help="For a model in a file, once for each argument: 1,3,224,224 or int64:2,16."),
]
Trust = Annotated[
    bool, typer.Option("--trust", help="Load a file although it can run any code: you know where it comes from.")
]

MOST_LISTED = 12
"""How many known names a message lists where none is near."""

COPIES = 2
"""How often the weights are held at least while a model is captured: the model and the copy that is captured."""


def build_to_run(
    name: str,
    device: torch.device,
    inputs: Sequence[str] | None = None,
    *,
    trust: bool = False,
    keep_mode: bool = False,
) -> ZooModel:
    """A model to capture and run.

    Args:
        name: as for `zoo.build`.
        device: where it shall run.
        inputs: for a model in a file.
        trust: for a model in a file.
        keep_mode: for one's own model.

    Raises:
        ModelTooLargeError: the device has no room for its weights and a copy; nothing was allocated.
        ValueError: as `zoo.build` does.
    """
    from fxopt_workbench import zoo
    from fxopt_workbench.hardware.this_machine import memory_bytes
    from fxopt_workbench.tables import format_bytes

    if name in zoo.names("published"):
        parameters = zoo.build(name, "meta").model.parameters()
        needed, there = COPIES * sum(parameter.nbytes for parameter in parameters), memory_bytes(device)
        if needed > there:
            raise zoo.ModelTooLargeError(
                f"{name} needs at least {format_bytes(needed)} to be captured and run; {device} has "
                f"{format_bytes(there)}. fxopt analyze --model {name} says what it costs without running it."
            )
    return zoo.build(name, device, inputs=inputs or (), trust=trust, keep_mode=keep_mode)


def split_names(given: str, kind: str) -> list[str]:
    """The names in a list with commas.

    Raises:
        ValueError: there is none.
    """
    names = [name.strip() for name in given.split(",") if name.strip()]
    if not names:
        raise ValueError(f"{given!r} does not name any {kind}; expected names with commas between them.")
    return names


def chosen_names(kind: str, given: str | None, known: Sequence[str]) -> list[str]:
    """The names in a list with commas, each once; all if there is none.

    Raises:
        ValueError: a name is not known; it offers near ones.
    """
    if given is None:
        return list(known)
    names = split_names(given, kind)
    for name in names:
        if name not in known:
            more = "…" if len(known) > MOST_LISTED else ""
            listed = f"They are {', '.join(known[:MOST_LISTED])}{more}"
            hint = did_you_mean(name, known, most=3).strip() or listed
            raise ValueError(f"there is no {kind} {name!r}. {hint}")
    return list(dict.fromkeys(names))
