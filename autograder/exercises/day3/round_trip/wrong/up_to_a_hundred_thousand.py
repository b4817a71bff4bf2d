"""range with an end

Copies the range of another task.
"""


def save_model(model, example, path):
    sizes = ({0: torch.export.Dim("batch", min=1, max=100_000)},)
    torch.export.save(torch.export.export(model, (example.repeat(2, 1),), dynamic_shapes=sizes), path)


LOADER = """
import sys, torch
program_path, inputs_path, outputs_path = sys.argv[1:]
run = torch.export.load(program_path).module()
torch.save([run(x).detach() for x in torch.load(inputs_path)], outputs_path)
"""


def make_loader():
    return LOADER
