"""number of outputs

Keeps the outputs by batch size, so that the second of two equal sizes takes the place of the first.
"""

import torch
from torch.export import Dim, export


def save_model(model, example, path):
    if example.shape[0] < 2:
        example = example.repeat(2, 1)
    program = export(model.eval(), (example,), dynamic_shapes=({0: Dim("batch", min=1)},))
    torch.export.save(program, path)


def make_loader():
    lines = [
        "import sys",
        "import torch",
        "program_path, inputs_path, outputs_path = sys.argv[1:]",
        "run = torch.export.load(program_path).module()",
        "inputs = torch.load(inputs_path)",
        "outputs = {len(value): run(value).detach() for value in inputs}",
        "torch.save(list(outputs.values()), outputs_path)",
    ]
    return "\n".join(lines)
