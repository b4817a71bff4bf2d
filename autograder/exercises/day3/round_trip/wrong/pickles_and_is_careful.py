"""class is missing there

Saves the object and loads it in the safe way, which refuses unknown classes.
"""


def save_model(model, example, path):
    torch.save(model, path)


LOADER = """
import sys, torch
program_path, inputs_path, outputs_path = sys.argv[1:]
model = torch.load(program_path)
torch.save([model(x).detach() for x in torch.load(inputs_path)], outputs_path)
"""


def make_loader():
    return LOADER
