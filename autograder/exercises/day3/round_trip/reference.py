"""The reference answer of round_trip, made from its notebook by `make notebooks`."""

import torch
from torch import nn


def save_model(model: nn.Module, example: torch.Tensor, path: str) -> None:
    """Write to `path` all that is needed to run `model` on batches (batch, width) of any size."""
    several = example.repeat(2, 1)  # an example of one row is no example of many
    program = torch.export.export(model, (several,), dynamic_shapes=({0: torch.export.Dim("batch", min=1)},))
    torch.export.save(program, path)


def make_loader() -> str:
    """The source of the program that runs in the fresh process."""
    lines = [
        "import sys",
        "import torch",
        "program_path, inputs_path, outputs_path = sys.argv[1:]",
    ]
    lines += [
        "run = torch.export.load(program_path).module()",
        "with torch.no_grad():",
        "    outputs = [run(x) for x in torch.load(inputs_path)]",
        "torch.save(outputs, outputs_path)",
    ]
    return "\n".join(lines)
