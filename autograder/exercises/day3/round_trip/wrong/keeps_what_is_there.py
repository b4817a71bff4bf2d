"""earlier file is still there

Takes a file that is there for one that it wrote before.
"""

from pathlib import Path


def save_model(model, example, path):
    if Path(path).exists():
        return
    sizes = ({0: torch.export.Dim("batch", min=1)},)
    program = torch.export.export(model, (example.repeat(2, 1),), dynamic_shapes=sizes)
    torch.export.save(program, path)


LOADER = """
import sys, torch
run = torch.export.load(sys.argv[1]).module()
torch.save([run(x).detach() for x in torch.load(sys.argv[2])], sys.argv[3])
"""


def make_loader():
    return LOADER
