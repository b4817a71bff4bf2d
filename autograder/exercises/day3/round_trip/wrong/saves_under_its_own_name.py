"""nothing saved

Does not write to the path that it is given.
"""

import io


def save_model(model, example, path):
    sizes = ({0: torch.export.Dim("batch", min=1)},)
    torch.export.save(torch.export.export(model, (example,), dynamic_shapes=sizes), io.BytesIO())


LOADER = """
import sys, torch
program_path, inputs_path, outputs_path = sys.argv[1:]
"""


def make_loader():
    return LOADER
