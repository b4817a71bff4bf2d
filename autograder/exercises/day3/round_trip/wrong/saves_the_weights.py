"""weights without program

Saves a state_dict and calls it.
"""


def save_model(model, example, path):
    torch.save(model.state_dict(), path)


LOADER = """
import sys, torch
program_path, inputs_path, outputs_path = sys.argv[1:]
model = torch.load(program_path)
torch.save([model(x) for x in torch.load(inputs_path)], outputs_path)
"""


def make_loader():
    return LOADER
