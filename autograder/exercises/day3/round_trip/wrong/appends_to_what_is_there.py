"""earlier file is still there

Opens the file to append, as for a log.
"""

import io
from pathlib import Path


def save_model(model, example, path):
    sizes = ({0: torch.export.Dim("batch", min=1)},)
    program = torch.export.export(model, (example.repeat(2, 1),), dynamic_shapes=sizes)
    memory = io.BytesIO()
    torch.export.save(program, memory)
    with Path(path).open("ab") as file:
        file.write(memory.getvalue())


LOADER = """
import sys, torch
run = torch.export.load(sys.argv[1]).module()
torch.save([run(x).detach() for x in torch.load(sys.argv[2])], sys.argv[3])
"""


def make_loader():
    return LOADER
