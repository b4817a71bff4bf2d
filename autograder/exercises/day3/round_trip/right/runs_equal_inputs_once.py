"""Keeps the answers by all the bytes of an input, so that equal ones are run once."""

import torch
from torch.export import Dim, export


def save_model(model, example, path):
    rows = example.repeat(2, 1)
    torch.export.save(export(model, (rows,), dynamic_shapes=({0: Dim("batch", min=1)},)), path)


LOADER = """
import sys, torch
program_path, inputs_path, outputs_path = sys.argv[1:]
run = torch.export.load(program_path).module()
known, outputs = {}, []
with torch.no_grad():
    for value in torch.load(inputs_path):
        key = (tuple(value.shape), value.numpy().tobytes())
        if key not in known:
            known[key] = run(value)
        outputs.append(known[key])
torch.save(outputs, outputs_path)
"""


def make_loader():
    return LOADER
