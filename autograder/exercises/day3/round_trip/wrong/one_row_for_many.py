"""example of one row

Exports with the example as it comes.
"""


def save_model(model, example, path):
    sizes = ({0: torch.export.Dim("batch", min=1)},)
    torch.export.save(torch.export.export(model, (example,), dynamic_shapes=sizes), path)


LOADER = """
import sys, torch
program_path, inputs_path, outputs_path = sys.argv[1:]
run = torch.export.load(program_path).module()
torch.save([run(x).detach() for x in torch.load(inputs_path)], outputs_path)
"""


def make_loader():
    return LOADER
