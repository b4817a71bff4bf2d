"""code without weights

Writes the code of the graph, as the quick start does.
"""


def save_model(model, example, path):
    program = torch.export.export(model, (example,))
    with open(path, "w") as file:
        file.write(program.graph_module.code)


LOADER = """
import sys, torch
program_path, inputs_path, outputs_path = sys.argv[1:]
exec(open(program_path).read())
torch.save([forward(None, x) for x in torch.load(inputs_path)], outputs_path)
"""


def make_loader():
    return LOADER
