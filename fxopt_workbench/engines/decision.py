"""What was tried, how fast each engine was, which was refused and why, and what was taken."""

from __future__ import annotations

import hashlib
import os
import platform
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from fxopt_core.benchmark import Measurement
from fxopt_core.devices import device_name
from fxopt_core.display import Displayable
from fxopt_core.verification import Tolerance
from fxopt_workbench.engines import showing
from fxopt_workbench.engines.engine import EAGER
from fxopt_workbench.files import replacing
from fxopt_workbench.tables import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fxopt_workbench.engines.saving import Saved


@dataclass(frozen=True)
class Trial:
    """What became of one engine.

    Attributes:
        engine: its name.
        setup_seconds: to make the program run: converting and compiling; `None` where it did not come to that.
        seconds: of each timed call; empty where none was timed.
        largest_error: of all compared outputs, in units of their values; `None` where none was compared.
        refusal: why it was not eligible; empty where it was.
        caveat: what it does otherwise without being refused for it: with infinities and NaN, for one.
    """

    engine: str
    setup_seconds: float | None = None
    seconds: tuple[float, ...] = ()
    largest_error: float | None = None
    refusal: str = ""
    caveat: str = ""

    @property
    def measurement(self) -> Measurement | None:
        """The timed calls."""
        return Measurement(self.seconds) if self.seconds else None

    def speed_up(self, eager: Trial) -> tuple[float, float, float] | None:
        """How many times as fast as `eager` it was in each round: first quartile, median, third quartile."""
        ratios = [other / own for own, other in zip(self.seconds, eager.seconds, strict=False)]
        if not ratios:
            return None
        if len(ratios) == 1:
            return ratios[0], ratios[0], ratios[0]
        low, _, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return low, statistics.median(ratios), high


@dataclass(frozen=True)
class Decision(Displayable):
    """Which engine runs a model, and why.

    Attributes:
        taken: the name of the engine.
        why: in a sentence.
        trials: what became of each engine, `eager` first.
        tolerance: how far an engine's values might be off.
        budget: seconds that were to be spent.
        spent: seconds that were.
        threads: that each engine had.
        device: what it was measured on, in words.
        versions: of Python, torch and what the engines need.
        program: a digest of the graph and its weights.
        folder: where the compiled artefact lies while this process runs; not part of the decision.
    """

    taken: str
    why: str
    trials: tuple[Trial, ...]
    tolerance: Tolerance
    budget: float
    spent: float
    threads: int
    device: str
    versions: dict[str, str]
    program: str
    folder: Path | None = field(default=None, compare=False, repr=False)

    def __getitem__(self, engine: str) -> Trial:
        """What became of an engine.

        Raises:
            KeyError: it was not tried; the message says which were.
        """
        for trial in self.trials:
            if trial.engine == engine:
                return trial
        raise KeyError(f"{engine!r} was not tried; tried were {', '.join(one.engine for one in self.trials)}")

    def tables(self) -> Sequence[Table]:
        """What was taken and why, and a row for each engine."""
        return showing.tables(self)

    def as_json(self) -> dict[str, Any]:
        """Everything as JSON values, in seconds."""
        return showing.document(self)

    def save(self, folder: Path | str) -> Path:
        """Write it with what its engine compiled; `Decision.load` takes it up again, on this machine and versions.

        Returns:
            The folder in `folder` that holds it, named after machine and versions.

        Raises:
            OSError: it cannot be written.
        """
        from fxopt_workbench.engines import save

        return save(self, folder)

    @staticmethod
    def load(folder: Path | str) -> Saved:
        """What `save` wrote, to be given as `engine`; it is compared with the model once more.

        Raises:
            StaleError: there is none for this machine and these versions.
        """
        from fxopt_workbench.engines import load

        return load(folder)

    def plot(self) -> Figure:
        """A bar for each engine that was timed, with its spread; `alt_text` says the same in words."""
        return showing.plot(self)

    def alt_text(self) -> str:
        """The picture of `plot` in words."""
        return showing.alt_text(self)

    def draw(self, path: Path) -> Path:
        """Write the picture (`.svg`), or the same in words (`.txt`).

        Returns:
            The path.
        """
        with replacing(path) as temporary:
            if path.suffix == ".txt":
                temporary.write_text(self.alt_text() + "\n", encoding="utf-8")
            else:
                self.plot().savefig(temporary, format="svg", metadata={"Date": None})
        return path

    @cached_property
    def measured(self) -> tuple[Trial, ...]:
        """The engines that were timed and not refused, the fastest first."""
        timed = [one for one in self.trials if one.seconds and not one.refusal]
        return tuple(sorted(timed, key=lambda one: statistics.median(one.seconds)))


def choose(trials: Sequence[Trial]) -> tuple[str, str]:
    """Which engine to take: the fastest, unless it is not faster than `eager` beyond the spread.

    Returns:
        Its name, and why.
    """
    eager = next((one for one in trials if one.engine == EAGER), None)
    if eager is None or not eager.seconds:
        return EAGER, "nothing could be measured in the time there was"
    compared = {
        one.engine: ratios
        for one in trials
        if one.engine != EAGER and not one.refusal and (ratios := one.speed_up(eager)) is not None
    }
    if not compared:
        return EAGER, "no other engine was right and ready"
    name, (low, middle, high) = max(compared.items(), key=lambda item: item[1][1])
    figures = f"{middle:.2f} times as fast as eager, the middle half of the rounds from {low:.2f} to {high:.2f}"
    if low <= 1:
        return EAGER, f"the fastest other one, {name}, is {figures}: no gain beyond the spread"
    return name, f"it is {figures}"


def machine() -> str:
    """This machine in words: two that differ in them may differ in what is fastest."""
    processor, place = platform.processor() or platform.machine(), Path("/proc/cpuinfo")
    if place.exists():
        named = [line for line in place.read_text().splitlines() if line.startswith("model name")]
        processor = named[0].partition(":")[2].strip() if named else processor
    return f"{platform.system()}, {processor} with {os.cpu_count()} cores ({device_name(torch.device('cpu'))})"


def base_versions() -> dict[str, str]:
    """The versions that every engine depends on."""
    return {"python": ".".join(map(str, sys.version_info[:3])), "torch": torch.__version__}


def digest(graph: torch.fx.GraphModule, example: Sequence[torch.Tensor]) -> str:
    """A digest of a graph, its weights and the sizes of its inputs."""
    found = hashlib.sha256()
    for node in graph.graph.nodes:
        found.update(f"{node.op} {node.target} {node.args} {node.kwargs}\n".encode())
        if node.op == "get_attr":
            value: Any = graph
            for part in str(node.target).split("."):
                value = getattr(value, part)
            if isinstance(value, torch.Tensor):
                found.update(f"{value.dtype} {tuple(value.shape)} {value.stride()}".encode())
                found.update(value.detach().contiguous().cpu().view(-1).view(torch.uint8).numpy().tobytes())
    for tensor in example:
        found.update(f"{tensor.dtype} {tuple(tensor.shape)} {tensor.stride()}\n".encode())
    return found.hexdigest()
