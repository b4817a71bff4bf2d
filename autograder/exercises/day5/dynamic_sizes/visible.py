"""The learner's side: models that hold some of their sizes fixed, the visible cases and the probe."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence


class Dense(nn.Module):
    """A linear layer: the last size is that of its weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to (batch, length, 3)."""
        return self.layer(x)


class Masked(nn.Module):
    """Tokens and a mask of the same shape."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words = nn.Embedding(20, width)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(batch, length) each to (batch, width)."""
        return (self.words(tokens) * mask.unsqueeze(-1)).sum(dim=1)


class Matched(nn.Module):
    """Two lists of vectors: each of one with each of the other."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """(rows, width) and (columns, width) to (rows, columns)."""
        return left @ right.transpose(0, 1)


class Reshaped(nn.Module):
    """Written for pictures of one size: the rows are a number in the program."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width, columns) to (batch, width * columns)."""
        return x.reshape(x.shape[0], self.width * x.shape[2]) * 2


class Placed(nn.Module):
    """A table holds a vector for each place: a sequence is as long as the table at most."""

    ROWS = 12

    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.ones(self.ROWS, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length, width) to the same, where length is 12 at most."""
        if x.shape[1] > self.ROWS:
            raise ValueError(f"{x.shape[1]} places, and the table has {self.ROWS}")
        return x + self.table[: x.shape[1]]


class Square(nn.Module):
    """A matrix and itself, turned: both of its sizes are one size."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, rows) to the same."""
        return x + x.transpose(0, 1)


class Three(nn.Module):
    """Three inputs of one shape."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.words, self.kinds = nn.Embedding(20, width), nn.Embedding(3, width)

    def forward(self, tokens: torch.Tensor, kinds: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(batch, length) each to (batch, width)."""
        return ((self.words(tokens) + self.kinds(kinds)) * mask.unsqueeze(-1)).sum(dim=1)


class Shifted(nn.Module):
    """One row is added to each row: it has one row, whatever the other input has."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: torch.Tensor, row: torch.Tensor) -> torch.Tensor:
        """(batch, columns) and (1, columns) to (batch, columns)."""
        if row.shape[0] != 1:
            raise ValueError("expected a single row")
        return x + row


class Paired(nn.Module):
    """Two rows of the longer input for each row of the shorter one."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, short: torch.Tensor, long: torch.Tensor) -> torch.Tensor:
        """(rows, columns) and (2 * rows, columns) to (2 * rows, columns)."""
        return torch.cat([short, short]) + long


class Proportional(nn.Module):
    """Two rows of one input and three of another for each row of the shortest."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, short: torch.Tensor, double: torch.Tensor, triple: torch.Tensor) -> torch.Tensor:
        """(rows, columns), (2 * rows, columns) and (3 * rows, columns) to (5 * rows, columns)."""
        return torch.cat([torch.cat([short] * 2) + double, torch.cat([short] * 3) + triple])


class Windowed(nn.Module):
    """Written for sequences of four places or more."""

    LEAST = 4

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, length) to the same, where length is 4 at least."""
        if x.shape[1] < self.LEAST:
            raise ValueError(f"{x.shape[1]} places, and at least {self.LEAST} are needed")
        return x * 2


