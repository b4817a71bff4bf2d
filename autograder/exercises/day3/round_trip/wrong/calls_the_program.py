"""loader failed

Calls the exported program itself, which wants its module() first.
"""


def save_model(model, example, path):
    sizes = ({0: torch.export.Dim("batch", min=1)},)
    torch.export.save(torch.export.export(model, (example,), dynamic_shapes=sizes), path)


LOADER = """
import sys, torch
program_path, inputs_path, outputs_path = sys.argv[1:]
program = torch.export.load(program_path)
torch.save([program(x) for x in torch.load(inputs_path)], outputs_path)
"""


def make_loader():
    return LOADER
