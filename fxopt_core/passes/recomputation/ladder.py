"""From the cheapest to the most sparing choice of segments, by predicted peak."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from fxopt_core.passes.recomputation.segments import Segment


@dataclass(frozen=True)
class Rung:
    """One choice of segments.

    Attributes:
        segments: names of the submodules to recompute.
        predicted_bytes: the peak that is expected.
        cost: what recomputing them costs, in the unit of `Segment.cost`.
    """

    segments: tuple[str, ...]
    predicted_bytes: int
    cost: float


class Prediction:
    """Predicts the peak of a step with some segments recomputed, and knows what one more would bring.

    A segment that is recomputed does not hold its saved bytes between the end of its forward and the start of its
    backward. There everything within it is gone; before and after, what is recomputed within it still saves its
    own part. So the live bytes of the unchanged step, less what is not held at each moment, are predicted.
    The second forward's own passing peak is left out.

    Time is cut into the intervals between the moments at which something changes.
    """

    def __init__(self, live_bytes: Sequence[int], segments: Sequence[Segment]) -> None:
        cuts = sorted({0, len(live_bytes) - 1, *(event for segment in segments for event in segment.held)})
        pairs = list(pairwise(cuts)) or [(0, 0)]
        self.live = torch.tensor([max(live_bytes[start : end + 1]) for start, end in pairs], dtype=torch.int64)
        starts = torch.tensor([start for start, _ in pairs])
        self.segments = {segment.name: segment for segment in segments}
        self.held = {s.name: (starts >= s.held[0]) & (starts < s.held[1]) for s in segments}
        self.below: dict[str, list[str]] = defaultdict(list)
        for name in self.segments:
            self.below[self._above(name)].append(name)
        self.chosen: set[str] = set()
        self.saved: dict[str, torch.Tensor] = {}
        self._update("")

    def _above(self, name: str) -> str:
        """The segment around a segment, or the whole model."""
        while "." in name:
            name = name.rpartition(".")[0]
            if name in self.segments:
                return name
        return ""

    def _update(self, name: str) -> torch.Tensor:
        """What is saved within a segment, with the chosen ones recomputed, by interval."""
        saved = torch.zeros_like(self.live)
        for inner in self.below.get(name, ()):
            saved = saved + self._update(inner)
        if name in self.chosen:
            saved = torch.where(self.held[name], self.segments[name].saved_bytes, saved)
        self.saved[name] = saved
        return saved

    def gain(self, name: str) -> torch.Tensor:
        """By how many bytes one more segment would lower each interval."""
        where = self.held[name]
        above = self._above(name)
        while above:
            if above in self.chosen:
                where = where & ~self.held[above]
            above = self._above(above)
        return torch.where(where, self.segments[name].saved_bytes - self.saved[name], 0)

    def choose(self, names: Sequence[str]) -> Rung:
        """Recompute these as well."""
        self.chosen.update(names)
        self._update("")
        order = [name for name in self.segments if name in self.chosen]
        cost = sum(self.segments[name].cost for name in order)
        return Rung(tuple(order), int(self.expected().max()), cost)

    def expected(self) -> torch.Tensor:
        """Predicted live bytes by interval."""
        return self.live - self.saved[""]


def ladder(live_bytes: Sequence[int], segments: Sequence[Segment], length: int) -> list[Rung]:
    """Choices of ever more segments, the predicted peak falling strictly and the cost rising.

    Greedily: next comes what lowers the predicted peak most for its cost, be it one segment or all of a kind (where
    equal blocks bound the peak alike, one alone lowers nothing). The choice does not depend on a budget and not on
    any clock, so equal steps have equal ladders.

    Args:
        live_bytes: of the unchanged step.
        segments: to choose from.
        length: most rungs; from a longer ladder, some are taken whose peaks are evenly spread, both ends among them.
    """
    prediction = Prediction(live_bytes, segments)
    rungs = [prediction.choose(())]
    kinds: dict[str, list[str]] = defaultdict(list)
    for segment in segments:
        kinds[segment.kind].append(segment.name)
    while True:
        best: tuple[float, list[str]] = (0.0, [])
        moves = [[name] for name in prediction.segments]
        moves += [names for names in kinds.values() if len(names) > 1]
        for move in moves:
            new = [name for name in move if name not in prediction.chosen]
            if not new:
                continue
            expected = prediction.expected() - sum(prediction.gain(name) for name in new)
            fall = rungs[-1].predicted_bytes - int(expected.max())
            worth = fall / sum(prediction.segments[name].cost or 1 for name in new)
            if worth > best[0]:
                best = (worth, new)
        if not best[1]:
            return _spread(rungs, length)
        rungs.append(prediction.choose(best[1]))


def _spread(rungs: list[Rung], length: int) -> list[Rung]:
    if len(rungs) <= length:
        return rungs
    top, bottom = rungs[0].predicted_bytes, rungs[-1].predicted_bytes
    goals = [top + (bottom - top) * place / (length - 1) for place in range(length)]
    # The first at or below each goal: what a budget of that size would take.
    numbers = {next(n for n, rung in enumerate(rungs) if rung.predicted_bytes <= goal) for goal in goals}
    return [rungs[number] for number in sorted(numbers)]
