"""class is missing there

Saves the object.
"""


def save_model(model, example, path):
    torch.save(model, path)


LOADER = """
import sys, torch
program_path, inputs_path, outputs_path = sys.argv[1:]
model = torch.load(program_path, weights_only=False)
with torch.no_grad():
    torch.save([model(x) for x in torch.load(inputs_path)], outputs_path)
"""


def make_loader():
    return LOADER
