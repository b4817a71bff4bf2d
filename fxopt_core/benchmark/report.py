"""What a benchmark found, as data."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from fxopt_core.benchmark.measuring import Measurement
from fxopt_core.display import Displayable


@dataclass(frozen=True)
class Candidate:
    """What was measured of one candidate.

    Attributes:
        name: its name.
        first_call_seconds: its first call after Dynamo was reset: compilation and one execution.
        measurement: its calls in the steady state.
        peak_bytes: most bytes of tensors that a call holds at a time; `None` where nothing measures them.
        graphs: graphs that Dynamo captured in the first call (0: nothing was compiled).
        operations: calls of functions, methods and modules in these graphs.
        largest_error: largest absolute difference from the first candidate's output; `None` without tensors.
        break_even_calls: after how many calls compiling has paid; infinite for never, `None` for the first.
    """

    name: str
    first_call_seconds: float
    measurement: Measurement
    peak_bytes: int | None
    graphs: int
    operations: int
    largest_error: float | None
    break_even_calls: float | None


@dataclass(frozen=True)
class BenchmarkReport(Displayable):
    """Measurements of several candidates, the first being what the others are compared with.

    Attributes:
        candidates: in the order in which they ran.
        device: such as `cpu`.
        device_name: what the device calls itself.
        torch_version: the version of PyTorch.
        threads: threads that PyTorch used on the CPU.
        warmup: calls a candidate that were not timed.
        repeats: calls a candidate that were.
        fresh_cache: whether Inductor's cache on disk was empty for each first call.
        notes: what makes these figures less certain.
    """

    candidates: tuple[Candidate, ...]
    device: str
    device_name: str
    torch_version: str
    threads: int
    warmup: int
    repeats: int
    fresh_cache: bool
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Candidate:
        """The candidate called `name`.

        Raises:
            KeyError: there is none; the message lists the names.
        """
        for candidate in self.candidates:
            if candidate.name == name:
                return candidate
        raise KeyError(f"no candidate {name!r}; there are {', '.join(c.name for c in self.candidates)}")

    def __iter__(self) -> Iterator[Candidate]:
        return iter(self.candidates)

    def to_json(self) -> str:
        """`as_json()` as text."""
        return json.dumps(self.as_json(), allow_nan=False, indent=2)
