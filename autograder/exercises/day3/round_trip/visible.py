"""The learner's side: a trained model, the visible cases, the probe with its fresh process, and what is shown."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import nn

from autograder.exchange.evidence import Case, Evidence

SECONDS = 60
"""Longest that the fresh process may run."""

MOST_CHARACTERS = 20_000
"""Longest program that the fresh process is given; what is beyond is cut off."""


class Scorer(nn.Module):
    """Two layers after a normalisation that was measured in training. Takes `x` of shape (batch, width), `float32`."""

    mean: torch.Tensor
    scale: torch.Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, 6), nn.Linear(6, 2)
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("scale", torch.ones(width), persistent=False)  # state_dict leaves it out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, width) to (batch, 2)."""
        return self.second(torch.tanh(self.first((x - self.mean) * self.scale)))


# As with a class that you write in a notebook, pickle finds it by this name, and only in the process that made it.
Scorer.__module__ = "__main__"


MOST_BYTES = 8 << 20
"""Largest file that goes on the trip; the programs of these models take some twenty thousand bytes."""


def visible_cases() -> list[Case]:
    """One model, sent off with an example of three rows and asked about other batches."""
    parameters = {"width": 5, "batch": 3, "seed": 0}
    return [Case("batches of 3, 1 and 8", parameters, kept={"batches": [3, 1, 8], "seed": 1})]


def build(case: Case) -> tuple[Scorer, torch.Tensor]:
    """The trained model in eval mode, and the example."""
    given = case.parameters
    generator = torch.Generator().manual_seed(given["seed"])
    model = Scorer(given["width"]).eval()
    with torch.no_grad():
        for value in [*model.parameters(), *model.buffers()]:
            value.uniform_(-1.0, 1.0, generator=generator)
    return model, torch.randn(given["batch"], given["width"], generator=generator)


def inputs_of(case: Case) -> list[torch.Tensor]:
    """The inputs that the fresh process is asked about; while a task is graded only the judge can make them."""
    generator = torch.Generator().manual_seed(case.kept["seed"])
    width = case.parameters["width"]
    return [torch.randn(batch, width, generator=generator) for batch in case.kept["batches"]]


def probe(case: Case, save_model: Any, make_loader: Any) -> Evidence:
    """Let the learner save the model; the file and the loader's source travel."""
    model, example = build(case)
    loader = make_loader()
    if not isinstance(loader, str):
        return Evidence({"stage": "loader", "text": type(loader).__name__})
    setattr(sys.modules["__main__"], "Scorer", Scorer)  # noqa: B010
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "model.pt2"
        try:
            save_model(model, example.clone(), str(path))
        except Exception as error:
            if "constant (1)" not in str(error):
                raise  # what is no refusal of one row is the learner's to see as it is
            return Evidence({"stage": "exporting", "text": str(error).splitlines()[0][:200]})
        if not path.is_file() or path.stat().st_size == 0:
            return Evidence({"stage": "saving", "text": ""})
        if path.stat().st_size > MOST_BYTES:
            return Evidence({"stage": "too large", "text": f"{path.stat().st_size} bytes, {MOST_BYTES} at most"})
        content = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)
    return Evidence({"stage": "saved", "loader": loader[:MOST_CHARACTERS]}, {"file": content})


def fresh(case: Case) -> Evidence:
    """Run the loader on the file and on inputs that nobody has seen, in a fresh Python process and an empty folder."""
    inputs = [case.tensors[f"input{number}"] for number in range(case.parameters["inputs"])]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "model.pt2").write_bytes(bytes(case.tensors["file"].tolist()))
        torch.save(inputs, folder / "inputs.pt")
        program = ["-c", case.parameters["loader"], "model.pt2", "inputs.pt", "outputs.pt"]
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        try:
            finished = subprocess.run(
                [sys.executable, "-I", "-W", "ignore", *program],
                cwd=folder,
                env=environment | {"OMP_NUM_THREADS": "1"},
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Evidence({"stage": "running", "text": f"no end after {SECONDS} s"})
        if finished.returncode != 0:
            return Evidence({"stage": "running", "text": finished.stderr[-4000:]})
        if not (folder / "outputs.pt").is_file():
            return Evidence({"stage": "outputs", "text": "no file"})
        outputs = torch.load(folder / "outputs.pt", weights_only=True)
    if not isinstance(outputs, list) or not all(isinstance(output, torch.Tensor) for output in outputs):
        return Evidence({"stage": "outputs", "text": type(outputs).__name__})
    return Evidence({"stage": "done", "count": len(outputs)}, {f"output{i}": value for i, value in enumerate(outputs)})


def show(case: Case, evidence: Evidence) -> list[Any]:
    """How far the round trip came."""
    values = evidence.values
    if values["stage"] != "done":
        last = [line for line in str(values["text"]).splitlines() if line.strip()][-3:]
        return ["\n".join([f"{case.name}: the trip ended at the stage {values['stage']!r}", *last])]
    (model, _), inputs = build(case), inputs_of(case)
    lines = [f"{case.name}: what came back from the fresh process"]
    for number, x in enumerate(inputs):
        output = evidence.tensors.get(f"output{number}")
        if output is not None and output.shape == (len(x), 2):
            with torch.no_grad():
                lines.append(f"  batch {len(x)}: largest difference {float((output - model(x)).abs().max()):.1e}")
        elif output is not None:
            lines.append(f"  batch {len(x)}: an output of shape {tuple(output.shape)}")
    return ["\n".join(lines)]
