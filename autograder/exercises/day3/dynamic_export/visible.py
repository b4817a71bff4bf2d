"""The learner's side: a reader of token sequences, the visible cases, the probe and what the check shows."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.export import ExportedProgram

from autograder.exchange.evidence import Case, Evidence
from autograder.exchange.graph_form import GraphFormatError, encode
from autograder.exchange.ranges import promised_ranges

VOCABULARY, WIDTH, CLASSES = 40, 8, 3


class Reader(nn.Module):
    """Classifies sequences of tokens; the first `skip` of them are a prompt that does not count.

    Takes `tokens` of shape (batch, length), `int64`, and `mask` of the same shape, `float32`, 1 where a token counts.
    """

    def __init__(self, positions: int, skip: int) -> None:
        super().__init__()
        self.words, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(positions, WIDTH)
        self.dropout, self.head = nn.Dropout(0.3), nn.Linear(WIDTH, CLASSES)
        self.skip = skip

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(batch, length) twice to (batch, classes)."""
        batch, length = tokens.shape
        hidden = self.words(tokens.flatten()).reshape(batch, length, -1)
        position = torch.arange(length, device=tokens.device)
        hidden = torch.tanh(self.dropout(hidden + self.positions(position)))
        counts = (mask * (position >= self.skip)).unsqueeze(-1)
        return self.head((hidden * counts).sum(dim=1) / counts.sum(dim=1))


def visible_cases() -> list[Case]:
    """An example of several rows, and one of a single row."""
    return [
        Case("an example of three rows", {"positions": 32, "skip": 2, "batch": 3, "length": 7, "seed": 0}),
        Case("an example of one row", {"positions": 20, "skip": 3, "batch": 1, "length": 9, "seed": 1}),
    ]


def build(case: Case) -> tuple[Reader, tuple[torch.Tensor, torch.Tensor]]:
    """The model, itself or only its parts in training mode as training left it, and one example of tokens and mask."""
    given = case.parameters
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(given["seed"])
        model = Reader(given["positions"], given["skip"])
        model.training = not given.get("only parts train", False)
        return model, draw_inputs(given["batch"], given["length"], given["skip"])


def draw_inputs(batch: int, length: int, skip: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random tokens, and a mask in which at least one token of each row counts."""
    mask = (torch.rand(batch, length) > 0.4).float()
    mask[:, skip:][:, :1] = 1.0
    return torch.randint(VOCABULARY, (batch, length)), mask


def probe(case: Case, export_reader: Any) -> Evidence:
    """Let the learner export; graph and promised ranges travel."""
    model, example = build(case)
    try:
        program = export_reader(model, example)
    except NotImplementedError:
        raise
    except Exception as error:
        # torch.export refuses with many types of its own; what is no refusal is the learner's to see as it is.
        if not type(error).__module__.startswith("torch."):
            raise
        return Evidence({"kind": "refused", "text": f"{type(error).__name__}: {error}"[:6000]})
    if not isinstance(program, ExportedProgram):
        return Evidence({"kind": type(program).__name__})
    evidence = Evidence({"kind": "program", "ranges": promised_ranges(program)})
    try:
        evidence.graphs["graph"] = encode(program.module())
    except GraphFormatError as error:
        evidence.values |= {"kind": "unreadable", "text": str(error)[:500]}
    return evidence


def show(case: Case, evidence: Evidence) -> list[Any]:
    """Shapes and ranges that the program promises."""
    if evidence.values["kind"] == "refused":
        said = [line for line in evidence.values["text"].splitlines() if line.strip()]
        return ["\n".join([f"{case.name}: what torch.export says", *(line[:300] for line in said[:4])])]
    lines = [f"{case.name}: what your program promises"]
    for graph in evidence.graphs.values():
        for node in graph.document["modules"][-1]["nodes"]:
            if node["op"] == "placeholder" and node["value"]:
                lines.append(f"  {node['name']}: {tuple(node['value']['shape'])}".replace("'", ""))
    for name, (lower, upper) in evidence.values.get("ranges", {}).items():
        lines.append(f"  {name} from {lower} to {'any number' if upper is None else upper}")
    return ["\n".join(lines)]