class Both(nn.Module):
    """Two inputs, each of the width of its own weights."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(width, 3), nn.Linear(width, 3)

    def forward(self, one: torch.Tensor, other: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        """(batch, width) each, and a number (), to (batch, 3)."""
        return (self.one(one) + self.other(other)) * scale


class Product(nn.Module):
    """A product of two matrices: what is the last size of one is the first of the other."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """(rows, width) and (width, columns) to (rows, columns)."""
        return left @ right


MODELS: dict[str, type[nn.Module]] = {"dense": Dense, "masked": Masked, "matched": Matched, "reshaped": Reshaped}
MODELS |= {"placed": Placed, "square": Square, "three": Three, "shifted": Shifted}
MODELS |= {"paired": Paired, "windowed": Windowed, "both": Both, "product": Product, "proportional": Proportional}
"""By name."""


def visible_cases() -> list[Case]:
    """Each model; one of the examples has a single row."""
    return [
        Case("a linear layer", {"model": "dense", "width": 4, "sizes": [3, 5]}),
        Case("two inputs of one shape", {"model": "masked", "width": 4, "sizes": [3, 6]}),
        Case("each with each", {"model": "matched", "width": 6, "sizes": [5, 5]}),
        Case("a number in the program", {"model": "reshaped", "width": 5, "sizes": [2, 7]}),
        Case("a table of twelve places", {"model": "placed", "width": 4, "sizes": [3, 5]}),
        Case("weights of width one", {"model": "dense", "width": 1, "sizes": [3, 5]}),
        Case("a batch of one", {"model": "dense", "width": 4, "sizes": [1, 5]}),
    ]


def make_example(case: Case) -> dict[str, torch.Tensor]:
    """The example inputs by name; with `same`, all names hold one tensor, as where a sequence attends to itself."""
    made = _example(case)
    if case.parameters.get("same"):
        return dict.fromkeys(made, next(iter(made.values())))
    return made


def _example(case: Case) -> dict[str, torch.Tensor]:
    given = case.parameters
    width, (first, second) = given["width"], given["sizes"]
    if given["model"] == "dense":
        return {"x": torch.ones(first, second, width)}
    if given["model"] == "masked":
        example = {"tokens": torch.ones(first, second, dtype=torch.long), "mask": torch.ones(first, second)}
        return dict(reversed(example.items())) if given.get("reversed") else example
    if given["model"] == "paired":
        return {"short": torch.ones(first, second), "long": torch.ones(2 * first, second)}
    if given["model"] == "proportional":
        return {name: torch.ones(times * first, second) for times, name in enumerate(("short", "double", "triple"), 1)}
    if given["model"] == "windowed":
        return {"x": torch.ones(first, second)}
    if given["model"] == "both":
        return {"one": torch.ones(first, width), "other": torch.ones(first, width), "scale": torch.tensor(2.0)}
    if given["model"] == "product":
        return {"left": torch.ones(first, width), "right": torch.ones(width, second)}
    if given["model"] == "three":
        return {name: torch.ones(first, second, dtype=torch.long) for name in ("tokens", "kinds", "mask")}
    if given["model"] == "square":
        return {"x": torch.ones(first, first)}
    if given["model"] == "shifted":
        return {"x": torch.ones(first, second), "row": torch.ones(1, second)}
    if given["model"] == "placed":
        return {"x": torch.ones(first, second, width)}
    if given["model"] == "matched":
        return {"left": torch.ones(first, width), "right": torch.ones(second, width)}
    return {"x": torch.ones(first, width, second)}


def probe(case: Case, dynamic_sizes: Any) -> Evidence:
    """Let the learner find out; names and numbers come back."""
    found = dynamic_sizes(MODELS[case.parameters["model"]](case.parameters["width"]).eval(), make_example(case))
    sizes = None
    if isinstance(found, dict):
        sizes = {str(name): _plain(entry) for name, entry in found.items()}
    return Evidence({"sizes": sizes})


def _plain(entry: Any) -> list[int | str] | None:
    """A list of numbers and names, or `None`."""
    if not isinstance(entry, (list, tuple)) or not all(type(size) in (int, str) for size in entry):
        return None
    return list(entry)


def show(case: Case, evidence: Evidence) -> list[Any]:
    """The example's shapes beside the learner's."""
    lines = [f"{case.name}: sizes of the example, and what you found"]
    for name, value in make_example(case).items():
        lines.append(f"  {name:7} {list(value.shape)!s:12} {(evidence.values['sizes'] or {}).get(name)}")
    return ["\n".join(lines)]
