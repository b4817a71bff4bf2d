"""froze the batch size

Exports for the example only.
"""


def save_model(model, example, path):
    torch.export.save(torch.export.export(model, (example,)), path)


LOADER = """
import sys, torch
program_path, inputs_path, outputs_path = sys.argv[1:]
run = torch.export.load(program_path).module()
torch.save([run(x).detach() for x in torch.load(inputs_path)], outputs_path)
"""


def make_loader():
    return LOADER
