"""other answers

Collects the answers in the wrong order.
"""


def save_model(model, example, path):
    sizes = ({0: torch.export.Dim("batch", min=1)},)
    torch.export.save(torch.export.export(model, (torch.cat([example, example]),), dynamic_shapes=sizes), path)


LOADER = """
import sys, torch
program_path, inputs_path, outputs_path = sys.argv[1:]
run = torch.export.load(program_path).module()
outputs = []
for x in torch.load(inputs_path):
    outputs.insert(0, run(x).detach())
torch.save(outputs, outputs_path)
"""


def make_loader():
    return LOADER
